# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2016
# technique: 61
# held: PATH, IFS, ENV, BASH_ENV and exported functions change only the box's own shells
# expect: status=completed exit=0 stdout~HELD
mkdir -p bin
printf '#!/bin/sh\necho "planted $(/usr/bin/id -u)" >> /tmp/planted\n' > bin/ls
chmod 755 bin/ls
printf 'echo "startup $(id -u)" >> /tmp/planted\n' > rc
export PATH="$PWD/bin:$PATH" ENV="$PWD/rc" BASH_ENV="$PWD/rc"
env 'BASH_FUNC_cat%%=() { echo function; }' sh -c 'cat /dev/null'
ls / > /dev/null
sh -c 'true'
command -v bash > /dev/null && bash -c 'true'
printf 'interactive\n' | sh -i > /dev/null 2>&1
if grep -vE '^(planted|startup) 1000$' /tmp/planted; then
    echo "ESCAPED: something ran under another id"
    exit 1
fi
echo HELD
