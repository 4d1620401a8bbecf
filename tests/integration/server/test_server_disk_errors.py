# SPDX-License-Identifier: Apache-2.0
"""Writes, syncs and renames of the server fail: nothing is acknowledged that is not there, nothing
is there by halves.
"""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from audit import Audit, Ledger
from disk_faults import failing, kill_and_wait, needs_root, new_template, server, wait_taken
from husk_server import Server
from v1_client import Api, check_error
from v1_files import put
from waiting import wait_until

__all__ = ["server"]


# ---- system calls that fail ----


def ask_everything(api: Api, session: str, ledger: Ledger) -> dict[str, int]:
    """Each kind of change once. Returns the statuses; what was acknowledged goes to the ledger."""
    below = f"/sessions/{session}"
    asks: list[tuple[str, str, str, Any]] = [
        ("session", "POST", "/sessions", {"mode": "ephemeral"}),
        ("async", "POST", f"{below}/execute", {"code": "1"}),
        ("sync", "POST", f"{below}/execute-sync", {"code": "1"}),
        ("create", "POST", "/templates", new_template("another")),
        ("update", "PUT", "/templates/mine", {"default_memory_mb": 256}),
        ("delete", "DELETE", "/templates/old", None),
    ]
    status = {}
    for name, method, path, body in asks:
        answer = api.call(method, path, body)
        status[name] = answer.status
        if answer.status >= 400:
            check_error(answer, 503, "DiskFull")
        elif name == "session":
            ledger.sessions.add(answer["id"])
        elif name in ("async", "sync"):
            ledger.accepted.add(answer["execution_id"])
    return status


RECORDS = {"session", "async", "sync"}
TEMPLATES = {"create", "update", "delete"}


@needs_root
@pytest.mark.parametrize(
    "calls, how, refused",
    [
        ("fdatasync", "error=EIO", RECORDS | TEMPLATES),
        ("fdatasync", "error=ENOSPC", RECORDS | TEMPLATES),
        ("pwrite64", "error=EIO", RECORDS | TEMPLATES),
        ("pwrite64", "error=ENOSPC", RECORDS | TEMPLATES),
        ("pwrite64", "error=EDQUOT", RECORDS | TEMPLATES),
        ("fsync", "error=EIO", {"create", "update"}),  # a file of its own, synced before its record
        ("rename", "error=EIO", TEMPLATES),
        ("pwrite64", "error=EINTR:when=1+3", set()),  # only an interruption
    ],
)
def test_failing_calls(server: Server, calls: str, how: str, refused: set[str]) -> None:
    audit = Audit(server)
    api = Api(server.port)
    session = api.session()
    ledger = Ledger(sessions={session})
    ledger.saw(api.run(session, "kept = 1"))
    for name in ("mine", "old"):
        assert api.post("/templates", new_template(name)).status == 201
    before = {name: api.get(f"/templates/{name}").body for name in ("mine", "old")}
    total = api.get("/sessions")["total"]

    with failing(server, calls, how):
        status = ask_everything(api, session, ledger)
        audit.check_health()
        audit.check_ledger(ledger)
        assert api.call("GET", f"/sessions/{session}/executions").status == 200
    assert {name for name, code in status.items() if code == 503} == refused

    def check_nothing_half() -> None:
        """A change that was refused has left nothing."""
        assert api.get("/sessions")["total"] == total + (status["session"] == 201)
        assert api.get("/templates/another").status == (404 if "create" in refused else 200)
        if "update" in refused:
            assert api.get("/templates/mine").body == before["mine"]
        if "delete" in refused:
            assert api.get("/templates/old").body == before["old"]
        names = {p.name for p in (server.store / "templates").iterdir()}
        shown = {item["id"] for item in api.get("/templates?limit=200")["items"]}
        assert names == {f"{n}.template" for n in shown & {"mine", "old", "another"}}

    ledger.saw(wait_taken(api, "POST", f"/sessions/{session}/execute-sync", {"code": "kept"}).body)
    check_nothing_half()
    kill_and_wait(server)
    check_nothing_half()
    audit.check(ledger)
    for name in ("mine", "old", "another"):
        api.call("DELETE", f"/templates/{name}")
        assert api.post("/templates", new_template(name)).status == 201, name
        assert api.call("DELETE", f"/templates/{name}").status == 204


