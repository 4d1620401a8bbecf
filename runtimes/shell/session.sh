# SPDX-License-Identifier: Apache-2.0
# What a shell of a session reads first (src/runner/driver_shell.c).
# shellcheck shell=bash
PS1= PS2=
set +o history
unset HISTFILE MAILCHECK
shopt -u checkwinsize

# Reports the exit code of cell $1 to the driver, which is behind descriptor 0 between cells. It stays the last
# exit code, which the next cell may ask for.
__husk() {
    \builtin printf '%s %d\n' "$1" "$2" >&0
    return "$2"
}
