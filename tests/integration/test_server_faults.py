# SPDX-License-Identifier: Apache-2.0
"""Programs of the server are killed or stopped, its disk fills up: what was acknowledged stays, what runs goes on."""
from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from audit import Audit, Ledger, Tree, check_all_gone, wait_for, wait_tree
from disk_faults import BYTES, fill, kill_and_wait, put, small_disk, wait_successor
from husk_server import Server
from v1_client import Api, check_error, text_of


@pytest.fixture
def one() -> Iterator[Server]:
    """Pools shrink again quickly, so that levels can be compared."""
    with Server.run("--pool-idle", "1s") as running:
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
    assert 2.5 < time.monotonic() - start < 3 + 3, "its limit is 3 s, whoever watches"
    assert api.run(session, "kept")["value"] == "1"


def test_kill_while_somebody_waits_for_the_answer(one: Server) -> None:
    """Nobody has its name, but it runs: its time limit holds, its end is recorded, and the session goes on."""
    api = Api(one.port)
    session = api.session()
    api.run(session, "kept = 1")
    body = {"code": "while True: pass", "timeout": 3}
    connection = api.connect()
    headers = {"Content-Type": "application/json"}
    path = f"/api/v1/sessions/{session}/execute-sync"
    connection.request("POST", path, json.dumps(body), headers)
    time.sleep(0.5)
    kill_and_wait(one)
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    start = time.monotonic()
    assert api.run(session, "kept")["value"] == "1"
    assert time.monotonic() - start < 3 + 3, "the one before it has a limit of 3 s"
    states = [item["status"] for item in api.get(f"/sessions/{session}/executions")["items"]]
    assert sorted(states) == ["completed", "completed", "timeout"]
    Audit(one).check()


def test_kill_interrupts_cells_that_nobody_waits_for(one: Server) -> None:
    """A cell of /workspace/se has no record: its answer is lost, it ends, and the session goes on."""
    api = Api(one.port)
    se = "/workspace/se/execute_code/forsaken"
    headers = {"Content-Type": "application/json"}

    def ask(code: str, output: str) -> http.client.HTTPConnection:
        connection = api.connect()
        body = json.dumps({"code": code, "output_params": [output]})
        connection.request("POST", se, body, headers)
        return connection

    assert ask("kept = 1", "kept").getresponse().status == 200
    waiting = ask("kept = 2\nwhile True: pass", "kept")
    time.sleep(0.5)
    kill_and_wait(one)
    with pytest.raises((OSError, http.client.HTTPException)):
        waiting.getresponse()
    # The time limit of that dialect is 300 s: only an interrupt lets this one in before.
    answer = ask("pass", "kept").getresponse()
    assert json.loads(answer.read())["output_variables"] == {"kept": 2}
    Audit(one).check()


def test_kill_while_ephemeral_runs_are_under_way(one: Server) -> None:
    """A box of one run belongs to the daemon that started it: lost, with the output that was seen, and never run again."""
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
    connection.putheader("Content-Type", BYTES["Content-Type"])
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
    time.sleep(0.5)
    assert api.get(f"/sessions/{session}/files")["files"] == []


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
    execution = api.start(session, COUNT.format(n=60, pause=0.1))
    ledger = Ledger(sessions={session}, accepted={execution})
    api.wait_output(execution, "1\n")
    old = wait_tree(one)
    for i in range(6):
        os.kill(old.huskd, signal.SIGKILL)
        wait_for(lambda: (t := Tree.of(one)) is not None and t.huskd != old.huskd, "another huskd")
        old = wait_tree(one)
        time.sleep(0.004 * i)
    one.wait_ready()
    api.wait_status(execution, "completed")
    assert api.get(f"/executions/{execution}")["stdout"] == counted(60)
    assert api.run(session, "kept")["value"] == "1"
    audit.check(ledger)


def test_sessions_keep_the_limits_of_the_server() -> None:
    """Those that asked for none have the operator's, also with a daemon and in a box that are not the first."""
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


def test_an_extended_session_stays_extended(one: Server) -> None:
    api = Api(one.port)
    session = api.session(timeout=60)
    assert api.post(f"/sessions/{session}/extend", {"timeout": 600})["timeout"] == 600
    kill_and_wait(one)
    assert api.get(f"/sessions/{session}")["timeout"] == 600
    assert one.stop() == 0
    one.start()
    assert api.get(f"/sessions/{session}")["timeout"] == 600


# ---- launcher ----


def test_killed_launcher(one: Server) -> None:
    """Every box is gone: what ran is lost, sessions go on with the files that were saved, and nothing is left."""
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    ledger = Ledger(sessions={session})
    assert put(api, session, "a.txt", b"uploaded").status == 201
    ledger.saw(api.run(session, "open('b.txt', 'w').write('written')"))
    wait_for(lambda: (one.data / "workspaces" / f"{session}.tar").exists(), "the copy is there")
    execution = api.start(session, COUNT.format(n=600, pause=0.1))
    ledger.accepted.add(execution)
    api.wait_output(execution, "2\n")
    old = wait_tree(one)
    os.kill(old.launcher, signal.SIGKILL)
    start = time.monotonic()
    wait_successor(one, old)
    print(f"serves again {time.monotonic() - start:.2f} s after the launcher was killed")
    lost = api.wait_status(execution, "lost")
    assert lost["status"] == "lost"
    assert api.get(f"/executions/{execution}")["stdout"].startswith("0\n1\n2\n")
    check_all_gone(old.everyone, [old.launcher], "kill -9 of the launcher")
    code = "open('a.txt').read() + open('b.txt').read()"
    assert api.run(session, code)["value"] == "'uploadedwritten'"
    assert one.post("/run", {"code": "print(2)"}).json["stdout"] == "2\n"
    audit.check(ledger)
    api.call("DELETE", f"/sessions/{session}")
    audit.check_level()


