# SPDX-License-Identifier: Apache-2.0
"""Hostile files at the places where husk itself touches files of a box: --out, --file, --mount."""
from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from escape_canary import Canary
from escape_run import run_json, run_plain

pytestmark = pytest.mark.usefixtures("clean_host")

ORDINARY = 54321  # an id that no account has: husk gives no folder of root to a box for writing
LIMITS = {"--memory": "128M", "--disk": "16M", "--timeout": "5"}
TARGET = (
    "import os\npath = os.environ['HINT_FILES'].split(':')[0]\nfolder = os.path.dirname(path)\n"
)
# What the program leaves at the name that husk is asked to bring back.
HOSTILE = {
    "absolute link": "os.symlink(path, 'out')",
    "relative link": "os.symlink('../../../../../..' + path, 'out')",
    "link through proc": "os.symlink('/proc/self/root' + path, 'out')",
    "link to another link": "os.symlink(path, 'a'); os.symlink('a', 'out')",
    "link chain": "[os.symlink(f'l{i + 1}', f'l{i}') for i in range(41)]\nos.symlink('l0', 'out')",
    "link to itself": "os.symlink('out', 'out')",
    "dangling link": "os.symlink(folder + '/missing', 'out')",
    "pipe": "os.mkfifo('out')",
    "socket": "import socket; socket.socket(socket.AF_UNIX).bind('out')",
    "directory": "os.mkdir('out')",
    "device link": "os.symlink('/dev/zero', 'out')",
    "unreadable": "open('out', 'w').write('x'); os.chmod('out', 0)",
    "sparse": "os.truncate(os.open('out', os.O_RDWR | os.O_CREAT), 4 << 40)",
    "missing": "pass",
}
SWAP = """
import ctypes
libc = ctypes.CDLL(None)
os.mkdir('d'); open('d/out', 'w').write('mine'); os.symlink(folder, 'l')
if os.fork() == 0:
    os.setsid()
    while True:
        libc.renameat2(-100, b'd', -100, b'l', 2)
"""


def hinted(canary: Canary) -> list[str]:
    return ["--env", f"HINT_FILES={canary.hints()['HINT_FILES']}"]


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_bringing_back_a_hostile_file(canary: Canary, tmp_path: Path, name: str) -> None:
    """S1, S2: never the canary, never a hang, never an endless copy."""
    target = tmp_path / "brought"
    words = [*hinted(canary), "--out", f"out:{target}", TARGET + HOSTILE[name]]
    done = run_plain(LIMITS, *words, env=canary.parent_env())
    assert canary.word.encode() not in done.stdout + done.stderr
    assert done.returncode != 0 and done.stderr, "a file that cannot be brought must be reported"
    if target.exists():
        assert target.is_file() and not target.is_symlink()
        assert target.stat().st_blocks * 512 <= 16 << 20
        assert canary.word not in target.read_bytes()[:65536].decode("latin-1")


def test_bringing_back_from_a_folder_that_is_being_swapped(canary: Canary, tmp_path: Path) -> None:
    """E4, S1: the folder of the file is exchanged with a link out of the box all the time."""
    for number in range(5):
        target = tmp_path / f"brought{number}"
        words = [*hinted(canary), "--out", f"d/secret:{target}", TARGET + SWAP]
        done = run_plain(LIMITS, *words, env=canary.parent_env())
        assert canary.word.encode() not in done.stdout + done.stderr
        assert not target.exists(), "there is no such file inside the box"


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        digest.update(f"{path} {info.st_mode} {info.st_uid} {info.st_size}".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def test_links_planted_in_a_mount_catch_no_later_run(canary: Canary, tmp_path: Path) -> None:
    """S1, E4: one run plants links in a shared folder; the next copies files out through them."""
    tmp_path.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, ORDINARY, ORDINARY)
    outside = tree_hash(canary.secret_dir)
    mount = ["--mount", f"{shared}:/data"]
    plant = TARGET + "os.symlink(folder, '/data/link'); os.symlink(path, '/data/file')"
    run = run_json(LIMITS, *mount, *hinted(canary), plant, env=canary.parent_env())
    assert run.result["status"] == "completed", run.summary()
    assert (shared / "link").is_symlink()
    follow = "import os; os.symlink('/data', 'data'); open('/data/link/planted', 'w')"
    for name in ("data/link/secret", "data/file"):
        brought = tmp_path / "brought"
        words = [*mount, "--out", f"{name}:{brought}", follow]
        done = run_plain(LIMITS, *words, env=canary.parent_env())
        assert canary.word.encode() not in done.stdout + done.stderr
        assert not brought.exists()
    assert tree_hash(canary.secret_dir) == outside


