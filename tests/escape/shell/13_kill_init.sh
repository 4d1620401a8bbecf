# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: S6 E13
# held: the box's init takes no signal, no write to its memory and no look into its descriptors
# expect: status=failed exit=9 stdout~HELD
for number in TERM INT HUP QUIT KILL STOP SEGV ABRT; do
    kill -$number 1 2> /dev/null || :
done
reached=
for name in mem environ maps fd/0 exe root cwd stack syscall auxv; do
    if (: > "/proc/1/$name") 2> /dev/null; then
        reached="$reached write:$name"
    fi
done
for name in environ maps auxv mem; do
    if head -c 1 "/proc/1/$name" 2> /dev/null | grep -q .; then
        reached="$reached read:$name"
    fi
done
ls /proc/1/fd > /dev/null 2>&1 && reached="$reached fd"
ls /proc/1/root/ > /dev/null 2>&1 && reached="$reached root"
if [ -n "$reached" ]; then
    echo "ESCAPED:$reached"
    exit 1
fi
echo HELD
exit 9
