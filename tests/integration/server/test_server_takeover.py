# SPDX-License-Identifier: Apache-2.0
"""What the next daemon takes over from one that was killed: boxes, with their limits and zygotes,
and their sessions.
"""
from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from audit import wait_tree
from disk_faults import kill_and_wait, new_template, wait_successor
from husk_server import Server, one  # noqa: F401
from v1_client import Api
from waiting import wait_settled, wait_until


def test_sessions_keep_the_limits_of_the_server() -> None:
    """Those that asked for none have the operator's, also with a daemon and in a box that are not
    the first.
    """
    flags = ("--memory", "200M", "--pids", "40", "--cpu", "0.5", "--disk", "20M")
    with Server.run(*flags) as server:
        api = Api(server.port)
        session = api.session()
        alone = [api.session(mode="ephemeral") for _ in range(2)]
        limits = api.run(session, "1")["receipt"]["limits"]
        assert api.run(alone[0], "1")["receipt"]["limits"] == limits
        kill_and_wait(server)
        assert api.run(session, "1")["receipt"]["limits"] == limits
        assert api.run(alone[1], "1")["receipt"]["limits"] == limits
        old = wait_tree(server)
        os.kill(old.launcher, signal.SIGKILL)
        wait_successor(server, old)
        assert api.run(session, "1")["receipt"]["limits"] == limits


def test_what_ended_in_time_while_nobody_watched(one: Server) -> None:
    """Its time is up when the next daemon looks, but it was over before: that is how it ended."""
    api = Api(one.port)
    session = api.session()
    api.run(session, "open('held', 'w')")
    wait = "echo on; while [ -e held ]; do sleep 0.02; done; echo end; touch {}"
    executions = [
        api.start(session, f"import os\nos.system({wait.format('cell')!r})\nkept = 1", timeout=6),
        api.start(session, command=wait.format("command"), timeout=6),
    ]
    for execution in executions:
        api.wait_output(execution, "on")
    time_is_up = time.monotonic() + 6
    old = wait_tree(one)
    os.kill(one.process.pid, signal.SIGSTOP)  # it would start the next one
    try:
        os.kill(old.huskd, signal.SIGKILL)
        roots = [Path(f"/proc/{pid}/root/workspace") for pid in old.boxes]
        (workspace,) = [root for root in roots if (root / "held").exists()]
        (workspace / "held").unlink()
        for name in ("cell", "command"):
            wait_until((workspace / name).exists, f"the {name} has ended")
        wait_until(lambda: time.monotonic() > time_is_up, "their time is up")
    finally:
        os.kill(one.process.pid, signal.SIGCONT)
    wait_successor(one, old)
    for execution in executions:
        api.wait_status(execution, "completed")
        assert api.get(f"/executions/{execution}")["stdout"] == "on\nend\n"
    assert api.run(session, "kept")["value"] == "1"


def test_an_extended_session_stays_extended(one: Server) -> None:
    api = Api(one.port)
    session = api.session(timeout=60)
    assert api.post(f"/sessions/{session}/extend", {"timeout": 600})["timeout"] == 600
    kill_and_wait(one)
    assert api.get(f"/sessions/{session}")["timeout"] == 600
    assert one.stop() == 0
    one.start()
    assert api.get(f"/sessions/{session}")["timeout"] == 600


def test_sessions_of_a_template_that_was_changed_survive_a_kill(one: Server) -> None:
    """Two zygotes of one name run: boxes find their own, and new ones come from the new one."""
    api = Api(one.port)
    template = new_template("mine") | {"default_env_vars": {"WHICH": "first"}}
    assert api.post("/templates", template).status == 201
    old = api.session(template_id="mine")
    api.run(old, "import os\nx = os.environ['WHICH']\nopen('f', 'w').write('kept')")
    changed = api.call("PUT", "/templates/mine", {"default_env_vars": {"WHICH": "second"}})
    assert changed.status == 200, changed.raw
    second = api.session(template_id="mine")
    api.run(second, "import os\nx = os.environ['WHICH']")
    kill_and_wait(one)
    assert api.run(old, "x + open('f').read()")["return_value"] == "firstkept"
    assert api.run(second, "x")["return_value"] == "second"
    new = api.session(template_id="mine")
    assert api.run(new, "import os; os.environ['WHICH']")["return_value"] == "second"


