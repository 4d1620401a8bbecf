# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: S7
# held: waiting on a process of another session does not postpone the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
setsid -w sleep 60
