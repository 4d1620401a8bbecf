# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2086
# technique: E16
# held: set-uid helpers of the distribution, if present, give nothing
# expect: status=completed exit=0 stdout~HELD
reached=
for tool in "su -c id" "sudo -n id" "pkexec id" "newgrp root -c id" "sg root id" "doas id" \
    "capsh --uid=0 -- -c id" "setpriv --reuid=0 id" "setpriv --ambient-caps=+all id" "mount" \
    "fusermount -u /" "newuidmap $$ 0 0 1"; do
    command -v "${tool%% *}" > /dev/null || continue
    answer=$(timeout 3 $tool 2>&1 < /dev/null)
    case "$answer" in
    *uid=0* | *gid=0*) reached="$reached [$tool]" ;;
    esac
done
find / -xdev \( -perm -4000 -o -perm -2000 \) -type f -exec ls -l {} + 2> /dev/null | head -n 3
for name in CapPrm CapEff CapBnd CapAmb CapInh; do
    grep -q "^$name:	0000000000000000$" /proc/self/status || reached="$reached $name"
done
if [ -n "$reached" ]; then
    echo "ESCAPED:$reached"
    exit 1
fi
echo HELD
