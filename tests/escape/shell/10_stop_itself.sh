# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: S7
# held: a shell that stops itself is ended at the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
kill -STOP $$
sleep 60
