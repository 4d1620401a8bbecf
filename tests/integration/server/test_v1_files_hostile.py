# SPDX-License-Identifier: Apache-2.0
"""Files over /api/v1 under attack: hostile names, hostile code in the session, large data, clients
that leave.
"""
from __future__ import annotations

import hashlib
import http.client
import select
import socket
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from file_samples import (
    HARMLESS,
    MIB,
    TRAVERSALS,
    check_no_leak,
    daemon_memory,
    form,
    pattern,
    plant_links,
    swap_loop,
)
from husk_server import Server, server
from v1_client import Api, check_error
from v1_files import RAW, api, get, names, put, raw_get, sid, url
from waiting import wait_settled, wait_until

__all__ = ["api", "server", "sid"]


# ---- attacks by names ----


@pytest.mark.parametrize("path", TRAVERSALS, ids=[ascii(p)[:40] for p in TRAVERSALS])
def test_traversal(api: Api, sid: str, path: str) -> None:
    base = f"/api/v1/sessions/{sid}"
    answers = [
        raw_get(api, f"{base}/files/{path}"),
        raw_get(api, f"{base}/file-stat/{path}"),
        raw_get(api, f"{base}/files/{path}", "PUT", b"attack"),
        raw_get(api, f"{base}/files/{path}?recursive=true", "DELETE"),
        raw_get(api, f"{base}/files?path={path}"),
        raw_get(api, f"{base}/archive?path={path}"),
    ]
    for answer in answers:
        assert 400 <= answer.status < 500, (answer.status, answer.raw)
        check_no_leak(answer.raw)


@pytest.mark.parametrize("path", HARMLESS)
def test_names_that_only_look_like_traversal(api: Api, sid: str, path: str) -> None:
    """Decoded once, and then a name like any other."""
    target = f"/api/v1/sessions/{sid}/files/{path}"
    assert raw_get(api, target, "PUT", b"attack").status == 201
    assert raw_get(api, target).raw == b"attack"
    assert unquote(path) in names(api, sid)
    assert raw_get(api, target, "DELETE").status == 204


PLAIN_TRAVERSALS = ["../x", "/etc/passwd", "a/../../x", "..", "a//b", "./a", "a/.", "a\0b", ""]


@pytest.mark.parametrize("path", PLAIN_TRAVERSALS, ids=[ascii(p) for p in PLAIN_TRAVERSALS])
def test_traversal_in_bodies(api: Api, sid: str, path: str) -> None:
    status = 400 if "\0" in path else 422
    for body in ({"from": path, "to": "x"}, {"from": "x", "to": path}):
        assert api.post(f"/sessions/{sid}/files/move", body).status == status
    assert api.post(f"/sessions/{sid}/files/mkdir", {"path": path}).status == status


# ---- attacks by the session's code ----


def test_planted_links(api: Api) -> None:
    sid = api.session()
    assert api.run(sid, plant_links())["status"] == "completed"
    for name in ("passwd", "environ", "up", "root", "loop", "etc/passwd", "up/etc/passwd", "fifo"):
        for answer in (get(api, sid, name), api.get(f"/sessions/{sid}/archive?path={name}")):
            assert answer.status in (404, 409), (name, answer.raw)
            check_no_leak(answer.raw)
        assert api.get(f"/sessions/{sid}/files?path={name}").status in (404, 409)
    for name in ("passwd", "environ", "up", "root", "loop"):
        entry = api.get(f"/sessions/{sid}/file-stat/{name}").body
        assert (entry["type"], entry["etag"], entry["size"]) == ("symlink", None, 0)
    assert "root/etc" not in names(api, sid, "", "&recursive=true")
    assert put(api, sid, "etc/new").status == 409
    assert put(api, sid, "passwd", b"mine").status in (200, 201)
    assert api.run(sid, "import os; print(os.path.islink('passwd'), open('passwd').read())")[
        "stdout"
    ] == ("False mine\n")
    check_no_leak(api.get(f"/sessions/{sid}/archive").raw)


