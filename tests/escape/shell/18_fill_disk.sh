# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: R3
# held: dd into the workspace ends with an error at the disk limit
# expect: status=failed exit=1|153 stdout!~ESCAPED
# cause: disk
# limits: --disk 8M --memory 64M --timeout 8
dd if=/dev/zero of=fill bs=65536 count=4096 2> /dev/null
code=$?
size=$(wc -c < fill)
if [ "$size" -gt 9000000 ]; then
    echo "ESCAPED: $size bytes"
fi
exit $code
