# SPDX-License-Identifier: Apache-2.0
"""A client learns that the variables of a context are gone, and why."""
from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from audit import kill_boxes, wait_tree
from disk_faults import kill_and_wait, wait_successor
from husk_server import Server, one  # noqa: F401
from se_client import Se
from v1_client import Api, v1, v1_server  # noqa: F401

STUBBORN = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"


def check(result: object, reason: str | None) -> None:
    assert isinstance(result, dict)
    told = (result["context_restarted"], result["restart_reason"])
    assert told == (reason is not None, reason)


def check_gone(v1: Api, session: str) -> None:
    """The variable is, and no second result says so."""
    after = v1.run(session, "'kept' in globals()")
    assert after["value"] == "False"
    check(after, None)


@pytest.mark.parametrize(
    "code,reason",
    [
        ("import os; os.kill(os.getpid(), 9)", "crashed"),
        ("import os; os._exit(3)", "exited"),
        ("import os; os._exit(0)", "exited"),
        ("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1", "memory_exceeded"),
    ],
)
def test_a_cell_that_loses_its_interpreter_says_so(v1: Api, code: str, reason: str) -> None:
    s = v1.session(memory="96Mi")
    check(v1.run(s, "kept = 1"), None)
    check(v1.run(s, code), reason)
    check_gone(v1, s)


def test_a_cell_that_ignores_the_interrupt_loses_its_interpreter(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "kept = 1")
    soft = v1.run(s, "while True: pass", timeout=1)
    assert soft["status"] == "timeout"
    check(soft, None)
    assert v1.run(s, "kept")["value"] == "1", "an interrupt keeps variables"
    check(v1.run(s, STUBBORN, timeout=1), "timeout")
    check_gone(v1, s)


def test_a_cancelled_cell_says_so_in_result_and_events(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "kept = 1")
    x = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    assert v1.get(f"/executions/{x}")["context_restarted"] is False, "not yet"
    v1.post(f"/executions/{x}/cancel")
    v1.wait_status(x, "cancelled")
    check(v1.get(f"/executions/{x}/result").body, "cancelled")
    (result,) = [event.data for event in v1.follow(x) if event.name == "result"]
    check(result, "cancelled")
    check_gone(v1, s)


def test_a_command_that_dies_takes_no_variables(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "kept = 1")
    check(v1.run(s, command="kill -9 $$"), None)
    after = v1.run(s, "kept")
    assert after["value"] == "1"
    check(after, None)


def test_other_contexts_go_on(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "kept = 1")
    branch = v1.post(f"/sessions/{s}/contexts/0/branch")["context_id"]
    check(v1.run(s, "import os; os._exit(1)", context_id=branch), "exited")
    after = v1.run(s, "kept")
    assert after["value"] == "1"
    check(after, None)


def end_boxes(server: Server) -> None:
    kill_boxes(server)


def end_launcher(server: Server) -> None:
    old = wait_tree(server)
    os.kill(old.launcher, signal.SIGKILL)
    wait_successor(server, old)


def stop_and_start(server: Server) -> None:
    assert server.stop() == 0
    server.start()


@pytest.mark.parametrize("end", [end_boxes, end_launcher, stop_and_start])
def test_the_next_cell_says_that_the_box_was_lost(
    one: Server, end: Callable[[Server], None]
) -> None:
    api = Api(one.port)
    s = api.session()
    api.run(s, "kept = 1")
    end(one)
    check(api.run(s, command="true"), None)
    kill_and_wait(one)
    assert api.get(f"/sessions/{s}")["status"] == "running"
    check(api.run(s, "'kept' in globals()"), "box_lost")
    check_gone(api, s)


def test_a_killed_huskd_loses_no_variables(one: Server) -> None:
    api = Api(one.port)
    s = api.session()
    api.run(s, "kept = 1")
    kill_and_wait(one)
    after = api.run(s, "kept")
    assert after["value"] == "1"
    check(after, None)


def test_workspace_se_says_it_in_stderr(v1_server: Server) -> None:
    se = Se(v1_server.port)
    se.python("restarts", "kept = 1")
    lost = se.python("restarts", "import os; print('x', end=''); os._exit(3)")
    assert lost["returncode"] == 3
    assert lost["stderr"] == "[context restarted (exited): variables are gone, files stay]\n"
    after = se.python("restarts", "print('kept' in globals())")
    assert (after["stdout"], after["stderr"]) == ("False\n", "")


def test_a_session_that_is_new_has_lost_nothing(v1: Api) -> None:
    check(v1.run(v1.session(), "1"), None)
    check(v1.run(v1.session(mode="ephemeral"), "import os; os._exit(1)"), None)
