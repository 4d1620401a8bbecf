# SPDX-License-Identifier: Apache-2.0
# Writes commands that give another shell what this one has; read by a shell whose context is copied
# (src/runner/driver_shell.c). Not copied: jobs, open descriptors, and what bash itself sets.
# shellcheck shell=bash
{
    \compgen -v | while IFS= \read -r __husk_name; do
        case $__husk_name in
            _ | BASH | BASH_* | BASHOPTS | BASHPID | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME | GROUPS | HISTCMD) ;;
            LINENO | PIPESTATUS | PPID | RANDOM | SECONDS | SHELLOPTS | SRANDOM | UID | __husk_*) ;;
            *) \declare -p -- "$__husk_name" ;;
        esac
    done
    \declare -f
    \declare -F
    \alias -p
    \trap -p
    \umask -p
    \builtin printf 'cd -- %q\n' "$PWD"
    \builtin printf 'set --'
    [ $# -eq 0 ] || \builtin printf ' %q' "$@"
    \builtin printf '\n'
    \shopt -p
    \set +o
    \builtin printf ':\n'
} 2>/dev/null
