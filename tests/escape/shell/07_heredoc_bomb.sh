# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: 61 R2
# held: text that doubles in a variable and a here-document stays inside the memory limit
# expect: status=memory_exceeded|failed|timeout stdout!~ESCAPED peak_mb<=65
# limits: --memory 64M --disk 8M --timeout 5
text=xxxxxxxxxxxxxxxx
while :; do
    text=$text$text
    cat > /dev/null <<END
$text
END
done
