# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: E18 61
# held: paths, links and process roots lead to no file outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
old_ifs=$IFS
IFS=:
for path in $HINT_FILES; do
    for prefix in "" /proc/1/root /proc/self/root /proc/$$/cwd/../../.. ../../../../../.. //; do
        if text=$(cat "$prefix$path" 2>/dev/null); then
            echo "ESCAPED: $text"
            exit 1
        fi
    done
    ln -sf "$path" /tmp/link
    if text=$(cat /tmp/link 2>/dev/null); then
        echo "ESCAPED: $text"
        exit 1
    fi
done
IFS=$old_ifs
echo HELD
