# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2264
# technique: R1 61
# held: the classic shell fork bomb stops at the process limit and ends at the time limit
# expect: status=timeout processes<=32
# cause: timeout
# limits: --timeout 1 --pids 32
bomb() { bomb | bomb & }
bomb 2> /dev/null
while :; do sleep 1 2> /dev/null || :; done