@pytest.mark.parametrize(
    "where", ["/", "/proc", "/usr", "/dev", "/etc", "/proc/self", "relative", "/workspace/../etc"]
)
def test_mounts_cannot_hide_the_runtime(canary: Canary, tmp_path: Path, where: str) -> None:
    """E4: a mount point that would cover a part of the walls is refused before anything runs."""
    done = run_plain(
        LIMITS, "--mount", f"{tmp_path}:{where}", "print('STARTED')", env=canary.parent_env()
    )
    assert done.returncode not in (0, 1) and b"STARTED" not in done.stdout, done


def test_a_read_only_mount_stays_so(canary: Canary, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "kept").write_text("kept")
    (shared / "kept").chmod(0o666)
    code = """
import os
for action in (lambda: open('/data/kept', 'w'), lambda: os.unlink('/data/kept'),
               lambda: os.mkdir('/data/new'), lambda: os.chmod('/data/kept', 0o777),
               lambda: os.rename('/data/kept', '/data/other'), lambda: os.utime('/data/kept')):
    try:
        action()
        print('ESCAPED')
    except OSError as error:
        print(error.strerror)
"""
    before = tree_hash(shared)
    run = run_json(LIMITS, "--mount", f"{shared}:/data:ro", code, env=canary.parent_env())
    assert (
        run.result["status"] == "completed" and "ESCAPED" not in run.result["stdout"]
    ), run.summary()
    assert tree_hash(shared) == before
    assert os.path.exists(shared / "kept")


FLOOD_OF_FILES = """
import sys
frame = sys._getframe()
while '_husk' not in frame.f_globals:
    frame = frame.f_back
channel = frame.f_globals['_husk']
FILE, NAME, DATA = 19, 2, 20
big = bytes(16 << 20)
for name in (b'out',) * 20 + (b'../planted', b'/tmp/planted', b'planted'):
    channel.send(FILE, [(NAME, name), (DATA, big)])
"""


def test_a_file_is_taken_once_and_only_if_asked_for(canary: Canary, tmp_path: Path) -> None:
    """S2, S6: a box that answers again and again fills neither husk's memory nor other files."""
    words = ["--out", f"out:{tmp_path / 'out'}", FLOOD_OF_FILES]
    run = run_json({**LIMITS, "--memory": "96M"}, *words, env=canary.parent_env())
    assert run.husk_mb <= 96, "husk keeps every copy"
    assert {path.name for path in tmp_path.iterdir()} <= {"out"}


@pytest.mark.parametrize(
    "name", ["../up", "/etc/up", "a/../../up", "..", ".", "a//../../up", "./../up"]
)
def test_copying_in_stays_in_the_workspace(canary: Canary, tmp_path: Path, name: str) -> None:
    """S1: a name that leaves the workspace is refused before anything runs."""
    source = tmp_path / "source"
    source.write_text("planted")
    done = run_plain(
        LIMITS, "--file", f"{source}:{name}", "print('STARTED')", env=canary.parent_env()
    )
    assert done.returncode not in (0, 1) and b"STARTED" not in done.stdout, done
