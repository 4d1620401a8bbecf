# SPDX-License-Identifier: Apache-2.0
"""Files over /workspace/se against a real huskd: every route, and what hostile names and code try.
"""
from __future__ import annotations

import base64
import threading
import time
from typing import Any
from urllib.parse import quote

import pytest
from file_samples import MIB, TRAVERSALS, check_no_leak, form, pattern, plant_links, swap_loop
from husk_server import server
from se_client import Se, check_422, check_detail, se, shared, sid
from v1_client import Answer

__all__ = ["se", "server", "shared", "sid"]


# ---- files ----


def test_upload_and_download(se: Se, shared: str) -> None:
    data = pattern(2 * MIB)
    body, kind = form([("note", None, b"ignored"), ("file", "näme.bin", data)])
    sent = {"Content-Type": kind}
    got = se.post(f"/upload/{shared}?filename=sub/dir/x.bin", raw=body, headers=sent)
    assert got.body == {"filename": "sub/dir/x.bin", "size": len(data)}
    assert se.post(f"/upload/{shared}", raw=body, headers=sent)["filename"] == "näme.bin"
    answer = se.get(f"/download/{shared}/sub/dir/x.bin")
    assert answer.raw == data
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert se.get(f"/download/{shared}//sub/dir/x.bin").raw == data


def test_bad_uploads(se: Se, sid: str) -> None:
    def upload(parts: list[tuple[str, str | None, bytes]], query: str = "") -> Answer:
        body, kind = form(parts)
        return se.post(f"/upload/{sid}{query}", raw=body, headers={"Content-Type": kind})

    check_detail(upload([("file", None, b"x")]), 400, "InvalidParameter")
    check_detail(upload([("file", "../../x", b"x")]), 400, "InvalidParameter")
    check_detail(upload([("file", "/", b"x")]), 400, "InvalidParameter")
    check_422(upload([("other", "a", b"x")]), "body", "file")
    check_422(upload([("file", "a", b"x"), ("file", "b", b"x")]), "body", "file")
    check_422(upload([("file", "a", b"x")], "?filename=../a"), "query", "filename")
    assert se.get(f"/files/{sid}/").body == {"files": []}


def test_create(se: Se, shared: str) -> None:
    assert se.create(shared, "/made/ä.txt", "zwölf\n") == {"filename": "made/ä.txt", "size": 7}
    assert se.get(f"/download/{shared}/made/{quote('ä.txt')}").raw == "zwölf\n".encode()
    se.create(shared, "run.sh", "echo ran", mode=0o755)
    got = se.ok(f"/execute/{shared}", {"command": "./run.sh; stat -c %a run.sh made/*"})
    assert got["stdout"] == "ran\n755\n644\n"
    se.create(shared, "shut", "x", mode=0)
    assert se.ok(f"/execute/{shared}", {"command": "stat -c %a shut"})["stdout"] == "0\n"
    assert se.create(shared, "empty", "")["size"] == 0
    assert se.get(f"/download/{shared}/empty").raw == b""
    for name in ("/", ".", "made", "run.sh/x"):
        answer = se.post(f"/create/{shared}", {"filename": name, "content": "x"})
        check_detail(answer, 400, "InvalidParameter")


def test_list(se: Se, sid: str) -> None:
    se.create(sid, "b", "22")
    se.create(sid, "a/x/1", "1")
    for path in (f"/files/{sid}/", f"/files/{sid}"):
        files = se.get(path)["files"]
        assert [(f["filename"], f["size"], f["type"]) for f in files] == [
            ("a", 0, "directory"),
            ("b", 2, "file"),
        ]
    for value in ("true", "True", "1"):  # Python's clients write True
        deep = se.get(f"/files/{sid}/a?recursive={value}")["files"]
        assert [f["filename"] for f in deep] == ["x", "x/1"]
    assert [f["filename"] for f in se.get(f"/files/{sid}/a?recursive=False")["files"]] == ["x"]
    check_422(se.get(f"/files/{sid}/a?recursive=yes"), "query", "recursive")
    check_detail(se.get(f"/files/{sid}/no"), 404, "InvalidParameter", "no")
    check_detail(se.get(f"/files/{sid}/b"), 400, "InvalidParameter")


