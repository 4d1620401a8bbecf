# SPDX-License-Identifier: Apache-2.0
"""What a session has in its workspace is saved whatever its box and the disk are full of, or its
record says that it was not.
"""
from __future__ import annotations

import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from disk_faults import fill, kill_and_wait, small_disk
from husk_server import Server
from v1_client import Api
from v1_files import put
from waiting import wait_until

mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

# As many processes as there can be; they stay.
FILL = """
import json, os, resource, signal
pids = []
def fill():
    try:
        while True:
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            pids.append(pid)
    except BlockingIOError:
        pass
fill()
"""

# Whatever it tries, no process of a user gets more than that.
TRY = """
tries = []
most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
for who in (0, 1, *pids[:3]):
    try:
        resource.prlimit(who, resource.RLIMIT_NPROC, (most + 8, most + 8))
        tries.append(who)
    except (PermissionError, ValueError):
        pass
before = len(pids)
fill()
print(json.dumps([len(pids) - before, len(pids), most]))
"""


def test_a_session_full_of_processes_is_saved() -> None:
    """Our file workers have room that no process of the user can take."""
    with Server.run("--pids", "40") as server:
        api = Api(server.port)
        session = api.session()
        more, started, most = json.loads(api.run(session, FILL + TRY)["stdout"])
        assert (more, most) == (0, 40)
        assert started == 40 - 2, "PID 1 and the interpreter count, as they always did"
        assert put(api, session, "late", b"late").status == 201
        assert api.run(session, "open('last', 'w').write('last')")["status"] == "completed"
        assert server.stop() == 0
        assert "workspace_not_saved" not in server.output
        server.start()
        for name in ("late", "last"):
            assert api.get(f"/sessions/{session}/files/{name}").raw == name.encode()


def workspace(api: Api, session: str) -> Any:
    return api.get(f"/sessions/{session}")["workspace"]


def wait_workspace(api: Api, session: str, state: str, reason: str | None = None) -> Any:
    def look() -> bool:
        seen = workspace(api, session)
        return (seen["state"], seen["reason"]) == (state, reason)

    wait_until(look, lambda: f"its files are {state}: {workspace(api, session)}")
    return workspace(api, session)


def content(api: Api, session: str) -> bytes:
    return api.get(f"/sessions/{session}/files/data").raw


def write(api: Api, session: str, letter: str) -> None:
    result = api.run(session, f"len(open('data', 'w').write('{letter}' * 200_000) * 'x')")
    assert result["status"] == "completed", result


def test_the_record_says_what_is_saved() -> None:
    with Server.run() as server:
        api = Api(server.port)
        session = api.session()
        assert workspace(api, session) == {"state": "unchanged", "reason": None, "saved_at": None}
        write(api, session, "a")
        assert workspace(api, session)["state"] in ("changed", "saved")
        first = wait_workspace(api, session, "saved")["saved_at"]
        assert put(api, session, "more", b"more").status == 201
        assert workspace(api, session)["state"] in ("changed", "saved")
        assert api.call("DELETE", f"/sessions/{session}").status == 200
        assert wait_workspace(api, session, "saved")["saved_at"] > first
        assert workspace(api, api.session(mode="ephemeral")) is None


@mounts
def test_a_full_disk_at_the_end_is_recorded() -> None:
    """The copy from before stays, and the session says that it is all there is."""
    with small_disk("size=24m", "--drain-timeout", "1s") as server:
        api = Api(server.port)
        session = api.session()
        write(api, session, "a")
        saved_at = wait_workspace(api, session, "saved")["saved_at"]
        write(api, session, "b")
        filler = fill(server.data)
        wait_workspace(api, session, "not_saved", "disk_full")
        assert server.stop() == 0
        filler.unlink()
        server.start()
        assert workspace(api, session) == {
            "state": "lost",
            "reason": "box_lost",
            "saved_at": saved_at,
        }
        assert content(api, session) == b"a" * 200_000


@mounts
def test_a_disk_that_was_full_is_tried_again_while_the_server_ends() -> None:
    with small_disk("size=24m", "--drain-timeout", "30s") as server:
        api = Api(server.port)
        session = api.session()
        write(api, session, "a")
        filler = fill(server.data)
        wait_workspace(api, session, "not_saved", "disk_full")
        tried = server.output.count("workspace_not_saved")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        wait_until(lambda: server.output.count("workspace_not_saved") > tried, "it tries again")
        filler.unlink()
        stopping.join()
        server.start()
        assert content(api, session) == b"a" * 200_000
        assert workspace(api, session)["state"] == "saved"


@mounts
def test_what_was_not_saved_is_saved_by_the_next_huskd() -> None:
    with small_disk("size=24m") as server:
        api = Api(server.port)
        session = api.session()
        write(api, session, "a")
        filler = fill(server.data)
        wait_workspace(api, session, "not_saved", "disk_full")
        kill_and_wait(server)
        filler.unlink()
        wait_workspace(api, session, "saved")
        assert content(api, session) == b"a" * 200_000


def stalled_upload(server: Server, session: str) -> socket.socket:
    """It holds the workspace, and never ends by itself."""
    upload = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    head = f"PUT /api/v1/sessions/{session}/files/half HTTP/1.1\r\nHost: localhost\r\n"
    kind = "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n"
    upload.sendall((head + kind).encode() + b"x" * 100_000)
    return upload


def test_sessions_that_end_at_once_beside_load_are_saved() -> None:
    """Neither their number, nor busy boxes, nor uploads that stall take the time away from it."""
    with Server.run("--session-pool-max", "4") as server:
        api = Api(server.port)
        busy = [api.session() for _ in range(2)]
        for session in busy:
            api.start(session, "while True: pass", timeout=120)
        with ThreadPoolExecutor(16) as pool:
            sessions = list(pool.map(lambda _: api.session(), range(40)))
            list(pool.map(lambda session: write(api, session, "a"), sessions))
            uploads = [stalled_upload(server, session) for session in sessions[:8]]
            api.wait_taken()
            ends = list(pool.map(lambda s: api.call("DELETE", f"/sessions/{s}").status, sessions))
        assert set(ends) == {200}
        assert {workspace(api, session)["state"] for session in sessions} == {"saved"}
        assert "workspace_not_saved" not in server.output
        for upload in uploads:
            upload.close()
