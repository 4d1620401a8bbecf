# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed, its disk fills up: what was acknowledged stays, what runs goes on."""
from __future__ import annotations

import http.client
import json
import os
import signal
import time
from pathlib import Path

import pytest
from audit import Audit, Ledger, wait_next_huskd, wait_tree
from disk_faults import fill, kill_and_wait, small_disk
from husk_server import Server, one  # noqa: F401
from v1_client import Api, text_of
from v1_files import names, put
from waiting import wait_until


COUNT = """
import time
for i in range({n}):
    print(i, flush=True)
    time.sleep({pause})
"""


# Until it is told to end; its value says how far it came.
COUNT_ON = """
import os, time
i = 0
while not os.path.exists('end'):
    print(i, flush=True)
    time.sleep(0.02)
    i += 1
i
"""


def counted(n: int) -> str:
    return "".join(f"{i}\n" for i in range(n))


# ---- kill -9 ----


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
    """Output before, during and after the kill is there once; variables and a second context live
    on.
    """
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


def test_kill_while_output_floods() -> None:
    """Thousands of lines a second, three kills: no line is missing, none comes twice."""
    code = (
        "import sys, time\n"
        "for i in range(30000):\n"
        "    sys.stdout.write('%07d\\n' % i)\n"
        "    sys.stdout.flush()\n"
        "    if i % 200 == 0:\n"
        "        time.sleep(0.01)\n"
    )
    with Server.run("--output-keep", "4M") as server:
        api = Api(server.port)
        execution = api.start(api.session(), code)
        for line in (2000, 10000, 18000):
            api.wait_output(execution, f"{line:07}\n")
            kill_and_wait(server)
        api.wait_status(execution, "completed")
        lines = api.get(f"/executions/{execution}")["stdout"].splitlines()
        assert lines == [f"{i:07}" for i in range(30000)]


def test_kill_keeps_every_kind_of_cell(one: Server) -> None:
    """Commands, branches, more of them than one; stdout and stderr; each goes on where it was."""
    api = Api(one.port)
    session = api.session()
    api.run(session, "base = 7")
    contexts = [0] + [
        api.post(f"/sessions/{session}/contexts/0/branch")["context_id"] for _ in range(6)
    ]
    code = COUNT.format(n=20, pause=0.1) + "import sys; print(base, file=sys.stderr)"
    cells = [api.start(session, code, context_id=c) for c in contexts]
    command = api.start(session, command="for i in $(seq 0 19); do echo $i; sleep 0.1; done")
    for execution in [*cells, command]:
        api.wait_output(execution, "3\n")
    started = [api.get(f"/executions/{x}")["started_at"] for x in [*cells, command]]
    kill_and_wait(one)
    for execution in [*cells, command]:
        api.wait_status(execution, "completed")
        assert api.get(f"/executions/{execution}")["stdout"] == counted(20)
    assert [api.get(f"/executions/{x}")["stderr"] for x in cells] == ["7\n"] * 7
    assert [api.get(f"/executions/{x}")["started_at"] for x in [*cells, command]] == started
    assert len(api.get(f"/sessions/{session}/contexts")["items"]) == 7, "the command left its own"
    Audit(one).check()


def test_kill_keeps_long_cells(one: Server) -> None:
    """They are handed over in pieces, and then they are like any other."""
    api = Api(one.port)
    session = api.session()
    api.run(session, "base = 7")
    padding = "\n#" + "x" * 900_000
    cell = api.start(session, COUNT.format(n=20, pause=0.1) + padding)
    loop = "for i in $(seq 0 19); do echo $i; sleep 0.1; done"
    in_shell = api.start(session, loop + padding, language="shell")
    for execution in (cell, in_shell):
        api.wait_output(execution, "3\n")
    kill_and_wait(one)
    for execution in (cell, in_shell):
        api.wait_status(execution, "completed")
        assert api.get(f"/executions/{execution}")["stdout"] == counted(20)
    assert api.run(session, "base")["value"] == "7"
    assert api.run(session, "echo $i", language="shell")["stdout"] == "19\n"
    assert len(api.get(f"/sessions/{session}/contexts")["items"]) == 2
    Audit(one).check()


