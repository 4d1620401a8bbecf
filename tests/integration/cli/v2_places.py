# SPDX-License-Identifier: Apache-2.0
"""Where husk is started on a host with cgroup v2 alone, for husk_on_v2.py.

A *place* stands for what a host gives a program: the top of the tree, the cgroup of a container,
the delegated cgroup of a user.
"""
from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CGROUPS = Path("/sys/fs/cgroup")
PATIENCE = 120
USER = 1000
CONTROLLERS = "+cpu +memory +pids"

# ---- places ----


@dataclass
class Place:
    """Where a program is started. Its cgroup has nothing in it."""

    cgroup: Path = CGROUPS
    user: int = 0
    is_container: bool = False

    def command(self, args: tuple[str, ...]) -> list[str]:
        before: list[str] = []
        if self.is_container:
            see_own = (
                'umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
            )
            before = ["/usr/bin/unshare", "--cgroup", "--mount", "sh", "-c", see_own, "sh"]
        if self.user != 0:
            before += [
                "/usr/bin/setpriv",
                f"--reuid={self.user}",
                f"--regid={self.user}",
                "--clear-groups",
            ]
        return [*before, *args]

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(args),
            preexec_fn=lambda: write(self.cgroup / "cgroup.procs", "0"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*args, stdin=subprocess.DEVNULL)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def result(self, *args: str) -> dict[str, Any]:
        """Of husk run --json."""
        done = self.run("husk", "run", "--json", *args)
        check(done.stdout != "", done)
        result: dict[str, Any] = json.loads(done.stdout)
        equal(done.returncode, result["exit_code"])
        return result

    def cgroup_layer(self, *before: str) -> dict[str, Any]:
        """What husk doctor says of limits."""
        done = self.run(*before, "husk", "doctor", "--json")
        layers: list[dict[str, Any]] = json.loads(done.stdout)["layers"]
        return next(layer for layer in layers if layer["name"] == "cgroup limits")


HOST = Place()
made = 0


def write(path: Path, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def delegated(controllers: str = CONTROLLERS, **options: Any) -> Place:
    """A new cgroup with these controllers that belongs to USER, as systemd makes one."""
    global made
    made += 1
    write(CGROUPS / "cgroup.subtree_control", CONTROLLERS)
    parent = CGROUPS / f"place{made}"
    own = parent / "own"
    own.mkdir(parents=True)
    write(parent / "cgroup.subtree_control", controllers)
    own.rmdir()
    own.mkdir()
    for path in own, own / "cgroup.procs", own / "cgroup.subtree_control", own / "cgroup.threads":
        os.chown(path, USER, USER)
    return Place(own, **options)


def user() -> Place:
    return delegated(user=USER)


def container() -> Place:
    return delegated(is_container=True)


# ---- looking ----


def check(holds: bool, *what: object) -> None:
    if not holds:
        raise AssertionError(" ".join(str(w) for w in what))


def equal(got: object, wanted: object) -> None:
    check(got == wanted, f"{got!r} is not {wanted!r}")


def cause(result: dict[str, Any]) -> tuple[str, str, int]:
    return result["status"], result["termination"]["cause"], result["exit_code"]


def limits_of(folder: Path) -> list[str]:
    return [(folder / name).read_text().strip() for name in ("memory.max", "cpu.max", "pids.max")]


def nothing_is_left() -> None:
    """Neither processes nor cgroups but the empty ones that are kept for the next time."""
    for folder, below, _ in os.walk(CGROUPS):
        equal([name for name in below if Path(folder).name == "husk"], [])
        if folder != str(CGROUPS):
            equal(Path(folder, "cgroup.procs").read_text(), "")


def wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (got := what()):
        check(time.monotonic() < deadline, "waited in vain")
        time.sleep(0.05)
    return got


class Server:
    """husk up --detach in a place."""

    def __init__(self, place: Place, *args: str) -> None:
        self.place = place
        self.data = Path(f"/tmp/data{made}")
        self.data.mkdir(mode=0o755)
        os.chown(self.data, place.user, place.user)
        done = place.run("husk", "up", "--detach", "--data", str(self.data), *args)
        check(done.returncode == 0, done)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *ignored: object) -> None:
        done = Place(user=self.place.user).run("husk", "down", "--data", str(self.data))
        equal((done.returncode, done.stdout), (0, "husk is down\n"))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask(path, json.dumps(body).encode())

    def get(self, path: str) -> dict[str, Any]:
        return self._ask(path, None)

    def _ask(self, path: str, body: bytes | None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:8000{path}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            got: dict[str, Any] = json.load(answer)
        return got
