# SPDX-License-Identifier: Apache-2.0
"""Directories of a session as tar over /api/v1, out and in, and archives that attack."""
from __future__ import annotations

import gzip
import io
import tarfile
from urllib.parse import quote

import pytest
from file_samples import MIB, check_no_leak, pattern
from husk_server import server
from v1_client import Answer, Api, check_error
from v1_files import api

__all__ = ["api", "server"]
TAR = {"Content-Type": "application/x-tar"}
GZIP = {"Content-Type": "application/gzip"}


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def pack(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def send(api: Api, sid: str, data: bytes, path: str = "", headers: dict[str, str] = TAR) -> Answer:
    return api.call("PUT", f"/sessions/{sid}/archive?path={quote(path)}", raw=data, headers=headers)


def listed(api: Api, sid: str) -> list[str]:
    files = api.get(f"/sessions/{sid}/files?recursive=true").body["files"]
    return [e["path"] for e in files]


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_round_trip(api: Api, form: str) -> None:
    sid, other = api.session(), api.session()
    made = api.run(
        sid,
        "import os\n"
        "os.makedirs('top/deep/er'); os.makedirs('top/empty')\n"
        "open('top/a.txt', 'w').write('a' * 70000); open('top/none', 'w')\n"
        "open('top/deep/er/x.sh', 'w').write('#!/bin/sh'); os.chmod('top/deep/er/x.sh', 0o755)\n"
        "open('top/' + 'n' * 200, 'w').write('long'); open(b'top/b\\xff', 'w').write('bytes')\n"
        "os.symlink('a.txt', 'top/link'); os.utime('top/a.txt', (1, 1000000000))\n",
    )
    assert made["status"] == "completed", made
    got = api.get(f"/sessions/{sid}/archive?path=top&format={form}")
    assert got.status == 200
    assert got.headers["content-type"] == (
        "application/gzip" if "gz" in form else "application/x-tar"
    )
    assert f'filename="top.{form}"' in got.headers["content-disposition"]
    plain = gzip.decompress(got.raw) if "gz" in form else got.raw
    with tarfile.open(fileobj=io.BytesIO(plain), errors="surrogateescape") as tar:
        members = {m.name: m for m in tar.getmembers()}
        assert {m.rstrip("/") for m in members} >= {
            "a.txt",
            "none",
            "deep/er/x.sh",
            "empty",
            "link",
        }
        assert members["link"].issym() and members["link"].linkname == "a.txt"
        assert members["a.txt"].size == 70000 and members["a.txt"].mtime == 1000000000
        assert members["deep/er/x.sh"].mode == 0o755
        assert {(m.uid, m.gid, m.uname, m.gname) for m in tar} == {(1000, 1000, "", "")}

    back = send(api, other, got.raw, "in/here", GZIP if "gz" in form else TAR)
    assert back.status == 200, back.raw
    assert back["session_id"] == other and back["path"] == "in/here"
    assert back["bytes"] == len(plain) and back["entries"] == len(members)
    check = (
        "import os\nos.chdir('in/here')\n"
        "print(len(open('a.txt').read()), os.stat('a.txt').st_mtime, os.readlink('link'),"
        " oct(os.stat('deep/er/x.sh').st_mode), os.listdir('empty'), open(b'b\\xff').read(),"
        " open('n' * 200).read()); os.chdir('/workspace')"
    )
    assert api.run(other, check)["stdout"] == ("70000 1000000000.0 a.txt 0o100755 [] bytes long\n")


def test_whole_workspace_and_what_is_none(api: Api) -> None:
    sid = api.session()
    empty = api.get(f"/sessions/{sid}/archive")
    assert (
        empty.status == 200 and 'filename="workspace.tar"' in empty.headers["content-disposition"]
    )
    assert tarfile.open(fileobj=io.BytesIO(empty.raw)).getnames() == []
    send(api, sid, pack(entry("a", b"1")))
    names = tarfile.open(
        fileobj=io.BytesIO(api.get(f"/sessions/{sid}/archive?path=.").raw)
    ).getnames()
    assert names == ["a"]
    head = api.call("HEAD", f"/sessions/{sid}/archive?format=tar.gz")
    assert (head.status, head.raw) == (200, b"")
    assert head.headers["content-type"] == "application/gzip"
    assert api.call("HEAD", f"/sessions/{sid}/archive?path=a").status == 409
    check_error(api.get(f"/sessions/{sid}/archive?path=no"), 404, "FileNotFound", "no")
    check_error(api.get(f"/sessions/{sid}/archive?path=a"), 409, "Conflict")
    check_error(api.get(f"/sessions/{sid}/archive?format=zip"), 422, "InvalidParameter", "format")


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_formats_of_tar(api: Api, form: int) -> None:
    sid = api.session()
    name = "d" * 90 + "/" + "f" * 90
    data = pattern(200000)
    assert send(api, sid, pack(entry(name, data), form=form)).status == 200
    assert api.get(f"/sessions/{sid}/files/{name}").raw == data


HOSTILE = [
    ("absolute", entry("/etc/evil", b"x")),
    ("parent", entry("../evil", b"x")),
    ("parent inside", entry("a/../../evil", b"x")),
    ("character device", entry("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    ("block device", entry("dev", type=tarfile.BLKTYPE, devmajor=8, devminor=0)),
    ("fifo", entry("pipe", type=tarfile.FIFOTYPE)),
    ("link out", entry("l", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    ("link up", entry("l", type=tarfile.SYMTYPE, linkname="../../etc")),
    ("hard link out", entry("h", type=tarfile.LNKTYPE, linkname="/etc/passwd")),
    ("hard link up", entry("h", type=tarfile.LNKTYPE, linkname="../x")),
]


@pytest.mark.parametrize("what, bad", HOSTILE, ids=[row[0] for row in HOSTILE])
def test_hostile_entries(api: Api, what: str, bad: tuple[tarfile.TarInfo, bytes]) -> None:
    sid = api.session()
    data = pack(entry("first", b"1"), bad, entry("last", b"2"))
    check_error(send(api, sid, data), 422, "InvalidParameter")
    assert listed(api, sid) == ["first"]


def test_link_planted_by_the_archive_itself(api: Api) -> None:
    """First a link, then a file through it: of the two at most the link is there."""
    sid = api.session()
    for target in ("/tmp", "..", "."):
        data = pack(
            entry("l", type=tarfile.SYMTYPE, linkname=target), entry("l/through", b"x", mode=0o644)
        )
        assert send(api, sid, data).status in (409, 422), target
    assert "through" not in " ".join(listed(api, sid))
    assert api.run(sid, "import os; print(os.path.exists('/tmp/through'))")["stdout"] == "False\n"


def test_hard_links_that_stay_inside_are_made(api: Api) -> None:
    sid = api.session()
    data = pack(entry("d/a", b"1"), entry("b", type=tarfile.LNKTYPE, linkname="d/a"))
    assert send(api, sid, data)["entries"] == 2
    out = api.run(sid, "import os; print(os.path.samefile('d/a', 'b'))")
    assert out["stdout"] == "True\n"


def test_set_id_bits_and_owners_are_dropped(api: Api) -> None:
    sid = api.session()
    data = pack(entry("s", b"x", mode=0o6755, uid=4242, gid=4242, uname="root", gname="root"))
    assert send(api, sid, data).status == 200
    out = api.run(
        sid, "import os; s = os.stat('s'); print(oct(s.st_mode), s.st_uid == os.getuid())"
    )
    assert out["stdout"] == "0o100755 True\n"


def test_damaged_archives(api: Api) -> None:
    sid = api.session()
    whole = pack(entry("a", pattern(100000)), entry("b", b"x"))
    for data in (b"no tar at all" * 100, whole[:700], whole[:50000], b"\1" * 10240, whole[:100]):
        answer = send(api, sid, data)
        check_error(answer, 422, "InvalidParameter")
        assert not answer["error_detail"].startswith(":"), answer["error_detail"]
    check_error(send(api, sid, whole[:50000]), 422, "InvalidParameter", "a: the archive is cut off")
    packed = gzip.compress(whole)
    for data in (whole, packed[: len(packed) // 2], packed[:4], b""):
        check_error(send(api, sid, data, headers=GZIP), 422, "InvalidParameter")
    assert "b" not in listed(api, sid)


TYPES = [
    ("application/x-tar", 200),
    ("application/octet-stream", 200),
    (None, 200),
    ("application/json", 415),
    ("application/x-www-form-urlencoded", 415),
    ("application/zip", 415),
]


@pytest.mark.parametrize("kind, status", TYPES, ids=[str(row[0]) for row in TYPES])
def test_only_archives_are_unpacked(api: Api, kind: str | None, status: int) -> None:
    sid = api.session()
    data = pack(entry("a", b"1"))
    if kind is None:
        connection = api.connect()
        connection.request("PUT", f"/api/v1/sessions/{sid}/archive", body=data)
        assert connection.getresponse().status == status
        connection.close()
    else:
        answer = send(api, sid, data, headers={"Content-Type": kind})
        assert answer.status == status
        if status == 415:
            check_error(answer, 415, "InvalidParameter", "application/x-tar")
    assert listed(api, sid) == (["a"] if status == 200 else [])


def test_archive_larger_than_the_disk(api: Api) -> None:
    sid = api.session(resources={"memory": "64Mi", "disk": "4Mi"})
    check_error(send(api, sid, pack(entry("big", bytes(16 * MIB)))), 507, "DiskFull")
    bomb = gzip.compress(pack(entry("bomb", bytes(200 * MIB))))
    assert len(bomb) < MIB
    check_error(send(api, sid, bomb, headers=GZIP), 507, "DiskFull")
    assert (
        api.call(
            "PUT",
            f"/sessions/{sid}/files/ok",
            raw=b"x",
            headers={"Content-Type": "application/octet-stream"},
        ).status
        == 201
    )


def test_archive_beneath_a_link(api: Api) -> None:
    sid = api.session()
    api.run(sid, "import os; os.symlink('/tmp', 'out'); os.symlink('/etc', 'etc')")
    check_error(send(api, sid, pack(entry("x", b"x")), "out"), 409, "Conflict")
    check_error(send(api, sid, pack(entry("x", b"x")), "out/deeper"), 409, "Conflict")
    got = api.get(f"/sessions/{sid}/archive?path=etc")
    check_error(got, 409, "Conflict")
    check_no_leak(got.raw)


@pytest.mark.parametrize("path", ["..", "../x", "/etc", "a/../..", "a//b", "%2e%2e"])
def test_paths_that_lead_out(api: Api, path: str) -> None:
    sid = api.session()
    check_error(api.get(f"/sessions/{sid}/archive?path={path}"), 422, "InvalidParameter", "path")
    data = pack(entry("x", b"x"))
    answer = api.call("PUT", f"/sessions/{sid}/archive?path={path}", raw=data, headers=TAR)
    check_error(answer, 422, "InvalidParameter", "path")