def test_kill_does_not_extend_a_time_limit(one: Server) -> None:
    api = Api(one.port)
    session = api.session()
    start = time.monotonic()
    execution = api.start(
        session, "import time\nkept = 1\nprint('on', flush=True)\ntime.sleep(60)", timeout=3
    )
    api.wait_output(execution, "on")
    kill_and_wait(one)
    api.wait_status(execution, "timeout")
    assert 2.5 < time.monotonic() - start < 30, "its limit is 3 s, also across a restart"
    assert api.run(session, "kept")["value"] == "1"


def test_kill_while_somebody_waits_for_the_answer(one: Server) -> None:
    """No client knows its id, but it runs: its time limit holds, its end is recorded, and the session
    goes on.
    """
    api = Api(one.port)
    session = api.session()
    api.run(session, "kept = 1")
    body = {"code": "while True: pass", "timeout": 3}
    connection = api.connect()
    headers = {"Content-Type": "application/json"}
    path = f"/api/v1/sessions/{session}/execute-sync"
    connection.request("POST", path, json.dumps(body), headers)
    api.wait_busy(session)
    kill_and_wait(one)
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    start = time.monotonic()
    assert api.run(session, "kept")["value"] == "1"
    assert time.monotonic() - start < 30, "the one before it has a limit of 3 s"
    states = [item["status"] for item in api.get(f"/sessions/{session}/executions")["items"]]
    assert sorted(states) == ["completed", "completed", "timeout"]
    Audit(one).check()


def test_kill_interrupts_cells_that_nobody_waits_for(one: Server) -> None:
    """A cell of /workspace/se has no record: its answer is lost, it ends, and the session goes
    on.
    """
    api = Api(one.port)
    se = "/workspace/se/execute_code/forsaken"
    headers = {"Content-Type": "application/json"}

    def ask(code: str, output: str) -> http.client.HTTPConnection:
        connection = api.connect()
        body = json.dumps({"code": code, "output_params": [output]})
        connection.request("POST", se, body, headers)
        return connection

    assert ask("kept = 1", "kept").getresponse().status == 200
    waiting = ask("kept = 2\nopen('on', 'x')\nwhile True: pass", "kept")
    boxes = wait_tree(one).boxes
    wait_until(
        lambda: any(Path(f"/proc/{pid}/root/workspace/on").exists() for pid in boxes), "it runs"
    )
    kill_and_wait(one)
    with pytest.raises((OSError, http.client.HTTPException)):
        waiting.getresponse()
    # The time limit of that dialect is 300 s: only an interrupt lets this one in before.
    answer = ask("pass", "kept").getresponse()
    assert json.loads(answer.read())["output_variables"] == {"kept": 2}
    Audit(one).check()


def test_kill_while_ephemeral_runs_are_under_way(one: Server) -> None:
    """A box of one run belongs to the daemon that started it: lost, with the output that was seen,
    and never run again.
    """
    api = Api(one.port)
    audit = Audit(one)
    session = api.session(mode="ephemeral")
    body = {"code": COUNT.format(n=600, pause=0.1)}
    answer = api.post(f"/sessions/{session}/execute", body, key="only-once")
    execution = answer["execution_id"]
    api.wait_output(execution, "2\n")
    seen = api.get(f"/executions/{execution}")["stdout"]
    kill_and_wait(one)
    now = api.get(f"/executions/{execution}").body
    assert now["status"] == "lost" and now["stdout"].startswith(seen)
    again = api.post(f"/sessions/{session}/execute", body, key="only-once")
    assert (again.status, again["execution_id"]) == (201, execution)
    assert again["status"] == "lost"
    audit.check()
    audit.check_level()


def start_upload(
    api: Api, session: str, path: str, sent: int, size: int
) -> http.client.HTTPConnection:
    """An upload that is not finished."""
    connection = api.connect()
    connection.putrequest("PUT", f"/api/v1/sessions/{session}/files/{path}")
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(size))
    connection.endheaders()
    connection.send(os.urandom(sent))
    return connection


