# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2231
# technique: 61 E3 S6
# held: redirections to numbered descriptors find none that the shell should not have
# expect: status=failed exit=5 value=None stdout~HELD
found=
for fd in 3 4 5 6 7 8 9; do
    if (eval "echo '{\"status\":\"completed\",\"exit_code\":0}' >&$fd") 2> /dev/null; then
        found="$found $fd"
    fi
    if (eval "read -r line <&$fd") 2> /dev/null; then
        found="$found $fd"
    fi
done
ls -l /proc/$$/fd > list # not $(...), which opens a pipe of its own
while read -r line; do
    case "${line##*:[0-9][0-9] }" in
    total*) ;;
    [012]\ -\>\ pipe:* | 0\ -\>\ /dev/null | 255\ -\>\ /tmp/* | 10\ -\>\ /tmp/*) ;;
    *) found="$found [$line]" ;;
    esac
done < list
if [ -n "$found" ]; then
    echo "ESCAPED:$found"
    exit 1
fi
echo HELD
exit 5