@needs_root
def test_one_failed_sync_is_one_refusal(server: Server) -> None:
    """The next request has a store that works, and the key of the refused one is free."""
    api = Api(server.port)
    session = api.session()
    api.run(session, "count = 0")
    body = {"code": "count += 1"}
    path = f"/sessions/{session}/execute"
    with failing(server, "fdatasync", "error=EIO:when=1"):
        check_error(api.post(path, body, key="once"), 503, "DiskFull")
        first = api.post(path, body, key="once")
        again = api.post(path, body, key="once")
    assert (first.status, again.status) == (201, 201), (first, again)
    assert first["execution_id"] == again["execution_id"]
    api.wait_status(first["execution_id"], "completed")
    assert api.run(session, "count")["value"] == "1"
    kill_and_wait(server)
    assert api.run(session, "count")["value"] == "1"
    Audit(server).check(Ledger(sessions={session}, accepted={first["execution_id"]}))


@needs_root
def test_work_while_a_session_is_recorded_counts(server: Server) -> None:
    """The move to running is on its way to the disk: what begins meanwhile is not undone by it."""
    api = Api(server.port)
    path = "/sessions/mine/execute-sync"
    with failing(server, "fdatasync", "delay_enter=500000"), ThreadPoolExecutor(7) as clients:
        made = clients.submit(api.post, "/sessions", {"id": "mine", "mode": "persistent"})
        wait_until(lambda: int(api.get("/sessions?status=creating")["total"]) == 1, "it is begun")
        begun = [clients.submit(api.post, path, {"code": "1"}) for _ in range(6)]
        assert made.result().status == 201
        assert {one.result().status for one in begun} == {200}
    assert api.get("/sessions/mine/stats")["executions"] == len(begun)


@needs_root
@pytest.mark.parametrize("is_killed", [False, True])
def test_work_while_a_session_is_recorded_does_not_undo_that(
    server: Server, is_killed: bool
) -> None:
    """What ends while the move to running is on its way to the disk is written behind it."""
    api = Api(server.port)
    with failing(server, "fdatasync", "delay_enter=500000"), ThreadPoolExecutor(1) as client:
        made = client.submit(api.post, "/sessions", {"id": "mine", "mode": "persistent"})
        wait_until(lambda: int(api.get("/sessions?status=creating")["total"]) == 1, "it is begun")
        assert api.run("mine", "1")["value"] == "1"
        assert made.result().status == 201
    if is_killed:
        kill_and_wait(server)
        assert api.get("/sessions/mine")["status"] == "running"
    assert api.call("DELETE", "/sessions/mine")["status"] == "terminated"


@needs_root
@pytest.mark.parametrize("query, status, left", [("", 200, 200), ("?purge=true", 204, 404)])
def test_an_end_while_a_session_is_recorded(
    server: Server, query: str, status: int, left: int
) -> None:
    """The move to running is on its way to the disk: the end comes behind it, and is not
    refused.
    """
    api = Api(server.port)
    with failing(server, "fdatasync", "delay_enter=500000"), ThreadPoolExecutor(1) as client:
        made = client.submit(api.post, "/sessions", {"id": "mine", "mode": "persistent"})
        wait_until(lambda: int(api.get("/sessions?status=creating")["total"]) == 1, "it is begun")
        assert put(api, "mine", "a.txt", b"first").status == 201
        assert api.call("DELETE", f"/sessions/mine{query}").status == status
        assert made.result().status == 201
    answer = api.get("/sessions/mine")
    assert answer.status == left
    assert left == 404 or answer["status"] == "terminated"
    Audit(server).check()


@needs_root
def test_a_session_that_the_disk_refuses_was_never_there(server: Server) -> None:
    """No request can use it, and leave a record of it behind, before it is recorded."""
    api = Api(server.port)
    body = {"id": "mine", "mode": "persistent"}
    path = "/sessions/mine/execute-sync"
    with failing(server, "fdatasync", "error=EIO:delay_enter=500000"):
        with ThreadPoolExecutor(1) as client:
            made = client.submit(api.post, "/sessions", body)
            while not made.done():
                check_error(api.post(path, {"code": "1"}), 404, "SessionNotFound")
            check_error(made.result(), 503, "DiskFull")
    assert api.get("/sessions/mine").status == 404
    assert wait_taken(api, "POST", "/sessions", body)["status"] == "running"