def test_kill_during_upload(one: Server) -> None:
    """The old file or the new one, never a part; what was acknowledged also outlives the box."""
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    ledger = Ledger(sessions={session})
    small = os.urandom(1000)
    assert put(api, session, "kept.bin", small).status == 201
    ledger.files[session, "kept.bin"] = small
    connection = start_upload(api, session, "kept.bin", 4 << 20, 8 << 20)
    kill_and_wait(one)
    with pytest.raises(OSError):
        for _ in range(64):
            connection.send(os.urandom(1 << 16))
        connection.getresponse()
    connection.close()
    audit.check(ledger)
    assert one.stop() == 0  # and the box goes
    one.start()
    Audit(one).check(ledger)


def test_kill_during_upload_leaves_no_temporary_file(one: Server) -> None:
    api = Api(one.port)
    session = api.session()
    for _ in range(3):
        start_upload(api, session, "new.bin", 4 << 20, 8 << 20)
        kill_and_wait(one)
    wait_until(lambda: not names(api, session), "nothing is left")


def test_kill_keeps_rich_output(one: Server) -> None:
    api = Api(one.port)
    session = api.session()
    execution = api.start(
        session,
        "class H:\n"
        "    def _repr_html_(self):\n"
        "        return '<b>1</b>'\n"
        "import time\n"
        "display(H())\n"
        "print('shown', flush=True)\n"
        "time.sleep(1)\n"
        "H()\n",
    )
    api.wait_output(execution, "shown")
    kill_and_wait(one)
    api.wait_status(execution, "completed")
    assert len(api.get(f"/executions/{execution}")["outputs"]) == 2


def test_killed_again_and_again_while_starting(one: Server) -> None:
    """Killed before it serves, ten times: it converges, and nothing is added on the way."""
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    api.run(session, "kept = 1")
    execution = api.start(session, COUNT_ON)
    ledger = Ledger(sessions={session}, accepted={execution})
    api.wait_output(execution, "1\n")
    old = wait_tree(one)
    for i in range(6):
        os.kill(old.huskd, signal.SIGKILL)
        old = wait_next_huskd(one, old)
        time.sleep(0.004 * i)
    one.wait_ready()
    assert put(api, session, "end", b"").status == 201
    api.wait_status(execution, "completed")
    done = api.get(f"/executions/{execution}")
    assert done["stdout"] == counted(int(done["value"])), "nothing lost, nothing twice"
    assert api.run(session, "kept")["value"] == "1"
    audit.check(ledger)


# ---- the disk ----


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_full_disk() -> None:
    with small_disk("size=24m") as server:
        audit = Audit(server)
        api = Api(server.port)
        session = api.session()
        ledger = Ledger(sessions={session})
        ledger.saw(api.run(session, "kept = 'before'"))
        under_way = api.start(session, COUNT.format(n=15, pause=0.1))
        ledger.accepted.add(under_way)
        api.wait_output(under_way, "1\n")
        filler = fill(server.data)

        for path, body in (
            ("/sessions", {"mode": "persistent"}),
            (f"/sessions/{session}/execute", {"code": "1"}),
            (f"/sessions/{session}/execute-sync", {"code": "1"}),
        ):
            start = time.monotonic()
            answer = api.call("POST", path, body, is_known=False)
            assert answer.status in (503, 507), (path, answer)
            assert answer["error_code"] in ("Sandbox.DiskFull", "Sandbox.Unavailable"), answer
            assert time.monotonic() - start < 15, path
        audit.check_health()
        assert api.get(f"/sessions/{session}").status == 200
        assert api.get(f"/sessions/{session}/executions").status == 200
        assert server.post("/run", {"code": "print(1)"}).json["stdout"] == "1\n"  # no record
        server.wait_said("result_not_recorded")

        filler.unlink()
        wait_until(
            lambda: str(api.get(f"/executions/{under_way}")["status"]) == "completed",
            "the result is there once there is room",
        )
        assert api.get(f"/executions/{under_way}")["stdout"] == counted(15)
        wait_until(
            lambda: api.call("POST", f"/sessions/{session}/execute-sync", {"code": "kept"}).status
            == 200,
            "it takes work again, by itself",
        )
        assert api.run(session, "kept")["value"] == "'before'"
        ledger.sessions.add(api.session())
        ledger.saw(api.get(f"/executions/{under_way}").body)
        audit.check(ledger)
        kill_and_wait(server)  # and all of it was on the disk
        Audit(server).check(ledger)
