# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: 49 S7
# held: orphans that have ended are reaped by PID 1 and do not use up the box's processes
# expect: status=completed exit=0 stdout~HELD
# limits: --pids 32 --timeout 10
number=0
while [ "$number" -lt 100 ]; do
    # The subshell ends at once; what it started is left to PID 1.
    (true &) || exit 1
    number=$((number + 1))
done
echo HELD
