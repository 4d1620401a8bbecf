# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC3045
# technique: E17 S6
# held: a shell that ends by a core-dumping signal is reported so and leaves no core
# expect: status=crashed exit=139 stdout!~ESCAPED
# cause: signal
ulimit -c unlimited 2> /dev/null && echo "ESCAPED: core limit raised"
sh -c 'kill -SEGV $$'
ls core* 2> /dev/null && echo "ESCAPED: core file"
kill -SEGV $$