def test_boxes_that_died_with_their_zygote_are_forgotten() -> None:
    """Each would cost the launcher descriptors for as long as it lives."""
    pools = ["--pool-min", "--pool-max", "--session-pool-min", "--session-pool-max", "--se-pool"]
    with Server.run(*(word for pool in pools for word in (pool, "0"))) as server:
        api = Api(server.port)
        launcher = wait_tree(server).launcher

        def lose(sessions: int) -> int:
            for _ in range(sessions):
                session = api.session()
                api.run(session, "1")
                for zygote in wait_tree(server).zygotes:
                    os.kill(zygote, signal.SIGKILL)
                kill_and_wait(server)
                assert api.call("DELETE", f"/sessions/{session}").status == 200
                assert server.post("/run", {"code": "print(2)"}).json["stdout"] == "2\n"
            return wait_settled(lambda: len(os.listdir(f"/proc/{launcher}/fd")), "the launcher")

        before = lose(2)
        after = lose(5)
        # A zygote more or less, of 22 descriptors, is none of this; five boxes have 80.
        assert after - before < 60, (before, after)


def test_an_adopted_box_has_the_limits_that_it_was_made_with(one: Server) -> None:
    """Its template has others by now; the box keeps its own."""
    api = Api(one.port)
    assert api.post("/templates", new_template("mine", memory_mb=300)).status == 201
    session = api.session(template_id="mine")
    limits = api.run(session, "1")["receipt"]["limits"]
    assert limits["memory_bytes"] == 300 << 20
    changed = api.call("PUT", "/templates/mine", {"default_memory_mb": 700})
    assert changed.status == 200, changed.raw
    kill_and_wait(one)
    assert api.run(session, "1")["receipt"]["limits"] == limits
    box = api.get(f"/containers/{api.get(f'/sessions/{session}')['container_id']}")
    assert box["memory_mb"] == 300 and box["cpu_cores"] > 0


@pytest.mark.parametrize("derived", [False, True])
def test_receipts_of_adopted_boxes_stay_true(one: Server, derived: bool) -> None:
    """What the launcher verified for a box is what it tells the next daemon. A new box of the same
    zygote shows that that one has become older.
    """
    api = Api(one.port)
    (one.templates / "warm.template").write_text("preload = json\noffers = math\n")
    (one.templates / "warm.template").chmod(0o644)
    template = "warm"
    if derived:
        template = "mine"
        made = api.post("/templates", {"id": "mine", "base": "warm", "preload": ["math"]})
        assert made.status == 201, made.raw
    verified = ("template", "imports", "boxes_checked", "zygote_age_ms")
    sessions = [api.session(template_id=template) for _ in range(2)]
    before = [api.run(session, "x = 1")["receipt"] for session in sessions]
    for receipt in before:
        assert receipt["template"] == "warm" and receipt["imports"] is True, receipt
        assert receipt["boxes_checked"] >= 1, receipt  # the first box of all is
    zygotes = wait_tree(one).zygotes
    kill_and_wait(one)
    for session, receipt in zip(sessions, before):
        after = api.run(session, "x")["receipt"]
        assert {key: after[key] for key in verified} == {key: receipt[key] for key in verified}
        assert after == receipt | {"warm": after["warm"]}
    assert set(zygotes) <= set(wait_tree(one).zygotes)
    fresh = api.run(api.session(template_id=template), "1")["receipt"]
    assert fresh["template"] == "warm" and fresh["imports"] is True, fresh
    assert fresh["boxes_checked"] >= max(receipt["boxes_checked"] for receipt in before), fresh
    assert fresh["zygote_age_ms"] > max(receipt["zygote_age_ms"] for receipt in before), fresh


def test_a_session_with_the_longest_id_survives_a_kill(one: Server) -> None:
    api = Api(one.port)
    session = api.session(id="s" * 64)
    api.run(session, "x = 7")
    kill_and_wait(one)
    assert api.run(session, "x")["value"] == "7"


def test_a_session_whose_template_is_gone_survives_a_kill(one: Server) -> None:
    """Its interpreter is there: no definition is needed to go on with it."""
    api = Api(one.port)
    template = one.templates / "mine.template"
    template.write_text("about = x\nlanguage = python\nruntime = /usr/bin/python3\n")
    template.chmod(0o644)
    session = api.session(template_id="mine")
    api.run(session, "x = 7")
    template.unlink()
    kill_and_wait(one)
    assert api.run(session, "x")["value"] == "7"
    assert api.run(session, "x", language="python")["value"] == "7"
    assert api.get(f"/sessions/{session}")["language_runtime"] == "python"