def test_list_of_what_is_no_file(se: Se, sid: str) -> None:
    se.python(sid, "import os; os.mkfifo('pipe'); os.symlink('pipe', 'link'); os.mkdir('d')")
    types = {f["filename"]: f["type"] for f in se.get(f"/files/{sid}/")["files"]}
    assert types == {"pipe": "other", "link": "symlink", "d": "directory"}


def test_name_that_is_too_long(se: Se, sid: str) -> None:
    answer = se.post(f"/create/{sid}", {"filename": "x" * 256, "content": "x"})
    check_422(answer, "body", "filename")
    assert "255 bytes" in answer["detail"][0]["msg"]


def test_preview(se: Se, sid: str) -> None:
    se.create(sid, "page.html", "<script>alert(1)</script>")
    answer = se.get(f"/files/preview/{sid}/page.html?sid=1", is_checked=False)
    assert answer.status == 200 and answer.raw.startswith(b"<script>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("inline;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    se.create(sid, "x.py", "1")
    check_detail(se.get(f"/files/preview/{sid}/x.py?sid=1"), 400, "InvalidParameter", ".html")
    check_detail(se.get(f"/files/preview/{sid}/no.txt?sid=1"), 404, "InvalidParameter")
    check_422(se.get(f"/files/preview/{sid}/page.html"), "query", "sid")


@pytest.mark.parametrize("path", ["/download/{}/r.txt", "/files/preview/{}/r.txt?sid=1"])
def test_ranges(se: Se, shared: str, path: str) -> None:
    def get(**headers: str) -> Answer:
        sent = {k.replace("_", "-"): v for k, v in headers.items()}
        return se.get(path.format(shared), headers=sent, is_checked="preview" not in path)

    se.create(shared, "r.txt", "0123456789")
    part = get(Range="bytes=2-4")
    assert (part.status, part.raw) == (206, b"234")
    assert part.headers["content-range"] == "bytes 2-4/10"
    past = get(Range="bytes=10-")
    check_detail(past, 416, "InvalidParameter", "10 bytes")
    assert past.headers["content-range"] == "bytes */10"
    assert get(If_None_Match=part.headers["etag"]).status == 304
    check_detail(get(If_Match='"other"'), 412, "InvalidParameter")


def test_read_file(se: Se, sid: str) -> None:
    def read(name: str, **query: int) -> Any:
        rest = "&".join(f"{k}={v}" for k, v in query.items())
        answer = se.get(f"/readfile/{sid}/{name}?{rest}")
        assert answer.status == 200, answer.raw
        return answer.body

    se.create(sid, "t.txt", "zwölf Boxkämpfer")
    size = len("zwölf Boxkämpfer".encode())
    assert read("t.txt") == {
        "content": "zwölf Boxkämpfer",
        "is_binary": False,
        "offset": size,
        "size": size,
        "is_eof": True,
    }
    text, at = "", 0
    while True:  # never in the middle of a character
        part = read("t.txt", offset=at, buffer_size=3)
        assert not part["is_binary"]
        text, at = text + part["content"], part["offset"]
        if part["is_eof"]:
            break
    assert text == "zwölf Boxkämpfer"
    past = read("t.txt", offset=1000)
    assert (past["content"], past["is_eof"], past["offset"]) == ("", True, size)

    data = pattern(10000)
    body, kind = form([("file", "d.bin", data)])
    se.post(f"/upload/{sid}", raw=body, headers={"Content-Type": kind})
    part = read("d.bin")
    assert part["is_binary"] and base64.b64decode(part["content"]) == data[:4096]
    assert (part["offset"], part["size"], part["is_eof"]) == (4096, 10000, False)
    part = read("d.bin", offset=8192, buffer_size=16777216)
    assert base64.b64decode(part["content"]) == data[8192:] and part["is_eof"]
    se.python(sid, "open('no-text.txt', 'wb').write(b'\\xff\\xfe\\xfd\\xfc\\xfb')")
    part = read("no-text.txt")
    assert part["is_binary"] and base64.b64decode(part["content"]) == b"\xff\xfe\xfd\xfc\xfb"
    check_detail(se.get(f"/readfile/{sid}/no.txt"), 404, "InvalidParameter")
    check_422(se.get(f"/readfile/{sid}/t.txt?offset=-1"), "query", "offset")
    check_422(se.get(f"/readfile/{sid}/t.txt?buffer_size=0"), "query", "buffer_size")


# ---- attacks ----


@pytest.mark.parametrize("path", TRAVERSALS, ids=[ascii(p)[:40] for p in TRAVERSALS])
def test_traversal(se: Se, shared: str, path: str) -> None:
    """Leading slashes mean the workspace here, so some of these are plain names that do not
    exist.
    """
    body, kind = form([("file", "a", b"attack")])
    answers = [
        se.get(f"/download/{shared}/{path}", is_checked=False),
        se.get(f"/readfile/{shared}/{path}", is_checked=False),
        se.get(f"/files/{shared}/{path}", is_checked=False),
        se.get(f"/files/preview/{shared}/{path}?sid=1", is_checked=False),
        se.post(
            f"/upload/{shared}?filename={path}",
            raw=body,
            headers={"Content-Type": kind},
            is_checked=False,
        ),
    ]
    for answer in answers:
        assert answer.status in (200, 400, 404, 422), (answer.status, answer.raw)
        check_no_leak(answer.raw)
    seen = se.ok(f"/execute/{shared}", {"command": "ls -A / /etc | grep -c attack; true"})
    assert seen["stdout"] == "0\n"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "..", "/../x", "a/.."])
