#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of the C harness: misbehave.c does everything that must be noticed.
#
#   tests/harness/selftest.sh PATH-OF-MISBEHAVE
set -eu

misbehave=$1
points=0

point() { # condition-status description
    points=$((points + 1))
    if [ "$1" = 0 ]; then
        echo "ok $points - $2"
    else
        echo "not ok $points - $2"
    fi
}

out=$(env -u T_MUST_WORK "$misbehave" 2>&1) && status=0 || status=$?
[ "$status" = 1 ] && r=0 || r=1
point "$r" "harness_reports_failures_in_its_exit_status"

# What must be in the output, as whole lines.
while read -r want; do
    grep -qxF -- "$want" <<<"$out" && r=0 || r=1
    point "$r" "harness_says: ${want//\#/}"
    [ "$r" = 0 ] || printf '# %s\n' "${out//$'\n'/$'\n'# }"
done <<'EXPECTED'
1..16
ok 1 - passes
not ok 2 - check_fails
# check_fails: in case: row 3
not ok 3 - check_int_fails
not ok 4 - check_str_fails
not ok 5 - crashes
# crashes: killed by SIGABRT
not ok 6 - exits_early
# exits_early: exited with 0 before its end
not ok 7 - hangs
# hangs: not done after 1 s
not ok 8 - leaks_descriptor
# leaks_descriptor: descriptor 3 leaked
not ok 9 - closes_foreign_descriptor
not ok 10 - check_fails_in_forked_process
not ok 11 - forked_process_returns
ok 12 - leaves_session_behind
ok 14 - writes_to_stdout
ok 15 - skips # SKIP no kernel feature here
EXPECTED

# A leak is seen by LeakSanitizer alone, which must be able to report from a test's process.
if grep -q __lsan_do_leak_check "$misbehave"; then
    want="not ok 13 - leaks_memory"
else
    want="ok 13 - leaks_memory"
fi
grep -qxF "$want" <<<"$out" && r=0 || r=1
point "$r" "harness_says: $want"

[ "$("$misbehave" writes_to_stdout 2>/dev/null)" = $'1..1\nok 1 - writes_to_stdout' ] && r=0 || r=1
point "$r" "harness_keeps_the_stream_to_itself"

T_MUST_WORK=1 "$misbehave" skips >/dev/null && r=1 || r=0
point "$r" "harness_fails_an_unexpected_skip"

T_MUST_WORK=1 "$misbehave" skips_as_listed >/dev/null && r=0 || r=1
point "$r" "harness_accepts_a_listed_skip"

"$misbehave" passes nonsense >/dev/null 2>&1 && r=1 || r=0
point "$r" "harness_refuses_unknown_names"

echo "1..$points"