def test_an_agent_is_told_of_its_session_when_it_is_there() -> None:
    """Both ask while it is being made: neither gets what may yet fail."""
    with Server.run("--session-pool-min", "0", "--session-pool-max", "0") as server:
        api = Api(server.port)
        body = {"mode": "persistent", "agent_id": "somebody"}
        answers: list[Any] = []
        clients = [
            threading.Thread(target=lambda: answers.append(api.post("/sessions", body)))
            for _ in range(2)
        ]
        launcher = wait_tree(server).launcher
        os.kill(launcher, signal.SIGSTOP)
        try:
            clients[0].start()
            wait_for(lambda: int(api.get("/sessions?status=creating")["total"]) == 1, "it is begun")
            clients[1].start()
            clients[1].join(0.5)
            assert answers == []
        finally:
            os.kill(launcher, signal.SIGCONT)
        for client in clients:
            client.join()
        assert sorted(answer.status for answer in answers) == [200, 201]
        assert {answer["status"] for answer in answers} == {"running"}
        assert len({answer["id"] for answer in answers}) == 1


def test_launcher_killed_while_requests_wait(one: Server) -> None:
    """Whoever waits is told so; nobody hangs."""
    api = Api(one.port)
    sessions = [api.session() for _ in range(4)]
    answers: list[Any] = []

    def ask(session: str) -> None:
        answers.append(api.run(session, "import time; time.sleep(60)", timeout=60))

    clients = [threading.Thread(target=ask, args=(s,)) for s in sessions]
    for client in clients:
        client.start()
    wait_for(lambda: int(api.get("/containers?status=running")["total"]) >= 4, "all of them run")
    time.sleep(0.3)
    old = wait_tree(one)
    os.kill(old.launcher, signal.SIGKILL)
    for client in clients:
        client.join(20)
    assert [a["status"] for a in answers] == ["lost"] * 4
    wait_successor(one, old)
    assert [api.run(s, "1")["value"] for s in sessions] == ["1"] * 4
    Audit(one).check()


# ---- zygotes ----


def test_killed_zygote(one: Server) -> None:
    """Its boxes are gone with it. What comes next gets a new one."""
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    execution = api.start(session, COUNT.format(n=600, pause=0.1))
    api.wait_output(execution, "1\n")
    old = wait_tree(one)
    for zygote in old.zygotes:
        os.kill(zygote, signal.SIGKILL)
    start = time.monotonic()
    # The first ones may get boxes that are just dying, and are told so; nothing else may go wrong.
    for _ in range(4):
        answer = one.post("/run", {"code": "print(1)"})
        assert answer.status in (200, 503), answer.body
        run = answer.json
        assert run.get("stdout") == "1\n" or "zygote died" in run["error"], run
    assert one.post("/run", {"code": "print(1)"}).json["stdout"] == "1\n"
    assert api.wait_status(execution, "lost", "crashed")
    assert api.run(session, "6 * 7")["value"] == "42"
    print(f"a session runs again {time.monotonic() - start:.2f} s after its zygote was killed")
    audit.check()
    assert wait_tree(one).huskd == old.huskd


def test_stopped_zygote(one: Server) -> None:
    """One that does not answer is replaced; until then answers are typed, and what runs is not held up."""
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    api.run(session, "kept = 1")
    audit.idle_level()
    old = wait_tree(one)
    for zygote in old.zygotes:
        os.kill(zygote, signal.SIGSTOP)
    assert api.run(session, "kept")["value"] == "1"
    audit.check_health()
    deadline = time.monotonic() + 40
    answers: list[int] = []
    while answers[-4:] != [200] * 4 or set(old.zygotes) & set(wait_tree(one).zygotes):
        run = one.post("/run", {"code": "print(1)"})
        made = api.call("POST", "/sessions", {"mode": "persistent"}, is_known=False)
        answers.append(run.status)
        assert run.status in (200, 503), run.body
        assert made.status in (201, 503), made
        assert time.monotonic() < deadline, answers
    print(f"answers while zygotes were stopped and replaced: {answers}")
    assert api.run(session, "1")["value"] == "1"
    audit.check()


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
        time.sleep(1.5)  # meanwhile the cell ends, and its result cannot be written

        filler.unlink()
        wait_for(
            lambda: str(api.get(f"/executions/{under_way}")["status"]) == "completed",
            "the result is there once there is room",
        )
        assert api.get(f"/executions/{under_way}")["stdout"] == counted(15)
        wait_for(
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
