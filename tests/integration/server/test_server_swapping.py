# SPDX-License-Identifier: Apache-2.0
"""Snapshots, and stops and resumes of a session whose folders and links to elsewhere change places
all the time.
"""
from __future__ import annotations

import io
import tarfile
from pathlib import Path

from husk_server import Server
from v1_client import Api

WORD = "canary-of-the-host"
SNAPSHOTS = 2000
RESUMES = 3
TAR = {"Content-Type": "application/x-tar"}

# A process that outlives the cell: each folder is a folder and a link to somewhere else, by turns.
SWAPPER = """
import os, subprocess, sys
places = {places!r}
for n in range(len(places)):
    if not os.path.isdir(f'd{{n}}') or os.path.islink(f'd{{n}}'):
        os.makedirs(f'd{{n}}-new', exist_ok=True)
        if os.path.lexists(f'd{{n}}'): os.unlink(f'd{{n}}')
        os.rename(f'd{{n}}-new', f'd{{n}}')
    open(f'd{{n}}/secret', 'w').write('inside')
    if os.path.lexists(f'l{{n}}'):
        subprocess.run(['rm', '-rf', f'l{{n}}'], check=True)
    os.symlink(places[n], f'l{{n}}')
code = '''
import ctypes
rename = ctypes.CDLL(None).renameat2
while True:
    for n in range(%d):
        rename(-100, b"d%%d" %% n, -100, b"l%%d" %% n, 2)
''' % len(places)
subprocess.Popen([sys.executable, '-c', code], start_new_session=True,
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


def plant_canary(server: Server) -> Path:
    canary = server.folder / "canary"
    canary.mkdir(mode=0o777)
    canary.chmod(0o777)  # nothing but the wall protects it
    (canary / "secret").write_text(WORD)
    (canary / "secret").chmod(0o666)
    return canary


def state(folder: Path) -> list[tuple[str, str, int, int]]:
    found = [folder, *sorted(folder.rglob("*"))]
    return [
        (str(p), p.read_text() if p.is_file() else "", p.stat().st_mtime_ns, p.stat().st_mode)
        for p in found
    ]


def start_swapping(api: Api, sid: str, canary: Path) -> None:
    places = ["/", str(canary), "/etc", "../../../../../.." + str(canary)]
    over = api.run(sid, SWAPPER.format(places=places))
    assert over["status"] == "completed", over


def tar_of(names: list[str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(b"inside")
            tar.addfile(info, io.BytesIO(b"inside"))
    return out.getvalue()


def check_snapshot(raw: bytes) -> set[str]:
    """What kinds of members it has. What a link leads to is not in it."""
    assert WORD.encode() not in raw
    kinds = set()
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for member in tar:
            assert not member.name.startswith("/") and ".." not in member.name.split("/")
            if member.isfile():
                data = tar.extractfile(member)
                assert data is not None and data.read() in (b"inside", b""), member.name
            kinds.add("link" if member.issym() else "folder" if member.isdir() else "file")
    return kinds


def test_links_that_change_places_with_folders_catch_no_snapshot() -> None:
    with Server.run() as server:
        canary = plant_canary(server)
        before = state(canary)
        api = Api(server.port)
        sid = api.session()
        start_swapping(api, sid, canary)
        kinds: set[str] = set()
        planted = tar_of([f"d{n}/secret" for n in range(4)])
        for n in range(SNAPSHOTS):
            packed = api.get(f"/sessions/{sid}/archive")
            assert packed.status in (200, 409), packed.raw
            if packed.status == 200:
                kinds |= check_snapshot(packed.raw)
            if n % 20 == 0:
                put = api.call("PUT", f"/sessions/{sid}/archive?path=", raw=planted, headers=TAR)
                assert put.status in (200, 201, 204, 409), put.raw
                assert state(canary) == before
        assert kinds == {"link", "folder", "file"}
        for _ in range(RESUMES):
            assert server.stop() == 0
            assert state(canary) == before
            server.start()
            packed = api.get(f"/sessions/{sid}/archive")
            assert packed.status == 200, packed.raw
            check_snapshot(packed.raw)
            start_swapping(api, sid, canary)
        assert state(canary) == before
