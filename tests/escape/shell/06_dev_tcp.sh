# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: 61 E10
# held: bash's network paths and common clients reach no host port
# expect: status=completed exit=0 stdout~HELD
answer=
if command -v bash > /dev/null; then
    answer=$(bash -c "exec 3<> /dev/tcp/127.0.0.1/$HINT_PORT && head -c 100 <&3" 2> /dev/null)
fi
for tool in "curl -s telnet://127.0.0.1:$HINT_PORT" "nc -w1 127.0.0.1 $HINT_PORT" \
    "wget -qO- 127.0.0.1:$HINT_PORT"; do
    command -v "${tool%% *}" > /dev/null && answer="$answer$($tool 2> /dev/null < /dev/null)"
done
case "$answer" in
*"$HINT_MARK"*)
    echo "ESCAPED: $answer"
    exit 1
    ;;
esac
echo HELD
