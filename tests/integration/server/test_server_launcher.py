# SPDX-License-Identifier: Apache-2.0
"""The launcher or a zygote is killed, stopped or missing: the daemon reports it, and goes on when
there is another.
"""
from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from audit import Audit, Ledger, Tree, check_all_gone, wait_tree
from beside import beside
from disk_faults import new_template, wait_successor
from husk_server import Server, one  # noqa: F401
from places import BIN
from procfs import links_of
from v1_client import Answer, Api, answer_to, check_error
from v1_files import put
from waiting import PATIENCE, wait_until

COUNT = "import time\nfor i in range({n}):\n    print(i, flush=True)\n    time.sleep({pause})\n"


# ---- the launcher ----


def test_killed_launcher(one: Server) -> None:
    """Every box is gone: what ran is lost, sessions go on with the files that were saved, and
    nothing is left.
    """
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    ledger = Ledger(sessions={session})
    assert put(api, session, "a.txt", b"uploaded").status == 201
    ledger.saw(api.run(session, "open('b.txt', 'w').write('written')"))
    wait_until(lambda: (one.store / "workspaces" / f"{session}.tar").exists(), "the copy is there")
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


def test_launcher_that_cannot_be_started_for_a_while(tmp_path: Path) -> None:
    """As while its package is replaced: it is tried again with pauses, and then serves."""
    program, away = tmp_path / "husk-launcher", tmp_path / "away"
    server = Server()
    shutil.copy2(server.programs / "husk-launcher", program)
    server.variables = {"HUSK_LAUNCHER": str(program)}
    try:
        server.start()
        program.rename(away)
        os.kill(wait_tree(server).launcher, signal.SIGKILL)
        wait_until(lambda: server.output.count("launcher_ended") >= 4, "it was tried again")
        time.sleep(1)  # long enough for thousands
        away.rename(program)
        server.wait_ready()
        assert server.post("/run", {"code": "print(2)"}).json["stdout"] == "2\n"
        assert server.output.count("launcher_ended") < 50
    finally:
        server.remove()


def meet_a_creation(server: Server, body: Any, method: str, path: str, other: Any) -> list[Answer]:
    """The other request comes while the box cannot be made, and has to wait for it."""
    api = Api(server.port)
    launcher = wait_tree(server).launcher
    os.kill(launcher, signal.SIGSTOP)
    try:
        asked = [api.begin("POST", "/sessions", body)]
        wait_until(lambda: int(api.get("/sessions?status=creating")["total"]) == 1, "it is begun")
        asked.append(api.begin(method, path, other))
        api.wait_taken()
        assert select.select([connection.sock for connection in asked], [], [], 0)[0] == []
    finally:
        os.kill(launcher, signal.SIGCONT)
    return [answer_to(connection) for connection in asked]


def test_an_agent_is_told_of_its_session_when_it_is_there() -> None:
    """Both ask while it is being made: neither gets what may yet fail."""
    with Server.run("--session-pool-min", "0", "--session-pool-max", "0") as server:
        body = {"mode": "persistent", "agent_id": "somebody"}
        answers = meet_a_creation(server, body, "POST", "/sessions", body)
        assert sorted(answer.status for answer in answers) == [200, 201]
        assert {answer["status"] for answer in answers} == {"running"}
        assert len({answer["id"] for answer in answers}) == 1


def test_an_end_while_the_box_is_made() -> None:
    """It waits for the box, and for the record that its maker then writes."""
    with Server.run("--session-pool-min", "0", "--session-pool-max", "0") as server:
        api = Api(server.port)
        body = {"id": "mine", "mode": "persistent"}
        _, ended = meet_a_creation(server, body, "DELETE", "/sessions/mine", None)
        assert ended.status == 200
        assert api.get("/sessions/mine")["status"] == "terminated"
        Audit(server).check()