def test_links_swapped_while_files_are_used(api: Api) -> None:
    """A directory and a link to another place change places as fast as they can."""
    sid = api.session()
    execution = api.start(sid, swap_loop(60))
    api.wait_output(execution, "swapping")
    seen = set()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        read = get(api, sid, "d/secret")
        assert read.raw == b"inside" if read.status == 200 else read.status in (404, 409)
        wrote = put(api, sid, "d/new", b"inside")
        assert wrote.status in (200, 201, 404, 409), wrote.raw
        made = api.post(f"/sessions/{sid}/files/mkdir", {"path": "d/sub"})
        assert made.status in (201, 404, 409), made.raw
        packed = api.get(f"/sessions/{sid}/archive?path=d")
        assert packed.status in (200, 404, 409)
        for answer in (read, packed):
            assert b"outside" not in answer.raw
        api.call("DELETE", url(sid, "d/new"))
        seen |= {read.status, wrote.status}
    assert 200 in seen and 409 in seen, seen  # both sides were met
    assert put(api, sid, "end").status == 201
    api.wait_status(execution, "completed")
    left = api.run(sid, "import os; print(sorted(os.listdir('/tmp/out')))")["stdout"]
    assert left == "['secret']\n"


def test_special_files(api: Api) -> None:
    sid = api.session()
    api.run(sid, "import os, socket\nos.mkfifo('pipe')\nsocket.socket(1).bind('sock')")
    for name in ("pipe", "sock"):
        assert api.get(f"/sessions/{sid}/file-stat/{name}")["type"] == "other"
        check_error(get(api, sid, name), 409, "Conflict")
        assert put(api, sid, name, b"now a file").status in (200, 201)
        assert get(api, sid, name).raw == b"now a file"


def test_file_that_changes_all_the_time(api: Api) -> None:
    sid = api.session()
    execution = api.start(
        sid,
        "import os, time\nend = time.time() + 4\nopen('f', 'w').write('a' * 5000)\n"
        "print('go', flush=True)\nn = 0\n"
        "while time.time() < end:\n"
        "    n += 1\n    open('t', 'w').write(chr(97 + n % 26) * 5000); os.rename('t', 'f')\n",
    )
    api.wait_output(execution, "go")
    for _ in range(200):
        for headers in (dict[str, str](), {"Range": "bytes=100-199"}):
            got = get(api, sid, "f", **headers)
            assert got.status in (200, 206, 409), got.raw
            if got.status in (200, 206):
                assert len(got.raw) == (5000 if got.status == 200 else 100)
                assert len(set(got.raw)) == 1  # one version, not a mix of two


def test_file_cut_while_it_is_sent_breaks_the_connection(api: Api) -> None:
    sid = api.session()
    api.run(sid, "open('f', 'wb').truncate(64 << 20)")
    connection = api.connect()
    connection.request("GET", f"/api/v1/sessions/{sid}/files/f")
    got = connection.getresponse()
    assert (got.status, got.getheader("Content-Length")) == (200, str(64 * MIB))
    api.run(sid, "import os; os.truncate('f', 1000)")
    with pytest.raises(http.client.IncompleteRead):
        got.read()
    connection.close()


# ---- size ----


def test_large_upload_and_download_in_bounded_memory(api: Api, server: Server) -> None:
    sid = api.session(resources={"memory": "1Gi", "disk": "300Mi"})
    put(api, sid, "warm", b"x" * MIB)
    before = daemon_memory(server)
    piece = pattern(MIB)
    digest = hashlib.sha256(piece * 100).hexdigest()

    connection = api.connect()
    headers = {**RAW, "Content-Length": str(100 * MIB)}
    connection.request(
        "PUT", f"/api/v1/sessions/{sid}/files/big", (piece for _ in range(100)), headers
    )
    got = connection.getresponse()
    assert got.status == 201, got.read()
    got.read()
    assert daemon_memory(server) - before < 24 * MIB

    connection.request("GET", f"/api/v1/sessions/{sid}/files/big")
    got = connection.getresponse()
    assert got.getheader("Content-Length") == str(100 * MIB)
    wait_settled(lambda: daemon_memory(server) // MIB, "what the daemon reads ahead")
    assert daemon_memory(server) - before < 24 * MIB
    found = hashlib.sha256()
    while data := got.read(MIB):
        found.update(data)
    assert found.hexdigest() == digest
    late = {"Range": f"bytes={99 * MIB + 5}-"}
    connection.request("GET", f"/api/v1/sessions/{sid}/files/big", headers=late)
    assert connection.getresponse().read() == piece[5:]
    connection.close()
    check = "import hashlib; print(hashlib.sha256(open('big','rb').read()).hexdigest())"
    assert api.run(sid, check)["stdout"].strip() == digest


def test_more_than_an_upload_may_have(api: Api, sid: str) -> None:
    connection = api.connect()
    connection.putrequest("PUT", f"/api/v1/sessions/{sid}/files/over")
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str((1 << 40) + 1))
    connection.endheaders()
    got = connection.getresponse()
    assert got.status == 413, got.read()
    connection.close()
    assert get(api, sid, "over").status == 404


