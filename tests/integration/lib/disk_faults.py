# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, out of inodes or broken, for tests of a running server."""
from __future__ import annotations

import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from audit import Tree, wait_next_huskd, wait_tree
from husk_server import Server
from v1_client import Api
from waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="traces the daemon of another account")


@pytest.fixture
def server() -> Iterator[Server]:
    """One for each test: a daemon that is killed again and again is started again more slowly."""
    with Server.run() as running:
        yield running


# ---- a file system of its own ----


def _mount(kind: str, options: str, folder: Path) -> None:
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"{options},mode=0700", "tmpfs", str(folder)]
    else:
        image = folder.with_suffix(".img")
        with image.open("wb") as file:
            file.truncate(24 << 20)
        # Blocks that are smaller than pages: a page of a mapped file can lack room in its middle.
        make = ["mkfs.ext4", "-q", "-F", "-b", "1024", "-m", "0", str(image)]
        subprocess.run(make, check=True)
        command = ["mount", "-o", "loop", str(image), str(folder)]
    subprocess.run(command, check=True)


@contextmanager
def small_disk(options: str, *flags: str, kind: str = "tmpfs") -> Iterator[Server]:
    """A server whose data folder is a file system of its own."""
    server = Server(*flags)
    server.data.mkdir()
    _mount(kind, options, server.data)
    try:
        server.start()
        yield server
    finally:
        try:
            if server.is_running():
                server.stop()
        finally:
            subprocess.run(["umount", "--lazy", str(server.data)], check=True)
            server.remove()


def fill(folder: Path) -> Path:
    """Takes every byte that is left."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        size = 1 << 20
        while size > 0:
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
            size //= 2
    return path


def fill_inodes(folder: Path) -> list[Path]:
    """Takes every name that is left."""
    made: list[Path] = []
    while len(made) < 100_000:
        path = folder / f"filler-{len(made)}"
        try:
            path.touch()
        except OSError:
            return made
        made.append(path)
    raise AssertionError("this file system has no bound on inodes")


# ---- the server on it ----


def wait_successor(server: Server, old: Tree) -> None:
    """Another huskd serves."""
    wait_next_huskd(server, old)
    server.wait_runs()


def kill_and_wait(server: Server) -> None:
    old = wait_tree(server)
    os.kill(old.huskd, signal.SIGKILL)
    wait_successor(server, old)


def names_in(copy: Path) -> set[str]:
    """What the copy of a workspace holds."""
    if not copy.exists():
        return set()
    with tarfile.open(copy) as tar:
        return {name.removeprefix("./") for name in tar.getnames()}


def new_template(name: str, memory_mb: int = 512) -> dict[str, Any]:
    return {"id": name, "name": name, "base": "python", "default_memory_mb": memory_mb}


def until_refused(api: Api, method: str, path: str, body: Any) -> tuple[Any, list[Any]]:
    """The first refusal, and what was taken before it: the log of the store has room of its own
    that is used again.
    """
    taken: list[Any] = []
    while len(taken) < 1000:
        answer = api.call(method, path, body)
        if answer.status == 503:
            return answer, taken
        assert answer.status in (200, 201), answer
        taken.append(answer)
    raise AssertionError(f"{method} {path} is never refused")


def wait_taken(api: Api, method: str, path: str, body: Any, key: str | None = None) -> Any:
    """Until the disk takes it again, by itself. Until then refusals are typed."""
    headers = {"Idempotency-Key": key} if key else None

    def ask() -> Any:
        answer = api.call(method, path, body, headers)
        assert answer.status in (200, 201, 503), answer
        return answer if answer.status != 503 else None

    return wait_until(ask, f"{method} {path} is taken again")


# ---- system calls that fail ----


@contextmanager
def failing(server: Server, calls: str, how: str) -> Iterator[None]:
    """While this lasts, these system calls of huskd do as strace's inject= says."""
    pid = server.pid_of_huskd()
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid)]
    command += ["-e", f"trace={calls}", "-e", f"inject={calls}:{how}"]
    strace = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: _tracers(pid) == {strace.pid}, "strace has every thread of huskd")
        yield
    finally:
        strace.terminate()  # it detaches
        strace.wait(30)


def _tracers(pid: int) -> set[int]:
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except OSError:
            continue  # it has ended meanwhile
        found.add(int(status.split("TracerPid:")[1].split()[0]))
    return found
