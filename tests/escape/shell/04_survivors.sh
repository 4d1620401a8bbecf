# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: 61 S7
# held: background jobs, nohup, setsid and disowned children end with the shell
# expect: status=completed exit=0 stdout~HELD stdout!~LATE wall_s<=5
(trap '' HUP TERM; while :; do sleep 0.1; done; echo LATE) &
nohup sh -c 'sleep 30; echo LATE' > /dev/null 2>&1 &
setsid sh -c 'sleep 30; echo LATE' &
(setsid sh -c '(sleep 30; echo LATE) &' &)
(exec sleep 30) &
echo HELD
exit 0