@pytest.mark.parametrize("key", [None, "again"])
@pytest.mark.parametrize("name", [None, "mine"])
def test_a_session_that_was_being_made_when_huskd_died(name: str | None, key: str | None) -> None:
    """It was promised to nobody: what has no key is gone, and the same request makes it."""
    with Server.run("--session-pool-min", "0", "--session-pool-max", "0") as server:
        api = Api(server.port)
        body = {"mode": "persistent", **({"id": name} if name else {})}
        dropped: list[Any] = []

        def ask() -> None:
            with pytest.raises((OSError, http.client.HTTPException)) as caught:
                api.post("/sessions", body, key=key)
            dropped.append(caught)

        client = threading.Thread(target=ask)
        launcher = wait_tree(server).launcher
        os.kill(launcher, signal.SIGSTOP)
        try:
            client.start()
            wait_until(
                lambda: int(api.get("/sessions?status=creating")["total"]) == 1, "it is begun"
            )
            server.kill_huskd()
            client.join()
        finally:
            os.kill(launcher, signal.SIGCONT)
        server.wait_ready()
        assert dropped
        assert int(api.get("/sessions")["total"]) == (1 if key else 0)
        answer = api.post("/sessions", body, key=key)
        assert answer.status == (200 if key else 201) and answer["status"] == "running"
        assert int(api.get("/sessions")["total"]) == 1
        assert api.run(answer["id"], "6 * 7")["value"] == "42"
        Audit(server).check()


def is_read(client: http.client.HTTPConnection) -> bool:
    """Whether the server has taken all that it was sent; the kernel says what is left."""
    port = f":{client.sock.getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[4].split(":")[1] for row in rows if row[2].endswith(port)] == ["00000000"]


def test_a_cancel_while_the_box_is_made() -> None:
    """What was cancelled by then does not begin in it."""
    with Server.run("--session-pool-min", "0", "--session-pool-max", "0") as server:
        api = Api(server.port)
        session = api.session()
        server.stop()
        server.start()  # the next execution makes a box for it
        launcher = wait_tree(server).launcher
        os.kill(launcher, signal.SIGSTOP)
        try:
            execution = api.start(session, "1")
            client = server.connection()
            client.request("POST", f"/api/v1/executions/{execution}/cancel")
            wait_until(lambda: is_read(client), "the server has the request")
            assert api.get(f"/executions/{execution}/status")["status"] == "pending"
        finally:
            os.kill(launcher, signal.SIGCONT)
        answer = json.loads(client.getresponse().read())
        client.close()
        assert answer["status"] == "cancelled" and answer["started_at"] is None
        assert api.run(session, "2")["value"] == "2"


def test_launcher_killed_while_requests_wait(one: Server) -> None:
    """Each client that waits gets an answer; none hangs."""
    api = Api(one.port)
    sessions = [api.session() for _ in range(4)]
    body = {"code": "import time; time.sleep(60)", "timeout": 60}
    asked = [api.begin("POST", f"/sessions/{session}/execute-sync", body) for session in sessions]
    for session in sessions:
        api.wait_busy(session)
    old = wait_tree(one)
    os.kill(old.launcher, signal.SIGKILL)
    for connection in asked:
        check_error(answer_to(connection), 503, "ExecutionLost")
    wait_successor(one, old)
    assert [api.run(s, "1")["value"] for s in sessions] == ["1"] * 4
    Audit(one).check()


def test_what_is_answered_without_a_launcher(one: Server) -> None:
    """Until there is another, whatever needs a box is 503: nothing else is wrong with the session
    or the server.
    """
    api = Api(one.port)
    sessions = [api.session() for _ in range(6)]  # a context does one thing at a time
    checkpoint = api.post(f"/sessions/{sessions[0]}/contexts/0/checkpoint")["checkpoint_id"]
    below = [f"/api/v1/sessions/{session}" for session in sessions]
    asked: list[tuple[str, str, Any]] = [
        ("POST", f"{below[0]}/contexts/0/restore", {"checkpoint_id": checkpoint}),
        ("POST", f"{below[1]}/contexts/0/checkpoint", None),
        ("POST", f"{below[2]}/contexts/0/branch", None),
        ("POST", f"{below[3]}/reset", {}),
        ("GET", f"{below[4]}/files", None),
        ("POST", "/api/v1/sessions", {"mode": "persistent"}),
        ("POST", "/workspace/se/execute_code/mine", {"code": "1"}),
        ("POST", f"{below[5]}/execute-sync", {"code": "1"}),
        ("POST", "/run", {"code": "1"}),
        ("POST", "/workspace/se/v2/execute_code", {"handler_code": "def handler(e): return 1"}),
    ]
    answers: list[Any] = []

    def insist(method: str, path: str, body: Any) -> None:
        headers = {"Idempotency-Key": "again"} if path == "/api/v1/sessions" else {}
        while (tree := Tree.of(one)) is None or tree.huskd == old.huskd:
            try:
                answers.append((path, one.request(method, path, body, headers)))
            except (OSError, http.client.HTTPException):
                return  # it has gone for the next one

    clients = [threading.Thread(target=insist, args=ask) for ask in asked]
    old = wait_tree(one)
    os.kill(old.launcher, signal.SIGKILL)
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    wait_successor(one, old)
    for path, answer in answers:
        if answer.status in (200, 201):
            assert path != "/api/v1/sessions" or answer.json["status"] == "running", answer.text
        elif path.endswith("/restore") and answer.status == 404:
            assert f"checkpoint {checkpoint}" in answer.text, "the successor has none"
        else:
            assert answer.status == 503 and "launcher" in answer.text, (path, answer.text)
            is_run = path == "/run" or "/execute" in path
            assert ('"begun":' in answer.text) == is_run, (path, answer.text)
    made = api.post("/sessions", {"mode": "persistent"}, key="again")
    assert made["status"] == "running", made.raw
    Audit(one).check(Ledger(sessions={*sessions, made["id"]}))


