# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2094
# technique: R1 R4
# held: a chain of filters that feed one another is limited like any other crowd
# expect: status=timeout|failed processes<=40
# limits: --timeout 2 --pids 40
mkfifo loop
cat < loop | tee loop | cat > loop &
chain=yes
count=0
while [ $count -lt 100 ]; do
    chain="$chain | cat"
    count=$((count + 1))
done
eval "$chain" > /dev/null
