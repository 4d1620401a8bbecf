# SPDX-License-Identifier: Apache-2.0
"""Contexts of /api/v1 against a real huskd: branch, checkpoint, restore, reset, interrupt."""
from __future__ import annotations

from typing import Any

import pytest
from v1_client import Api, check_error, v1, v1_server  # noqa: F401


def contexts(v1: Api, session: str) -> list[int]:
    return [c["context_id"] for c in v1.get(f"/sessions/{session}/contexts")["items"]]


def test_a_branch_goes_its_own_way(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = [1]")
    assert contexts(v1, s) == [0]
    branch = v1.post(f"/sessions/{s}/contexts/0/branch")
    assert branch.status == 201 and branch["parent_id"] == 0 and branch["state"] == "idle"
    other = branch["context_id"]
    assert sorted(contexts(v1, s)) == [0, other]
    v1.run(s, "x.append(2)", context_id=other)
    assert v1.run(s, "x")["return_value"] == [1]
    in_branch = v1.run(s, "x", context_id=other)
    assert in_branch["return_value"] == [1, 2] and in_branch["context_id"] == other


def test_a_checkpoint_is_restored_any_number_of_times(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 1")
    made = v1.post(f"/sessions/{s}/contexts/0/checkpoint")
    assert made.status == 201 and made["context_id"] == 0
    listed = v1.get(f"/sessions/{s}/contexts")["checkpoints"]
    assert [c["checkpoint_id"] for c in listed] == [made["checkpoint_id"]]
    for _ in range(2):
        v1.run(s, "x = 99")
        body = {"checkpoint_id": made["checkpoint_id"]}
        back = v1.post(f"/sessions/{s}/contexts/0/restore", body)
        assert back.status == 200 and back["context_id"] == 0
        assert v1.run(s, "x")["return_value"] == 1


def test_reset_forgets_variables_and_keeps_files(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 1\nopen('kept', 'w').write('yes')")
    answer = v1.post(f"/sessions/{s}/reset", {})
    assert answer.status == 200 and answer["state"] == "idle"
    assert v1.run(s, "'x' in globals()")["return_value"] is False
    assert v1.run(s, "open('kept').read()")["return_value"] == "yes"


def test_reset_ends_what_runs(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    assert v1.post(f"/sessions/{s}/reset").status == 200
    assert v1.wait_status(x, "cancelled")
    assert v1.run(s, "1 + 1")["return_value"] == 2


def test_reset_comes_before_what_waits(v1: Api) -> None:
    """Those in line run in the fresh interpreter; they do not delay it."""
    s = v1.session()
    v1.run(s, "x = 1")
    running = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(running, "on")
    waiting = v1.start(s, "print('x' in globals(), flush=True)\nwhile True: pass", timeout=600)
    assert v1.post(f"/sessions/{s}/reset").status == 200
    assert v1.wait_status(running, "cancelled")
    v1.wait_output(waiting, "False\n")
    v1.post(f"/executions/{waiting}/cancel")


def test_interrupt_stops_what_runs_and_keeps_variables(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 5")
    x = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    busy = v1.get(f"/sessions/{s}/contexts")["items"][0]
    assert busy["state"] == "running" and busy["execution_id"] == x
    answer = v1.post(f"/sessions/{s}/interrupt", {"context_id": 0})
    assert answer.body == {
        "session_id": s,
        "context_id": 0,
        "interrupted": True,
        "execution_id": x,
    }
    assert v1.wait_status(x, "failed", "cancelled")
    assert v1.get(f"/executions/{x}")["error"]["type"] == "KeyboardInterrupt"
    assert v1.run(s, "x")["return_value"] == 5


# Stops its context when it is told to, and lets it go on.
HOLDER = """
import os, signal, time
context = os.getppid()
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.001)
def state():
    return open(f"/proc/{context}/stat").read().rsplit(")", 1)[1].split()[0]
wait_for("stop")
os.kill(context, signal.SIGSTOP)
while state() != "T": time.sleep(0.001)
open("stopped", "w").close()
wait_for("go")
os.kill(context, signal.SIGCONT)
"""


def hold(v1: Api, s: str) -> None:
    """From now on the interpreter reads nothing that is sent to it."""
    start = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {HOLDER!r}])\nx = 5"
    assert v1.run(s, start)["status"] == "completed"
    held = v1.run(s, command="touch stop; while ! [ -e stopped ]; do sleep 0.01; done")
    assert held["status"] == "completed"


def let_go(v1: Api, s: str) -> None:
    assert v1.run(s, command="touch go")["status"] == "completed"


def test_interrupt_of_a_cell_that_has_not_been_read(v1: Api) -> None:
    s = v1.session()
    hold(v1, s)
    x = v1.start(s, "ran = True\nwhile True: pass", timeout=600)
    v1.wait_status(x, "running")
    answer = v1.post(f"/sessions/{s}/interrupt")
    assert answer["interrupted"] is True and answer["execution_id"] == x
    let_go(v1, s)
    assert v1.wait_status(x, "failed")
    assert v1.get(f"/executions/{x}")["error"]["type"] == "KeyboardInterrupt"
    assert v1.run(s, "x, 'ran' in globals()")["return_value"] == [5, False]


def test_interrupt_of_a_cell_that_has_not_been_read_calls_its_handler(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('asked', flush=True))")
    hold(v1, s)
    x = v1.start(s, "print('on')", timeout=600)
    v1.wait_status(x, "running")
    assert v1.post(f"/sessions/{s}/interrupt")["interrupted"] is True
    let_go(v1, s)
    assert v1.wait_status(x, "completed")
    assert v1.get(f"/executions/{x}")["stdout"] == "asked\non\n"


def test_interrupt_does_not_touch_what_is_queued_behind(v1: Api) -> None:
    s = v1.session()
    first = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(first, "on")
    second = v1.start(s, "1 + 1")
    answer = v1.post(f"/sessions/{s}/interrupt")
    assert answer["interrupted"] is True and answer["execution_id"] == first
    assert v1.wait_status(first, "failed")
    assert v1.wait_status(second, "completed")


def test_each_interrupt_ends_one_cell_or_says_that_it_did_not(v1: Api) -> None:
    """Whenever it comes: before a cell is read, while it runs, when it is over."""
    s = v1.session()
    for i in range(60):
        x = v1.start(s, f"for i in range({i} * 3000): pass")
        answer = v1.post(f"/sessions/{s}/interrupt")
        end = v1.wait_status(x, "failed", "completed")["status"]
        assert answer["interrupted"] is (end == "failed"), i
        assert v1.run(s, "1 + 1")["return_value"] == 2


def test_interrupt_of_nothing_says_so(v1: Api) -> None:
    answer = v1.post(f"/sessions/{v1.session()}/interrupt")
    assert answer.status == 200
    assert answer["interrupted"] is False and answer["execution_id"] is None


@pytest.mark.parametrize("action", ["checkpoint", "branch"])
def test_copies_of_a_busy_context_are_refused(v1: Api, action: str) -> None:
    s = v1.session()
    x = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    check_error(v1.post(f"/sessions/{s}/contexts/0/{action}"), 409, "Conflict", "busy")
    assert v1.post(f"/executions/{x}/cancel").status == 200


@pytest.mark.parametrize(
    "path,body",
    [
        ("contexts/7/checkpoint", None),
        ("contexts/7/branch", None),
        ("contexts/7/restore", {"checkpoint_id": 0}),
        ("contexts/0/restore", {"checkpoint_id": 9}),
        ("contexts/0/restore", {"checkpoint_id": 4294967295}),
        ("contexts/65535/branch", None),
        ("reset", {"context_id": 7}),
        ("interrupt", {"context_id": 7}),
        ("interrupt", {"context_id": 65535}),
    ],
)
def test_a_context_that_is_not_there(v1: Api, path: str, body: Any) -> None:
    answer = v1.post(f"/sessions/{v1.session()}/{path}", body)
    is_checkpoint = path == "contexts/0/restore"
    check_error(answer, 404, "NotFound", "no checkpoint" if is_checkpoint else "no context")
    assert "context or checkpoint" in answer["description"] and "/contexts" in answer["solution"]
    assert "address" not in answer["description"]


def test_a_session_has_64_contexts_and_checkpoints(v1: Api) -> None:
    s = v1.session()
    for i in range(63):
        action = "branch" if i % 2 else "checkpoint"
        assert v1.post(f"/sessions/{s}/contexts/0/{action}").status == 201
    for action in ("branch", "checkpoint"):
        answer = v1.post(f"/sessions/{s}/contexts/0/{action}")
        check_error(answer, 409, "Conflict", "64 contexts")
        assert "retry-after" not in answer.headers, "waiting is no use"


@pytest.mark.parametrize(
    "path,body",
    [
        ("contexts/x/branch", None),
        ("contexts/-1/branch", None),
        ("contexts/65536/checkpoint", None),
        ("contexts/0/restore", {}),
        ("contexts/0/restore", {"checkpoint_id": -1}),
        ("reset", {"context_id": "0"}),
        ("interrupt", {"context": 0}),
    ],
)
def test_wrong_contexts_are_refused(v1: Api, path: str, body: Any) -> None:
    check_error(v1.post(f"/sessions/{v1.session()}/{path}", body), 422, "InvalidParameter")


@pytest.mark.parametrize("path", ["interrupt", "reset", "contexts/0/branch"])
def test_ephemeral_sessions_have_no_contexts(v1: Api, path: str) -> None:
    s = v1.session(mode="ephemeral")
    check_error(v1.post(f"/sessions/{s}/{path}"), 409, "Conflict")


def test_a_context_whose_process_has_ended_is_not_copied(v1: Api) -> None:
    s = v1.session()
    leaves = "import os, threading\nthreading.Timer(0.1, os._exit, [0]).start()\nos.getpid()"
    pid = v1.run(s, leaves)["return_value"]
    gone = f"while test -e /proc/{pid}/exe; do sleep 0.02; done"
    assert v1.run(s, command=gone)["status"] == "completed"
    for way in ("branch", "checkpoint"):
        check_error(v1.post(f"/sessions/{s}/contexts/0/{way}"), 409, "Conflict", "has ended")
    v1.run(s, "1")  # the context is replaced
    assert v1.post(f"/sessions/{s}/contexts/0/branch").status == 201
