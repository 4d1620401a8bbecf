# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: S5 S7
# held: a grandchild that keeps writing to stdout neither delays the answer nor survives
# expect: status=completed exit=0 stdout~HELD wall_s<=5
(setsid sh -c 'trap "" PIPE HUP; while :; do echo noise; sleep 0.05; done' &)
echo HELD
exit 0
