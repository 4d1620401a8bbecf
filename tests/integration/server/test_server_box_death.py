# SPDX-License-Identifier: Apache-2.0
"""Boxes end while their sessions are in use: a request that waited gets a new one, or an error."""
from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit import Audit, kill_boxes, wait_tree
from husk_server import Server
from v1_client import Api, answer_to
from v1_files import put
from waiting import wait_settled, wait_until

FOREVER = "import time\nprint('on', flush=True)\nwhile True: time.sleep(0.05)"


@pytest.fixture
def one() -> Iterator[Server]:
    """Without pools every box is a session's."""
    flags = ["--pool-min", "0", "--pool-max", "0", "--se-pool", "0"]
    with Server.run(*flags, "--session-pool-min", "0", "--session-pool-max", "0") as running:
        yield running


def test_a_reset_that_waits_for_its_turn_outlives_the_box(one: Server) -> None:
    """The new box cannot be had either: there is nothing to reset when its turn comes."""
    api = Api(one.port)
    session = api.session()
    runs = [api.start(session, FOREVER, timeout=60) for _ in range(2)]
    api.wait_output(runs[0], "on")
    for box in wait_tree(one).boxes:
        os.kill(box, signal.SIGSTOP)  # what is cancelled cannot end
    daemon = one.pid_of_huskd()
    (one.store / "workspaces" / f"{session}.tar").write_bytes(os.urandom(4096))
    reset = api.begin("POST", f"/sessions/{session}/reset")
    place = f"/executions/{runs[1]}"
    wait_until(lambda: api.get(place)["queue_position"] in (2, None), "the reset is in line")
    kill_boxes(one)
    assert answer_to(reset).status >= 400
    assert one.pid_of_huskd() == daemon


def unread(client: socket.socket) -> str:
    """What the kernel holds for this connection, in both directions and at both ends."""
    port = f"{client.getsockname()[1]:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return " ".join(line.split()[4] for line in lines if f":{port} " in line)


def stall_download(api: Api, session: str, path: str) -> socket.socket:
    """The workspace is busy until the client reads on."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.connect((api.host, api.port))
    target = f"/api/v1/sessions/{session}/files/{path}"
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: {api.host}\r\n\r\n".encode())
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    wait_settled(lambda: unread(client), "every buffer on the way")
    return client


def test_all_who_find_the_box_dead_get_the_same_new_one(one: Server) -> None:
    audit = Audit(one)
    api = Api(one.port)
    session = api.session()
    api.run(session, "open('big', 'wb').write(b'x' * 60_000_000)")
    download = stall_download(api, session, "big")
    kill_boxes(one)
    bodies = [{"command": f"echo {n}; sleep 1"} for n in range(4)]
    clients = [api.begin("POST", f"/sessions/{session}/execute-sync", body) for body in bodies]
    api.wait_taken()  # all of them wait for the download to notice
    download.close()
    answers = [answer_to(client) for client in clients]
    assert [a["stdout"] for a in answers] == ["0\n", "1\n", "2\n", "3\n"]
    assert len(audit.containers()) == 1
    audit.check()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_who_waits_for_the_files_of_a_dead_box_gets_them_from_the_new_one(
    one: Server, is_replaced: bool
) -> None:
    api = Api(one.port)
    session = api.session()
    assert put(api, session, "small.txt", b"kept").status == 201
    wait_until((one.store / "workspaces" / f"{session}.tar").exists, "the copy is there")
    api.run(session, "open('big', 'wb').write(b'x' * 60_000_000)")
    download = stall_download(api, session, "big")
    clients = [api.begin("GET", f"/sessions/{session}/files/small.txt") for _ in range(3)]
    api.wait_taken()  # all of them stand in line
    if is_replaced:
        kill_boxes(one)
        run = api.begin("POST", f"/sessions/{session}/execute-sync", {"code": "1"})
        api.wait_taken()  # it waits for the download, too
        download.close()
        assert run.getresponse().status == 200
    else:
        for pid in wait_tree(one).boxes:
            os.kill(pid, signal.SIGKILL)
        download.close()
    answers = [answer_to(client) for client in clients]
    assert [(a.status, a.raw) for a in answers] == [(200, b"kept")] * 3


def test_an_interrupt_that_the_box_does_not_take_ends_with_the_session(one: Server) -> None:
    """Not later: the box that it waits for is gone then."""
    api = Api(one.port)
    session = api.session()
    run = api.start(session, "import time\nprint('on', flush=True)\ntime.sleep(6)", timeout=60)
    api.wait_output(run, "on")
    (box,) = wait_tree(one).boxes
    os.kill(box, signal.SIGSTOP)

    def interrupt() -> None:
        path = f"/sessions/{session}/interrupt"
        while api.call("POST", path, is_known=False).status == 200:
            pass

    client = threading.Thread(target=interrupt)
    client.start()  # until the box's socket is full
    api.wait_status(run, "completed")
    began = time.monotonic()
    assert api.call("DELETE", f"/sessions/{session}?purge=true").status == 204
    client.join()
    assert time.monotonic() - began < 20


FILL = """
import os, time
def fill():
    os.setsid()
    while True:
        try:
            if os.fork() == 0: time.sleep(100)
        except OSError: pass
if os.fork() == 0: fill()
full = 0
while full < 100:
    try:
        if os.fork() == 0: os._exit(0)
        os.wait()
    except OSError: full += 1
"""


@pytest.mark.parametrize("filled_by", [0, 1])
def test_files_outlive_a_reset_that_finds_no_room_for_a_process(
    one: Server, filled_by: int
) -> None:
    """What the context itself has left goes; what belongs to another stays, and the session may
    need a new box.
    """
    api = Api(one.port)
    session = api.session()
    assert api.post(f"/sessions/{session}/contexts/0/branch")["context_id"] == 1
    assert put(api, session, "kept.txt", b"precious").status == 201
    assert api.run(session, FILL, context_id=filled_by)["status"] == "completed"
    for _ in range(10):  # often the old interpreter's own place is free in time
        reset = api.call("POST", f"/sessions/{session}/reset", is_known=False)
        assert reset.status == 200 or filled_by != 0, reset
        assert api.run(session, "open('kept.txt').read()")["value"] == "'precious'"


def test_a_box_that_dies_under_a_request_for_files_outlives_the_deletion(one: Server) -> None:
    """The request still holds the box when the deletion stops waiting for the files."""
    api = Api(one.port)
    session = api.session()
    daemon = one.pid_of_huskd()
    boxes = wait_tree(one).boxes
    for box in boxes:
        os.kill(box, signal.SIGSTOP)  # no file worker starts
    listing = api.begin("GET", f"/sessions/{session}/files")
    api.wait_taken()
    deletion = api.begin("DELETE", f"/sessions/{session}")
    time.sleep(0.8)  # longer than a deletion waits for files
    kill_boxes(one)
    assert answer_to(deletion).status < 300
    assert answer_to(listing).status in (404, 409)
    assert one.pid_of_huskd() == daemon
