# SPDX-License-Identifier: Apache-2.0
"""Writes, syncs and renames of the server fail, its files are damaged: nothing is acknowledged that
is not there, nothing is there by halves.
"""
from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from audit import Audit, Ledger
from disk_faults import failing, kill_and_wait, new_template, put, wait_taken
from husk_server import BIN, Server
from se_client import Se
from v1_client import Api, check_error
from waiting import PATIENCE, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="traces the daemon of another account")


@pytest.fixture
def server() -> Iterator[Server]:
    """One for each test: a daemon that is killed again and again is started again more slowly."""
    with Server.run() as running:
        yield running


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
        names = {p.name for p in (server.data / "templates").iterdir()}
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
        begun: list[Future[Any]] = []
        while not made.done():
            if len(begun) < 6:
                begun.append(clients.submit(api.post, path, {"code": "1"}))
            time.sleep(0.02)
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
    """Nobody can use it before it is recorded, and leave a record of it behind."""
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
    """What is recorded for who goes on waiting elsewhere does not undo the end."""
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
    copy = server.data / "workspaces" / f"{session}.tar"
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
    folder = server.data / "templates"
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


# ---- other programs at the database ----


def test_a_reader_that_stays_and_a_writer_that_goes(server: Server) -> None:
    """A snapshot holds nobody up. A lock is waited for, and what waited is done."""
    api = Api(server.port)
    session = api.session()
    address = f"file:{server.data}/husk.db"
    with closing(sqlite3.connect(f"{address}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        (seen,) = reader.execute("SELECT count(*) FROM executions").fetchone()
        for i in range(50):
            assert api.run(session, str(i))["value"] == str(i)
        assert reader.execute("SELECT count(*) FROM executions").fetchone() == (seen,)
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        connection = api.connect()
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/v1/sessions", '{"mode": "ephemeral"}', headers)
        assert api.get(f"/sessions/{session}").status == 200
        writer.execute("ROLLBACK")
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()
    Audit(server).check(Ledger(sessions={session}))


ENDED = """
INSERT INTO sessions (id, mode, template, dialect, min_isolation, spec, status, created_ms, updated_ms, active_ms, expires_ms, ended_ms)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
SELECT 'ended-' || i, 'ephemeral', 'python', 'v1', 'userns', '{}', 5, 1, 1, 1, 1, CASE WHEN i <= 1200 THEN unixepoch() * 1000 ELSE 1 END FROM n
"""


def test_records_past_their_time_go_however_many_there_are(server: Server) -> None:
    """Also if older ones ended later, and stay."""
    api = Api(server.port)
    assert server.stop() == 0
    change(server.data / "husk.db", ENDED)
    server.start()
    total = "/sessions?status=terminated"
    wait_until(lambda: int(api.get(total)["total"]) == 1200, "the others are removed")
    assert api.get("/sessions/ended-1")["status"] == "terminated"


def test_a_session_that_was_used_before_it_was_made(server: Server) -> None:
    """Its daemon died before the move to running was recorded: who uses it knows its id, so it goes
    on.
    """
    api = Api(server.port)
    session = api.session()
    execution = api.start(session, "import time\nprint('on', flush=True)\ntime.sleep(2)")
    api.wait_output(execution, "on")
    change(server.data / "husk.db", "UPDATE sessions SET status = 0")
    kill_and_wait(server)
    assert api.get(f"/sessions/{session}")["status"] == "running"
    api.wait_status(execution, "completed")


def test_a_session_that_took_files_before_it_was_made(server: Server) -> None:
    """The same, and its files are in its box; also if the other API has made it."""
    api, se = Api(server.port), Se(server.port)
    session = api.session()
    assert put(api, session, "a.txt", b"first").status == 201
    se.create("theirs", "a.txt", "second")
    change(server.data / "husk.db", "UPDATE sessions SET status = 0")
    kill_and_wait(server)
    assert api.get(f"/sessions/{session}")["status"] == "running"
    assert api.call("GET", f"/sessions/{session}/files/a.txt").raw == b"first"
    assert se.get("/download/theirs/a.txt").raw == b"second"


# ---- damaged files ----


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path, offsets: range) -> None:
    data = bytearray(path.read_bytes())
    for at in offsets:
        data[at] ^= 0xFF
    with path.open("r+b") as file:
        file.write(data)


def flip_header(path: Path) -> None:
    flip(path, range(16))


def flip_pages(path: Path) -> None:
    """The kind of every page but the first."""
    flip(path, range(4096, path.stat().st_size, 4096))


def change(path: Path, sql: str) -> None:
    owner = path.stat()
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
        db.commit()
    for companion in path.parent.glob("husk.db*"):
        os.chown(companion, owner.st_uid, owner.st_gid)


def make_newer(path: Path) -> None:
    change(path, "PRAGMA user_version = 99")


def make_foreign(path: Path) -> None:
    change(path, "PRAGMA application_id = 1")


def make_read_only(path: Path) -> None:
    path.chmod(0o444)


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every file but the empty log and the index of it, which any reader of the database makes."""
    found = {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {k: v for k, v in found.items() if not k.endswith(("-shm", "/lock")) and v != b""}


@pytest.fixture(scope="module")
def stopped() -> Iterator[Server]:
    """The data of a server that has ended in order."""
    with Server.run() as server:
        api = Api(server.port)
        session = api.session()
        for i in range(30):
            api.run(session, f"print({i})")
        assert server.stop() == 0
        yield server


@pytest.mark.parametrize(
    "damage, said",
    [
        (halve, "malformed"),
        (flip_header, "not a database"),
        (flip_pages, "is damaged: "),
        (make_newer, "has schema version 99"),
        (make_foreign, "is a database of another program"),
        (make_read_only, "Permission denied"),
    ],
)
@needs_root
def test_a_damaged_store_is_refused(
    stopped: Server, damage: Callable[[Path], None], said: str
) -> None:
    """One line says why, and not a byte is changed."""
    path = stopped.data / "husk.db"
    kept = stopped.folder / "kept"
    shutil.copytree(stopped.data, kept)
    shutil.copystat(path, kept / "husk.db")
    owner = path.stat()
    try:
        damage(path)
        before = tree_of(stopped.data)
        done = subprocess.run(
            # fmt: off
            [BIN / "husk", "up", "--data", stopped.data, "--listen", f"127.0.0.1:{stopped.port}", "--socket", stopped.socket],
            # fmt: on
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode not in (0, -9), done
        why, end = done.stderr.splitlines()
        assert why.startswith("huskd: ") and str(path) in why and said in why, why
        assert end == "husk: the server could not start"
        assert tree_of(stopped.data) == before
    finally:
        for left in stopped.data.glob("husk.db*"):
            left.unlink()
        shutil.copy2(kept / "husk.db", path)
        os.chown(path, owner.st_uid, owner.st_gid)
        path.chmod(0o600)
        shutil.rmtree(kept)


def copy_running(server: Server, folder: Path) -> None:
    """Its database and log, as a machine that stops would leave them."""
    owner = server.data.stat()
    folder.mkdir(mode=0o700)
    for name in ("husk.db", "husk.db-wal"):
        shutil.copy2(server.data / name, folder / name)
        os.chown(folder / name, owner.st_uid, owner.st_gid)
    os.chown(folder, owner.st_uid, owner.st_gid)


def cut_last_third(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def flip_last_third(path: Path) -> None:
    size = path.stat().st_size
    flip(path, range(size * 2 // 3, size * 2 // 3 + 4096))


@pytest.mark.parametrize("damage", [cut_last_third, flip_last_third])
def test_a_damaged_log_costs_its_end_only(damage: Callable[[Path], None]) -> None:
    """It cannot be told from a power cut: what is before the damage is there, whole and true."""
    with Server.run() as first:
        api = Api(first.port)
        session = api.session()
        with closing(sqlite3.connect(f"file:{first.data}/husk.db?mode=ro", uri=True)) as reader:
            reader.execute("BEGIN")  # so that the log keeps everything
            reader.execute("SELECT count(*) FROM executions").fetchone()
            results = [api.run(session, f"print({i})") for i in range(30)]
            second = Server()
            copy_running(first, second.data)
    try:
        damage(second.data / "husk.db-wal")
        second.start()
        api = Api(second.port)
        Audit(second).check(Ledger(sessions={session}))
        found = [api.get(f"/executions/{r['execution_id']}") for r in results]
        there = [answer.status == 200 for answer in found]
        assert there == sorted(there, reverse=True), "a beginning, without a gap"
        assert any(there)
        for answer, result in zip(found, results):
            assert answer.status == 404 or answer["stdout"] == result["stdout"]
        assert api.run(session, "1")["value"] == "1"
    finally:
        second.remove()
