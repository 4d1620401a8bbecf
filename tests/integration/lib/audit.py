# SPDX-License-Identifier: Apache-2.0
"""What must hold after every fault (docs: the invariants of the fault plan), checked on a running
server from outside.

    audit = Audit(server)           # takes the levels of an idle server
    ... fault ...
    audit.check(ledger)             # waits for the dust to settle, then everything must hold

A Ledger is what the clients wrote down: every id that was acknowledged, every final result that
they saw, every idempotency key and how often its code ran. The audit never believes the server
alone: processes, cgroups, mounts, descriptors and files are read from the kernel, records from the
database.
"""
from __future__ import annotations

import contextlib
import glob
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from husk_server import Server
from procfs import Process, below, is_alive
from v1_client import FINAL, Api
from waiting import wait_settled, wait_until

HEALTH_S = 5.0  # /health answers within this, or the server is down: never hung
CGROUPS = Path("/sys/fs/cgroup")
EMPTY_CGROUPS_KEPT = 600  # the launcher keeps so many for the next boxes


# ---- processes ----


@dataclass
class Tree:
    """The processes of one server, by what they are."""

    huskd: int
    launcher: int
    zygotes: list[int]
    boxes: list[int]  # PID 1 of each
    everyone: list[Process]

    @classmethod
    def of(cls, server: Server) -> Tree | None:
        """None while one of them is being started."""
        everyone = below(server.process.pid)
        children = [p for p in everyone if p.parent == server.process.pid]
        huskd = [p.pid for p in children if p.name == "huskd"]
        launcher = [p.pid for p in children if p.name == "husk-launcher"]
        if len(huskd) != 1 or len(launcher) != 1:
            return None
        below_it = [p for p in everyone if p.parent == launcher[0]]
        zygotes = [p.pid for p in below_it if p.name not in ("husk-guard", "husk-closer")]
        boxes = [p.pid for p in everyone if p.parent in zygotes and p.state != "Z"]
        return cls(huskd[0], launcher[0], zygotes, boxes, everyone)


def wait_tree(server: Server) -> Tree:
    return wait_until(lambda: Tree.of(server), "huskd and launcher run")


def wait_next_huskd(server: Server, old: Tree) -> Tree:
    def look() -> Tree | None:
        tree = Tree.of(server)
        return tree if tree is not None and tree.huskd != old.huskd else None

    return wait_until(look, "another huskd")


def kill_boxes(server: Server) -> None:
    boxes = wait_tree(server).boxes
    assert boxes != []
    for pid in boxes:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: set(wait_tree(server).boxes).isdisjoint(boxes), "they are gone")


# ---- what the kernel holds for them ----


def instance_cgroups(launcher: int) -> list[Path]:
    """The folders that a launcher made in every hierarchy; its pid is the start of their names."""
    # Path.glob() fails when a folder is removed meanwhile.
    return [Path(name) for name in glob.glob(f"{CGROUPS}/*/husk/{launcher}-*")]


def box_cgroups(launcher: int) -> Iterator[tuple[Path, list[int]]]:
    """Folders of boxes in the hierarchy of pids, and the processes in them."""
    for instance in instance_cgroups(launcher):
        if instance.parent.parent.name != "pids":
            continue
        for name in glob.glob(f"{instance}/box-*"):
            folder = Path(name)
            try:
                yield folder, [int(x) for x in (folder / "cgroup.procs").read_text().split()]
            except OSError:
                continue  # removed meanwhile


def sizes(folder: Path) -> dict[Path, int]:
    """Of all files below it. huskd may rename or remove one meanwhile."""
    found = {}
    for name in glob.glob(f"{folder}/**", recursive=True):
        with contextlib.suppress(FileNotFoundError):
            if os.path.isfile(name):
                found[Path(name)] = os.stat(name).st_size
    return found


def fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def status_of(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def mounts(pid: int) -> int:
    return len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())