@needs_root
def test_an_execution_that_comes_last_does_not_undo_the_end(server: Server) -> None:
    """It is being recorded when its session is ended, and recorded as cancelled after it."""
    api = Api(server.port)
    session = api.session()
    path = f"/sessions/{session}"
    with failing(server, "fdatasync", "delay_enter=500000"), ThreadPoolExecutor(1) as client:
        taken = client.submit(api.post, f"{path}/execute", {"code": "1"})
        wait_until(lambda: int(api.get(f"{path}/stats")["executions"]) == 1, "it is begun")
        assert api.call("DELETE", path)["status"] == "terminated"
        execution = taken.result()["execution_id"]
        api.wait_status(execution, "cancelled")
    kill_and_wait(server)
    assert api.get(path)["status"] == "terminated"
    assert api.get(f"/executions/{execution}")["status"] == "cancelled"


@needs_root
def test_an_extension_is_not_undone_by_work(server: Server) -> None:
    """A cell ends, and is recorded, while the extension is on its way to the disk. A refused one
    does not hold.
    """
    api = Api(server.port)
    session = api.session(timeout=60)
    path = f"/sessions/{session}"
    with failing(server, "fdatasync", "delay_enter=1000000"), ThreadPoolExecutor(1) as client:
        code = "import time\ntime.sleep(0.5)"
        run = client.submit(api.run, session, code)
        wait_until(lambda: int(api.get(f"{path}/stats")["executions"]) == 1, "it is begun")
        assert api.post(f"{path}/extend", {"timeout": 600})["timeout"] == 600
        assert run.result()["status"] == "completed"
    with failing(server, "fdatasync", "error=EIO"):
        check_error(api.post(f"{path}/extend", {"timeout": 900}), 503, "DiskFull")
        assert api.get(path)["timeout"] == 600
    kill_and_wait(server)
    assert api.get(path)["timeout"] == 600


@needs_root
def test_a_wait_that_runs_out_while_the_end_is_written(server: Server) -> None:
    """What is recorded for a client that waits elsewhere does not undo the end."""
    api = Api(server.port)
    session = api.session()
    with failing(server, "fdatasync", "delay_enter=4000000"):
        body = {"code": "import time\ntime.sleep(9)", "timeout": 60}
        answer = api.post(f"/sessions/{session}/execute-sync?sync_timeout=10", body)
    assert answer.status == 200 and answer["status"] == "completed", answer
    kill_and_wait(server)
    assert api.get(f"/executions/{answer['execution_id']}")["status"] == "completed"


@needs_root
def test_a_copy_of_a_workspace_that_cannot_be_written(server: Server) -> None:
    """The copy before it stays, the files are in the box, and the next copy has them."""
    api = Api(server.port)
    session = api.session()
    copy = server.store / "workspaces" / f"{session}.tar"
    assert put(api, session, "a.txt", b"first").status == 201
    wait_until(copy.exists, "the copy is there")
    old = copy.read_bytes()
    with failing(server, "rename", "error=EIO"):
        assert put(api, session, "b.txt", b"second").status == 201
        server.wait_said("workspace_not_saved")
    assert copy.read_bytes() == old
    assert [p.name for p in copy.parent.glob("*.new")] == []
    assert server.stop() == 0
    server.start()
    for name, data in (("a.txt", b"first"), ("b.txt", b"second")):
        assert api.call("GET", f"/sessions/{session}/files/{name}").raw == data


def test_a_change_of_a_template_that_was_cut_off(server: Server) -> None:
    """Killed between record and file: the next start makes the file what the record says."""
    api = Api(server.port)
    folder = server.store / "templates"
    assert api.post("/templates", new_template("changed")).status == 201
    written = (folder / "changed.template").read_text()
    assert server.stop() == 0
    (folder / "changed.template").rename(folder / "changed.new")  # a removal, before its record
    (folder / "never.new").write_text(written)  # a creation, before its record
    server.start()
    assert sorted(p.name for p in folder.iterdir()) == ["changed.template"]
    assert (folder / "changed.template").read_text() == written
    assert api.get("/templates/never").status == 404
    assert api.post("/templates", new_template("never")).status == 201
    for name in ("changed", "never"):
        assert api.call("DELETE", f"/templates/{name}").status == 204
    assert list(folder.iterdir()) == []