def test_a_plain_body_may_be_as_large_as_the_disk(api: Api) -> None:
    """More than form data may have; what does not fit is refused and leaves nothing."""
    sid = api.session(resources={"memory": "512Mi", "disk": "160Mi"})
    for size, status in ((120 * MIB, 201), (170 * MIB, 507)):
        connection = api.connect()
        connection.request(
            "PUT",
            f"/api/v1/sessions/{sid}/files/large",
            body=(bytes(MIB) for _ in range(size // MIB)),
            headers={"Content-Length": str(size), "Content-Type": "application/octet-stream"},
        )
        got = connection.getresponse()
        assert got.status == status, got.read()
        connection.close()
        assert api.run(sid, "import os; print(os.path.getsize('large'))")["stdout"] == "125829120\n"


def test_disk_limit(api: Api) -> None:
    sid = api.session(resources={"memory": "64Mi", "disk": "4Mi"})
    assert put(api, sid, "keep", b"old").status == 201
    check_error(put(api, sid, "keep", b"x" * (8 * MIB)), 507, "DiskFull")
    assert get(api, sid, "keep").raw == b"old"
    assert names(api, sid) == ["keep"]
    body, kind = form([("file", "a", b"x" * (8 * MIB))])
    answer = api.call(
        "POST", f"/sessions/{sid}/files/upload", raw=body, headers={"Content-Type": kind}
    )
    check_error(answer, 507, "DiskFull")
    assert put(api, sid, "fits", b"x" * MIB).status == 201


def test_client_that_leaves(api: Api) -> None:
    sid = api.session()
    with socket.create_connection((api.host, api.port)) as s:
        s.sendall(
            f"PUT /api/v1/sessions/{sid}/files/half HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n".encode()
            + b"x" * 500000
        )
        api.wait_taken()
    assert put(api, sid, "other").status == 201  # waits for its turn
    assert names(api, sid) == ["other"]


def test_session_ends_during_an_upload(api: Api) -> None:
    sid = api.session()
    with socket.create_connection((api.host, api.port), timeout=60) as s:
        s.sendall(
            f"PUT /api/v1/sessions/{sid}/files/half HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"  # it has the files
        s.sendall(b"x" * 500000)
        assert api.call("DELETE", f"/sessions/{sid}").status == 200
        # The answer may be there already, and huskd reads on only for a moment after it.
        for _ in range(100):
            if select.select([s], [], [], 0)[0]:
                break
            s.sendall(b"x" * 5000)
        assert s.recv(12)[9:12] == b"409"
    assert api.get("/health").status == 200


def test_kill_everything_in_the_box_while_files_are_used(api: Api) -> None:
    sid = api.session()
    put(api, sid, "a", b"before")
    api.run(sid, "import os, signal\ntry:\n    os.kill(-1, signal.SIGKILL)\nexcept OSError: pass")
    wait_until(lambda: put(api, sid, "b", b"after").status in (200, 201), "files are served again")


def test_nothing_is_left_on_the_host(server: Server) -> None:
    """Names that the tests above tried to write outside of any workspace."""
    for name in ("x", "attack", "new"):
        assert not Path("/", name).exists() and not Path("/etc", name).exists()