@dataclass
class Level:
    """What an idle server holds. Memory in KiB."""

    huskd_fds: int
    launcher_fds: int
    huskd_rss: int
    launcher_rss: int
    threads: int
    mounts: int
    host_mounts: int
    boxes: int
    cgroups: int

    @classmethod
    def of(cls, server: Server) -> Level:
        def look() -> Level | None:
            try:
                return cls._of(wait_tree(server))
            except OSError:  # one of them has just ended, or is about to
                return None

        return wait_until(look, "huskd and its launcher stay for a look")

    @classmethod
    def _of(cls, tree: Tree) -> Level:
        return cls(
            huskd_fds=fds(tree.huskd),
            launcher_fds=fds(tree.launcher),
            huskd_rss=status_of(tree.huskd, "VmRSS"),
            launcher_rss=status_of(tree.launcher, "VmRSS"),
            threads=status_of(tree.huskd, "Threads"),
            mounts=sum(mounts(z) for z in tree.zygotes),
            host_mounts=mounts(tree.launcher),
            boxes=len(tree.boxes),
            cgroups=sum(1 for _ in box_cgroups(tree.launcher)),
        )


# ---- what clients wrote down ----


@dataclass
class Ledger:
    """Filled by clients on many threads."""

    sessions: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)  # executions with a 2xx and an id
    results: dict[str, Any] = field(default_factory=dict)  # final ones that were seen
    keys: dict[str, str] = field(default_factory=dict)  # idempotency key to execution
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)  # session, path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, execution: Any, key: str | None = None) -> None:
        """An answer that names an execution."""
        name = str(execution["execution_id"])
        with self.lock:
            self.accepted.add(name)
            if key is not None:
                known = self.keys.setdefault(key, name)
                assert known == name, f"key {key} is {known} and now {name}"
            if execution["status"] in FINAL and "exit_code" in execution:
                before = self.results.setdefault(name, execution)
                assert _essence(before) == _essence(execution), (before, execution)


def _essence(execution: Any) -> Any:
    """What may never change once a client has seen it."""
    names = ["status", "exit_code", "stdout", "stderr", "error", "value", "outputs"]
    return {name: execution.get(name) for name in names}


# ---- the audit ----


