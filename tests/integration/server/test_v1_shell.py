# SPDX-License-Identifier: Apache-2.0
"""Sessions in shell: what a context keeps, how its cells end, copies, and hostile cells."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from v1_client import Api, check_error, v1, v1_server  # noqa: F401
from waiting import wait_until

needs_node = pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="node is not installed")


@pytest.fixture
def sh(v1: Api) -> str:
    return v1.session(language="shell")


def out(v1: Api, session: str, code: str, **fields: object) -> str:
    r = v1.run(session, code, **fields)
    assert r["exit_code"] == 0, r
    return str(r["stdout"])


# ---- what is kept ----


def test_a_session_has_the_language_that_was_asked_for(v1: Api) -> None:
    made = v1.post("/sessions", {"language": "shell", "mode": "persistent"})
    assert made["template_id"] == "shell" and made["language_runtime"] == "shell"
    (context,) = v1.get(f"/sessions/{made['id']}/contexts")["items"]
    assert context["language"] == "shell"
    r = v1.run(made["id"], "echo hi")
    assert r["stdout"] == "hi\n" and r["language"] == "shell" and r["context_id"] == 0
    v1.call("DELETE", f"/sessions/{made['id']}")


def test_variables_directory_functions_aliases_and_options_live_on(v1: Api, sh: str) -> None:
    v1.run(sh, "x='it''s'; declare -A m=([k]=v); mkdir -p d; cd d; f() { echo \"f $x $1\"; }")
    v1.run(sh, "alias ll='echo alias'; set -o pipefail; shopt -s nullglob; export E=1")
    text = out(
        v1,
        sh,
        "f a; pwd; ll; echo ${m[k]}; false | true; echo $?; echo none*; env | grep ^E=",
    )
    assert text == "f its a\n/workspace/d\nalias\nv\n1\n\nE=1\n"


def test_the_last_exit_code_is_kept(v1: Api, sh: str) -> None:
    assert v1.run(sh, "(exit 7)")["exit_code"] == 7
    assert out(v1, sh, "echo $?") == "7\n"


def test_background_jobs_go_on(v1: Api, sh: str) -> None:
    v1.run(sh, "(while [ ! -e go ]; do sleep 0.02; done; echo made > done) &")
    assert "Running" in out(v1, sh, "jobs")
    v1.run(sh, "touch go; wait")
    assert out(v1, sh, "cat done") == "made\n"


def test_the_exit_code_of_a_cell(v1: Api, sh: str) -> None:
    r = v1.run(sh, "echo a; echo b >&2; false")
    assert (r["status"], r["exit_code"]) == ("failed", 1)
    assert (r["stdout"], r["stderr"]) == ("a\n", "b\n")
    assert v1.run(sh, "true")["status"] == "completed"


def test_a_syntax_error_and_an_unset_variable_keep_the_shell(v1: Api, sh: str) -> None:
    v1.run(sh, "x=1")
    r = v1.run(sh, "echo (")
    assert r["exit_code"] == 2 and "syntax error" in r["stderr"]
    r = v1.run(sh, "set -u; echo $nothing; echo after")
    assert r["exit_code"] == 1 and "nothing" in r["stderr"] and r["stdout"] == ""
    assert out(v1, sh, "set +u; echo $x") == "1\n"


def test_exit_ends_the_context_and_is_reported(v1: Api, sh: str) -> None:
    r = v1.run(sh, "x=1; echo before; exit 3")
    assert (r["status"], r["exit_code"], r["stdout"]) == ("failed", 3, "before\n")
    assert r["context_restarted"] is True and r["restart_reason"] == "exited"
    assert out(v1, sh, "echo [$x]") == "[]\n", "a fresh shell"
    assert v1.run(sh, "exit 0")["status"] == "completed"


# ---- what comes with a cell ----


def test_variables_and_arguments_are_for_one_cell(v1: Api, sh: str) -> None:
    v1.run(sh, "A=mine; set -- own")
    code = 'echo "$A|$B|$#|$1|$2"; env | grep ^B='
    r = v1.run(sh, code, env_vars={"A": "it's", "B": "$(no)"}, args=["a b", "'c'"])
    assert r["stdout"] == "it's|$(no)|2|a b|'c'\nB=$(no)\n"
    assert out(v1, sh, 'echo "$A|$B|$#|$1"') == "mine||1|own\n"


def test_variables_of_the_session(v1: Api) -> None:
    s = v1.session(language="shell", env_vars={"S": "1"})
    v1.run(s, "x=$S")
    assert out(v1, s, "echo $x$S$T", env_vars={"T": "2"}) == "112\n"


def test_stdin_is_the_cells_own(v1: Api, sh: str) -> None:
    assert out(v1, sh, "cat; read line || echo end", stdin="one\ntwo\n") == "one\ntwo\nend\n"
    assert out(v1, sh, "cat; echo empty") == "empty\n"


def test_quotes_newlines_and_long_cells(v1: Api, sh: str) -> None:
    assert out(v1, sh, "echo 'a'\"'\"'b'\ncat <<'E'\n$x 'q'\nE\n") == "a'b\n$x 'q'\n"
    long = "x='" + "y" * 700_000 + "'\necho ${#x}"
    assert out(v1, sh, long) == "700000\n"


def test_changed_files_are_named(v1: Api, sh: str) -> None:
    v1.run(sh, "mkdir -p sub; echo 1 > old; sleep 0.05")  # the clock of files has steps
    r = v1.run(sh, "echo 1 > sub/new; echo 1 > 'a\"b'; echo 1 > .hidden")
    assert r["artifacts"] == ['a"b', "sub/new"]


# ---- the end of a cell by others ----


def test_an_interrupt_keeps_the_shell(v1: Api, sh: str) -> None:
    loops = [
        "while :; do :; done",
        "sleep 600",
        "f() { sleep 600; }; f",
        "while :; do sleep 0.001; done",
    ]
    for loop in loops * 4:
        v1.run(sh, "x=7; cd /tmp")
        execution = v1.start(sh, f"echo on; {loop}; echo never")
        v1.wait_output(execution, "on")
        assert v1.post(f"/sessions/{sh}/interrupt", {})["interrupted"]
        assert v1.wait_status(execution, "failed"), loop
        r = v1.get(f"/executions/{execution}").body
        assert r["exit_code"] == 130 and r["stdout"] == "on\n"
        assert out(v1, sh, "echo $x $PWD") == "7 /tmp\n"


def test_an_interrupt_never_hits_the_next_cell(v1: Api, sh: str) -> None:
    """The signal arrives around the end of a cell: it stops that one or nothing."""
    for round_ in range(40):
        execution = v1.start(sh, f"x={round_}; sleep 0.00{round_ % 10}")
        v1.post(f"/sessions/{sh}/interrupt", {})
        r = v1.run(sh, "for i in 1 2 3 4 5; do sleep 0.002; done; echo whole")
        assert (r["exit_code"], r["stdout"]) == (0, "whole\n"), round_
        v1.wait_status(execution, "completed", "failed")


def test_a_soft_timeout_keeps_the_shell_and_a_hard_one_replaces_it(v1: Api, sh: str) -> None:
    r = v1.run(sh, "x=1; printf begun; sleep 600", timeout=1)
    assert (r["status"], r["exit_code"], r["stdout"]) == ("timeout", 124, "begun")
    assert out(v1, sh, "echo $x") == "1\n"
    r = v1.run(sh, "trap '' INT; printf begun; sleep 600; sleep 600", timeout=1)
    assert (r["status"], r["stdout"]) == ("timeout", "begun")
    assert out(v1, sh, "echo [$x]") == "[]\n"


def test_a_stopped_cell_takes_its_processes_along(v1: Api, sh: str) -> None:
    v1.run(sh, "sleep 611 &\nsleep 0.05")  # more than 10 ms before the cell that is stopped
    v1.run(sh, "setsid sleep 622 & sleep 600", timeout=1)
    running = out(v1, sh, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert "sleep 611" in running and "sleep 622" not in running


def test_the_first_cell_of_a_context_may_time_out(v1: Api) -> None:
    """The shell is hardly older than the cell, and survives the sweep that ends its processes."""
    for _ in range(5):
        s = v1.session()
        v1.run(s, "x=1; sleep 600", language="shell", timeout=1)
        assert out(v1, s, "echo $x", language="shell") == "1\n"


def test_reset(v1: Api, sh: str) -> None:
    v1.run(sh, "x=1; echo kept > f")
    assert v1.post(f"/sessions/{sh}/reset", {})["language"] == "shell"
    assert out(v1, sh, "echo [$x]; cat f") == "[]\nkept\n"


# ---- copies ----

STATE = """
x='a b'"'"'c'; n=$'l1\\nl2'; declare -i i=3; declare -a list=(1 'two  2' 3); declare -A map=([k ey]='v "q"')
readonly R=9; export E=out; cd /tmp; umask 027; set -- p 'q r'; set -o pipefail; shopt -s extglob
f() { local y=$1; echo "f:$y:$x"; }; g() { echo exported; }; export -f g
alias ll='echo aliased'; trap 'echo bye' EXIT
"""
SHOW = """
echo "$x|$n|$i|${list[1]}|${map[k ey]}|$R|$PWD|$(umask)|$#|$2"; f z; bash -c g; ll; env | grep ^E=
false | true; echo $?; shopt -p extglob; trap -p EXIT
"""


def test_a_branch_has_all_that_the_shell_has(v1: Api, sh: str) -> None:
    v1.run(sh, STATE)
    before = out(v1, sh, SHOW)
    assert "f:z:a b'c" in before and "aliased" in before
    other = v1.post(f"/sessions/{sh}/contexts/0/branch")
    assert other.status == 201 and other["language"] == "shell"
    assert out(v1, sh, SHOW, context_id=other["context_id"]) == before
    v1.run(sh, "x=other; cd /", context_id=other["context_id"])
    assert out(v1, sh, SHOW) == before
    assert out(v1, sh, "echo $x $PWD", context_id=other["context_id"]) == "other /\n"


def test_random_numbers_differ_in_a_branch(v1: Api, sh: str) -> None:
    v1.run(sh, "RANDOM=1; echo $RANDOM")
    other = v1.post(f"/sessions/{sh}/contexts/0/branch")["context_id"]
    code = "echo $RANDOM $RANDOM $RANDOM"
    assert out(v1, sh, code) != out(v1, sh, code, context_id=other)


def test_a_branch_is_interrupted_and_keeps_what_it_has(v1: Api, sh: str) -> None:
    v1.run(sh, "x=1")
    other = v1.post(f"/sessions/{sh}/contexts/0/branch")["context_id"]
    r = v1.run(sh, "y=2; sleep 600", context_id=other, timeout=1)
    assert r["status"] == "timeout"
    assert out(v1, sh, "echo $x$y", context_id=other) == "12\n"


def test_checkpoint_and_restore(v1: Api, sh: str) -> None:
    v1.run(sh, "x=1; cd /tmp")
    checkpoint = v1.post(f"/sessions/{sh}/contexts/0/checkpoint")["checkpoint_id"]
    for _ in range(2):
        v1.run(sh, "x=2; cd /; unset -f f")
        answer = v1.post(f"/sessions/{sh}/contexts/0/restore", {"checkpoint_id": checkpoint})
        assert answer.status == 200 and answer["language"] == "shell"
        assert out(v1, sh, "echo $x $PWD") == "1 /tmp\n"


# ---- languages beside each other ----


def test_a_language_has_a_context_of_its_own_from_first_use(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 'python'; open('f', 'w').write('shared')")
    first = v1.run(s, "x=shell; cat f", language="shell")
    assert first["stdout"] == "shared" and first["context_id"] == 1
    again = v1.run(s, "echo $x", language="shell")
    assert again["stdout"] == "shell\n" and again["context_id"] == 1
    assert v1.run(s, "x")["return_value"] == "python"
    listed = v1.get(f"/sessions/{s}/contexts")["items"]
    assert [(c["context_id"], c["language"]) for c in listed] == [(0, "python"), (1, "shell")]


def test_a_context_is_made_in_a_language(v1: Api) -> None:
    s = v1.session()
    made = v1.post(f"/sessions/{s}/contexts", {"language": "shell"})
    assert made.status == 201 and made["language"] == "shell" and made["context_id"] == 1
    assert out(v1, s, "echo $0", context_id=1) == "/bin/bash\n"
    check_error(
        v1.post(f"/sessions/{s}/execute", {"code": "1", "context_id": 1, "language": "python"}),
        409,
        "Conflict",
        "context 1 is shell",
    )
    own = v1.post(f"/sessions/{s}/contexts", {})
    assert own["language"] == "python"
    assert v1.run(s, "1 + 1", context_id=own["context_id"])["return_value"] == 2


def test_a_language_that_the_box_lacks(v1: Api) -> None:
    s = v1.session(language="shell")
    bodies: dict[str, dict[str, Any]] = {"contexts": {}, "execute": {"code": "1"}}
    for path, body in bodies.items():
        answer = v1.post(f"/sessions/{s}/{path}", {**body, "language": "python"})
        check_error(answer, 409, "Conflict", "python")


def test_executions_at_once_share_the_first_context_of_a_language(v1: Api) -> None:
    s = v1.session()
    connections = [
        v1.begin("POST", f"/sessions/{s}/execute-sync", {"code": "true", "language": "shell"})
        for _ in range(6)
    ]
    from v1_client import answer_to

    assert {answer_to(c)["context_id"] for c in connections} == {1}
    assert len(v1.get(f"/sessions/{s}/contexts")["items"]) == 2


def test_a_command_is_not_a_context(v1: Api) -> None:
    s = v1.session()
    execution = v1.start(s, command="echo on; while [ ! -e go ]; do sleep 0.02; done")
    v1.wait_output(execution, "on")
    assert [c["context_id"] for c in v1.get(f"/sessions/{s}/contexts")["items"]] == [0]
    check_error(v1.post(f"/sessions/{s}/execute", {"code": "1", "context_id": 1}), 404, "NotFound")
    assert v1.run(s, "echo own; touch go", language="shell")["stdout"] == "own\n"
    v1.wait_status(execution, "completed")


@pytest.mark.parametrize("template", ["shell", pytest.param("node", marks=needs_node)])
def test_commands_in_other_templates(v1: Api, template: str) -> None:
    s = v1.session(template_id=template)
    r = v1.run(s, command='echo "$1"; cat; exit 4', args=["a b"], stdin="text")
    assert (r["stdout"], r["exit_code"]) == ("a b\ntext", 4)


# ---- hostile cells ----


@pytest.mark.parametrize(
    "code,status",
    [
        ("kill -9 $PPID; sleep 5", "crashed"),
        ("kill -9 $$; sleep 5", "crashed"),
        ("kill -STOP $PPID; sleep 5", "timeout"),
        ("__husk() { :; }", "timeout"),
        ("exec 10>&-", "completed"),
        ("exec sleep 0", "completed"),
        ("kill -9 -1", "crashed"),
    ],
)
def test_a_cell_that_breaks_its_shell_gets_a_fresh_one(v1: Api, code: str, status: str) -> None:
    s = v1.session()
    v1.run(s, "x = 1")
    v1.run(s, "x=1", language="shell")
    r = v1.run(s, code, language="shell", timeout=1)
    assert r["status"] == status, r
    assert out(v1, s, "echo [$x]", language="shell") == "[]\n"


def test_a_forged_report_is_a_claim_about_its_own_cell(v1: Api) -> None:
    """A cell can answer for itself too early, and for no other."""
    s = v1.session(language="shell")
    v1.run(s, "x=1")
    r = v1.run(s, 'for i in {1..9}; do echo "$i 0" >&10; done; echo late; sleep 0.2; false')
    assert r["status"] in ("completed", "failed")
    # The cell after it may lose its reader, which is the same context's harm.
    wait_until(lambda: v1.run(s, "echo $x")["stdout"] == "1\n", "the shell goes on")
    r = v1.run(s, "yes '999 0' | head -c 30000000 >&10; echo flooded")
    assert r["stdout"] in ("flooded\n", "")
    wait_until(lambda: v1.run(s, "echo on")["stdout"] == "on\n", "and again")


def test_a_driver_sleeps_after_its_idle_shell_closed_the_link(v1: Api, sh: str) -> None:
    def command(text: str) -> str:
        r = v1.run(sh, command=text)
        return str(r["stdout"]).strip()

    leave = 'trap "exec sleep 1000 </dev/null >/dev/null 2>&1" USR1; (sleep 0.2; kill -USR1 $$) &'
    driver = out(v1, sh, f"{leave} echo $PPID").strip()
    wait_until(
        lambda: "sleep 1000" in command("cat /proc/*/cmdline | tr '\\0' ' '"), "another program"
    )
    times = f"cut -d' ' -f14,15 /proc/{driver}/stat"
    before, after = command(f"{times}; sleep 0.5; {times}").splitlines()
    assert before == after
