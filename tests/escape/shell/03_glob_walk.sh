# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: 61 E18
# held: globbing upwards and through /proc finds no canary
# expect: status=completed exit=0 stdout~HELD
for found in /*/husk-canary-* /../*/husk-canary-* ../../*/husk-canary-* /root/* /home/* \
    /proc/[0-9]*/root/root/* /proc/[0-9]*/cwd/husk-canary-* /proc/[0-9]*/root/tmp/husk-canary-* \
    /proc/self/root/../*/husk-canary-* /var/lib/*/husk-canary-* /mnt/* /media/*; do
    if [ -e "$found" ]; then
        echo "ESCAPED: $found"
        exit 1
    fi
done
echo HELD
