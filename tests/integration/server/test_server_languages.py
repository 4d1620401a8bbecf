# SPDX-License-Identifier: Apache-2.0
"""Contexts in shell and JavaScript across the death of huskd and of their box."""
from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from audit import Audit, wait_tree
from disk_faults import kill_and_wait, wait_successor
from husk_server import Server, one  # noqa: F401
from v1_client import Api

needs_node = pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="node is not installed")

# language, what defines x, a cell that counts to 20 with 0.1 s between, and one that shows x and the count
CASES = [
    (
        "shell",
        "x=7",
        "for n in $(seq 0 19); do echo $n; sleep 0.1; done; exit_code=ok",
        "echo $x $n $exit_code",
        "7 19 ok\n",
    ),
    pytest.param(
        "javascript",
        "let x = 7;",
        "let n; for (n = 0; n < 20; n++) { console.log(n); await new Promise((r) => setTimeout(r, 100)); }",
        "console.log(x, n)",
        "7 20\n",
        marks=needs_node,
    ),
]


@pytest.mark.parametrize("in_python_box", [True, False])
@pytest.mark.parametrize("language,define,count,show,shown", CASES)
def test_kill_keeps_contexts_and_what_runs_in_them(
    one: Server, language: str, define: str, count: str, show: str, shown: str, in_python_box: bool
) -> None:
    api = Api(one.port)
    session = api.session(**({} if in_python_box else {"language": language}))
    api.run(session, define, language=language)
    execution = api.start(session, count, language=language)
    api.wait_output(execution, "3\n")
    kill_and_wait(one)
    api.wait_status(execution, "completed")
    r = api.get(f"/executions/{execution}")
    assert r["stdout"] == "".join(f"{n}\n" for n in range(20)) and r["language"] == language
    assert api.run(session, show, language=language)["stdout"] == shown
    listed = api.get(f"/sessions/{session}/contexts")["items"]
    assert [c["language"] for c in listed] == (["python"] if in_python_box else []) + [language]
    # an interrupt, a time limit and a replacement work as before
    r = api.run(
        session,
        "sleep 600" if language == "shell" else "while (1) {}",
        language=language,
        timeout=1,
    )
    assert r["status"] == "timeout"
    assert api.run(session, show, language=language)["stdout"] == shown
    Audit(one).check()


def test_kill_keeps_copies_of_shells(one: Server) -> None:
    api = Api(one.port)
    session = api.session(language="shell")
    api.run(session, "x=1")
    checkpoint = api.post(f"/sessions/{session}/contexts/0/checkpoint")["checkpoint_id"]
    branch = api.post(f"/sessions/{session}/contexts/0/branch")["context_id"]
    api.run(session, "x=2")
    kill_and_wait(one)
    assert api.run(session, "echo $x", context_id=branch)["stdout"] == "1\n"
    api.post(f"/sessions/{session}/contexts/0/restore", {"checkpoint_id": checkpoint})
    assert api.run(session, "echo $x")["stdout"] == "1\n"


@pytest.mark.parametrize("language,define,count,show,shown", CASES)
def test_a_session_whose_box_is_gone_gets_the_same_languages(
    one: Server, language: str, define: str, count: str, show: str, shown: str
) -> None:
    api = Api(one.port)
    session = api.session(language=language)
    api.run(session, define)
    api.run(session, command="echo kept > f")
    api.call("POST", f"/sessions/{session}/files/flush", is_known=False)
    old = wait_tree(one)
    os.kill(old.launcher, signal.SIGKILL)
    wait_successor(one, old)
    r = api.run(session, "echo [$x]" if language == "shell" else "console.log([typeof x])")
    assert r["stdout"] in ("[]\n", "[ 'undefined' ]\n") and r["language"] == language
    assert api.get(f"/sessions/{session}")["language_runtime"] == language
