# SPDX-License-Identifier: Apache-2.0
"""Programs of the server are killed or stopped, disks fill up, boxes lie: what was acknowledged stays, what runs goes on."""
from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from audit import Audit, Ledger, check_all_gone, wait_for, wait_tree
from husk_server import Server
from v1_client import Api, text_of


@pytest.fixture
def one() -> Iterator[Server]:
    with Server.run() as running:
        yield running


COUNT = """
import time
for i in range({n}):
    print(i, flush=True)
    time.sleep({pause})
"""


def counted(n: int) -> str:
    return "".join(f"{i}\n" for i in range(n))


# ---- huskd ----


def kill_and_wait(server: Server) -> None:
    old = server.kill_huskd()
    wait_for(lambda: (t := wait_tree(server)) is not None and t.huskd != old, "another huskd")
    server.wait_ready()


def test_kill_idle(one: Server) -> None:
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    ledger = Ledger(sessions={session})
    ledger.saw(api.run(session, "import math\ndef f(x): return math.sqrt(x)\ny = f(2)"))
    for _ in range(3):
        kill_and_wait(one)
        ledger.saw(execution := api.run(session, "y, f(9)"))
        assert execution["value"] == "(1.4142135623730951, 3.0)"
        audit.check(ledger)
    api.call("DELETE", f"/sessions/{session}")
    audit.check(ledger=None)
    audit.check_level()


def test_kill_while_a_cell_runs(one: Server) -> None:
    """Output before, during and after the kill is there once; variables and a second context live on."""
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    ledger = Ledger(sessions={session})
    ledger.saw(api.run(session, "kept = 'before'"))
    execution = api.start(session, COUNT.format(n=40, pause=0.05) + "during = 'x'")
    ledger.accepted.add(execution)
    for stop in ("3\n", "15\n"):
        api.wait_output(execution, stop)
        kill_and_wait(one)
    events = api.follow(execution)
    assert text_of(events) == counted(40)
    state = api.wait_status(execution, "completed")
    assert api.get(f"/executions/{execution}")["stdout"] == counted(40)
    ledger.saw({**api.get(f"/executions/{execution}").body})
    assert state["status"] == "completed"
    assert api.run(session, "kept, during")["value"] == "('before', 'x')"
    audit.check(ledger)