# ---- zygotes ----


def test_a_template_that_is_changed_while_a_box_of_it_is_made() -> None:
    with Server.run("--pool-min", "0", "--pool-max", "0") as server:
        api = Api(server.port)
        assert api.post("/templates", new_template("mine")).status == 201
        sessions = [api.session(template_id="mine", mode="ephemeral") for _ in range(2)]
        api.run(sessions[0], "1")  # its zygote runs
        tree = wait_tree(server)
        os.kill(tree.launcher, signal.SIGSTOP)
        try:
            execution = api.start(sessions[1], "6 * 7")
            changed = api.call("PUT", "/templates/mine", {"default_env_vars": {"A": "b"}})
            assert changed.status == 200
            time.sleep(2)  # of housekeeping, which clears away what is not in use
        finally:
            os.kill(tree.launcher, signal.SIGCONT)
        api.wait_status(execution, "completed")
        assert server.pid_of_huskd() == tree.huskd


def test_nothing_is_left_when_the_supervisor_is_killed() -> None:
    """huskd ends, the launcher with its last client, and so do guards, zygotes and boxes."""
    with Server.run() as server:
        api = Api(server.port)
        execution = api.start(api.session(), COUNT.format(n=600, pause=0.1))
        api.wait_output(execution, "2\n")
        tree = wait_tree(server)
        assert tree.zygotes and tree.boxes
        names = [p.name for p in tree.everyone]
        assert names.count("husk-guard") == (2 if os.geteuid() == 0 else 1), names
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        check_all_gone(tree.everyone, [tree.launcher, tree.huskd], "the supervisor was killed")


@beside
def test_down_ends_a_launcher_that_is_stuck() -> None:
    """It gets its time, then it is killed, and its guard cleans up."""
    with Server.run("--drain-timeout", "0") as server:
        api = Api(server.port)
        api.run(api.session(), "x = 1")
        tree = wait_tree(server)
        os.kill(tree.launcher, signal.SIGSTOP)
        down = subprocess.run(
            [BIN / "husk", "down", "--data", server.data],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert down.returncode == 0 and "husk is down" in down.stdout, down
        server.process.wait(PATIENCE)
        check_all_gone(tree.everyone, [tree.launcher, tree.huskd], "husk down")


def test_zygotes_bring_in_memory_page_by_page(one: Server) -> None:
    """Without it everything works, and a box costs a fifth more processor time: the confinement of
    zygotes took it away once, and no other test noticed.
    """
    assert one.post("/run", {"code": "print(1)"}).json["stdout"] == "1\n"
    for zygote in wait_tree(one).zygotes:
        wait_until(lambda: "anon_inode:[userfaultfd]" in links_of(zygote).values(), "it has one")


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
    # The first ones may get boxes that are just dying, and an error for it; nothing else may fail.
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


@beside
def test_stopped_zygote() -> None:
    """One that does not answer is replaced; until then answers are typed, and what runs is not held
    up.
    """
    with Server.run("--pool-idle", "1s") as one:
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
