# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2016
# technique: 61 E9
# held: terminal control sequences arrive as data inside one well-formed answer
# expect: status=completed exit=0 stdout~HELD stderr~title
printf '\033]0;title\007\033]52;c;ZWNobyBwd25lZA==\007\033P$qm\033\\\033[6n' >&2
printf '\033[2J\033[H\033c\233\n'
printf '\r\n\b\bHELD\n'