class Audit:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.api = Api(server.port)
        self.before = self.idle_level()

    def idle_level(self) -> Level:
        """Once pools are full and nothing changes any more."""

        def look() -> tuple[int, int]:
            now = Level.of(self.server)
            return now.boxes, now.huskd_fds

        wait_until(self.pools_are_full, "the pools are full")
        wait_settled(look, "the server", 2)
        return Level.of(self.server)

    def pools_are_full(self) -> bool:
        """Templates start beside each other, and each has its pools when its zygote is there."""
        pools = self.api.get("/pool")["pools"]
        if "--pool-min" not in self.server.flags:
            if not {"python", "pyrunner"} <= {p["template_id"] for p in pools}:
                return False
        return all(p["starting"] == 0 and p["size"] >= p["min"] for p in pools)

    def check(self, ledger: Ledger | None = None) -> None:
        """Everything that holds at any time: also while sessions live and cells run."""
        self.check_health()
        if ledger is not None:
            self.check_ledger(ledger)
        self.check_records()
        wait_for_none(self.stray_files, "files without a record")
        wait_for_none(self.stray_boxes, "boxes, processes or cgroups without an owner")

    def check_health(self) -> None:
        start = time.monotonic()
        assert self.server.get("/health").status == 200
        took = time.monotonic() - start
        assert took < HEALTH_S, f"/health took {took:.2f} s"

    def check_ledger(self, ledger: Ledger) -> None:
        """Nothing acknowledged is missing, and it is what the client saw."""
        live = {c["session_id"] for c in self.containers()}
        for name in sorted(ledger.accepted):
            answer = self.api.get(f"/executions/{name}")
            assert answer.status == 200, f"{name} is missing: {answer.raw!r}"
            now = answer.body
            if now["status"] in FINAL:
                if name in ledger.results:
                    assert _essence(ledger.results[name]) == _essence(now), name
            else:
                assert name not in ledger.results, f"{name} was over: {now}"
                assert now["status"] == "pending" or now["session_id"] in live, now
        for session in sorted(ledger.sessions):
            assert self.api.get(f"/sessions/{session}").status == 200, session
        for (session, path), data in ledger.files.items():
            answer = self.api.call("GET", f"/sessions/{session}/files/{path}")
            assert answer.status == 200 and answer.raw == data, (session, path, answer.status)

    def check_records(self) -> None:
        """The database is whole, and what it says is possible."""
        address = f"file:{self.server.store}/husk.db?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for name, status, ended, result in db.execute(
                "SELECT id, status, ended_ms, result FROM executions"
            ):
                is_final = status >= 2  # pending and running come first: service/state.def
                assert is_final == (ended != 0) == (result is not None), (name, status, ended)
            doubles = db.execute(
                "SELECT session_id, number FROM executions GROUP BY 1, 2 HAVING count(*) > 1"
            ).fetchall()
            assert doubles == []

    def containers(self) -> list[Any]:
        items: list[Any] = []
        while True:
            page = self.api.get(f"/containers?limit=200&offset={len(items)}").body
            items += page["items"]
            if not page["has_more"] or not page["items"]:
                return items

    def stray_files(self) -> list[str]:
        """Output of executions that do not run, copies of workspaces without a session, and
        anything half-written.
        """
        stray = []
        for path in (self.server.store / "spool").iterdir():
            answer = self.api.get(f"/executions/{path.stem}")
            if answer.status != 200 or answer["status"] in FINAL:
                stray.append(str(path))
        for path in (self.server.store / "workspaces").iterdir():
            if path.suffix != ".tar" or self.api.get(f"/sessions/{path.stem}").status != 200:
                stray.append(str(path))
        return stray

    def stray_boxes(self) -> list[str]:
        tree = Tree.of(self.server)
        if tree is None:
            return ["no huskd or launcher"]
        stray = [f"zombie {p}" for p in tree.everyone if p.state == "Z"]
        known = len(self.containers())
        if known != len(tree.boxes):
            stray.append(f"{known} boxes are known, {len(tree.boxes)} run")
        inhabited = [folder for folder, pids in box_cgroups(tree.launcher) if pids]
        if len(inhabited) != known:
            stray.append(f"{known} boxes are known, {len(inhabited)} cgroups have processes")
        ours = {p.pid for p in tree.everyone}
        for folder, pids in box_cgroups(tree.launcher):
            stray += [f"{pid} in {folder} has no owner" for pid in pids if pid not in ours]
        return stray

    def check_level(self, rss_kib: int = 8192) -> None:
        """No session lives any more: everything is back where it was. Caches may have filled up to
        rss_kib.
        """

        def above() -> list[str]:
            now = Level.of(self.server)
            was = self.before
            limits = {
                "boxes": was.boxes,
                "huskd_fds": was.huskd_fds + 2,  # a connection of ours, or one that is closing
                "threads": was.threads + 4,  # libuv's pool starts with the first work
                "mounts": was.mounts,
                "host_mounts": was.host_mounts,
                "huskd_rss": was.huskd_rss + rss_kib,
                "launcher_rss": was.launcher_rss + rss_kib,
            }
            over = [
                f"{k} {getattr(now, k)} > {v}" for k, v in limits.items() if getattr(now, k) > v
            ]
            # Empty cgroups that are kept for the next boxes hold descriptors of the launcher.
            spare = sum(1 for _, pids in box_cgroups(wait_tree(self.server).launcher) if not pids)
            if spare > EMPTY_CGROUPS_KEPT:
                over.append(f"{spare} empty cgroups")
            per_cgroup = 24
            if now.launcher_fds > was.launcher_fds + 2 + per_cgroup * max(
                0, now.cgroups - was.cgroups
            ):
                over.append(f"launcher_fds {now.launcher_fds} > {was.launcher_fds}")
            return over

        wait_for_none(above, "levels above those of the idle server")


def wait_for_none(look: Callable[[], list[str]], what: str) -> None:
    """Some of it takes a moment; then it must be gone."""
    wait_until(lambda: not look(), lambda: f"there are no {what}: {look()}")


def check_all_gone(left: list[Process], launchers: list[int], why: str) -> None:
    """Of a server that ended: no process, no cgroup."""
    wait_for_none(lambda: [str(p) for p in left if is_alive(p)], f"processes after {why}")
    wait_for_none(
        lambda: [str(p) for pid in launchers for p in instance_cgroups(pid)],
        f"cgroups after {why}",
    )