def test_traversal_in_bodies(se: Se, shared: str, name: str) -> None:
    check_422(se.post(f"/create/{shared}", {"filename": name, "content": "x"}), "body", "filename")


def test_planted_links(se: Se, sid: str) -> None:
    assert se.python(sid, plant_links() + "\nos.symlink('/etc/passwd', 'p.txt')")["returncode"] == 0
    for name in (
        "passwd",
        "environ",
        "up",
        "root/etc/passwd",
        "etc/passwd",
        "loop",
        "fifo",
        "p.txt",
    ):
        for path in (f"/download/{sid}/{name}", f"/readfile/{sid}/{name}", f"/files/{sid}/{name}"):
            answer = se.get(path)
            assert answer.status in (400, 404), (path, answer.raw)
            check_no_leak(answer.raw)
    answer = se.get(f"/files/preview/{sid}/p.txt?sid=1")
    assert answer.status == 400
    check_no_leak(answer.raw)
    assert se.post(f"/create/{sid}", {"filename": "etc/x", "content": "x"}).status == 400
    se.create(sid, "passwd", "mine")
    assert se.get(f"/download/{sid}/passwd").raw == b"mine"


def test_links_swapped_while_files_are_used(se: Se, sid: str) -> None:
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(se.python(sid, swap_loop(60))))
    thread.start()
    seen = set()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        for path in (f"/download/{sid}/d/secret", f"/readfile/{sid}/d/secret"):
            answer = se.get(path)
            seen.add(answer.status)
            assert answer.status in (200, 400, 404), answer.raw
            assert b"outside" not in answer.raw
            assert base64.b64encode(b"outside") not in answer.raw
        answer = se.post(f"/create/{sid}", {"filename": "d/new", "content": "x"})
        assert answer.status in (200, 400, 404), answer.raw
    se.create(sid, "end", "")
    thread.join()
    assert done[0]["returncode"] == 0, done
    assert {200, 400} <= seen, seen
    assert se.ok(f"/execute/{sid}", {"command": "ls /tmp/out"})["stdout"] == "secret\n"
