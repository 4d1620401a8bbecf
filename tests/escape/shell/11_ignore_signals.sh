# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: S7
# held: a shell that traps every signal and spins is ended at the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM TSTP TTIN TTOU
trap 'while :; do :; done' EXIT
while :; do :; done
