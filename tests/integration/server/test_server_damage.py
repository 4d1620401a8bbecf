# SPDX-License-Identifier: Apache-2.0
"""Files of the server are damaged, or in the hands of other programs: it refuses or goes on, and
loses nothing else.
"""
from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from audit import Audit, Ledger
from disk_faults import kill_and_wait, needs_root, server
from husk_server import Server
from places import BIN
from se_client import Se
from v1_client import Api
from v1_files import put
from waiting import PATIENCE, wait_until

__all__ = ["server"]


# ---- other programs at the database ----


def test_a_reader_that_stays_and_a_writer_that_goes(server: Server) -> None:
    """A snapshot delays nothing. A lock is waited for, and then the work is done."""
    api = Api(server.port)
    session = api.session()
    address = f"file:{server.store}/husk.db"
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
    change(server.store / "husk.db", ENDED)
    server.start()
    total = "/sessions?status=terminated"
    wait_until(lambda: int(api.get(total)["total"]) == 1200, "the others are removed")
    assert api.get("/sessions/ended-1")["status"] == "terminated"


def test_a_session_that_was_used_before_it_was_made(server: Server) -> None:
    """Its daemon died before the move to running was recorded: its client knows its id, so it goes
    on.
    """
    api = Api(server.port)
    session = api.session()
    execution = api.start(session, "import time\nprint('on', flush=True)\ntime.sleep(2)")
    api.wait_output(execution, "on")
    change(server.store / "husk.db", "UPDATE sessions SET status = 0")
    kill_and_wait(server)
    assert api.get(f"/sessions/{session}")["status"] == "running"
    api.wait_status(execution, "completed")


def test_a_session_that_took_files_before_it_was_made(server: Server) -> None:
    """The same, and its files are in its box; also if the other API has made it."""
    api, se = Api(server.port), Se(server.port)
    session = api.session()
    assert put(api, session, "a.txt", b"first").status == 201
    se.create("theirs", "a.txt", "second")
    change(server.store / "husk.db", "UPDATE sessions SET status = 0")
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
    path = stopped.store / "husk.db"
    kept = stopped.folder / "kept"
    shutil.copytree(stopped.store, kept)
    shutil.copystat(path, kept / "husk.db")
    owner = path.stat()
    try:
        damage(path)
        before = tree_of(stopped.store)
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
        assert tree_of(stopped.store) == before
    finally:
        for left in stopped.store.glob("husk.db*"):
            left.unlink()
        shutil.copy2(kept / "husk.db", path)
        os.chown(path, owner.st_uid, owner.st_gid)
        path.chmod(0o600)
        shutil.rmtree(kept)


def copy_running(server: Server, folder: Path) -> None:
    """Its database and log, as a machine that stops would leave them."""
    owner = server.store.stat()
    folder.mkdir(mode=0o700, parents=True)
    for name in ("husk.db", "husk.db-wal"):
        shutil.copy2(server.store / name, folder / name)
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
        with closing(sqlite3.connect(f"file:{first.store}/husk.db?mode=ro", uri=True)) as reader:
            reader.execute("BEGIN")  # so that the log keeps everything
            reader.execute("SELECT count(*) FROM executions").fetchone()
            results = [api.run(session, f"print({i})") for i in range(30)]
            second = Server()
            copy_running(first, second.store)
    try:
        damage(second.store / "husk.db-wal")
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
