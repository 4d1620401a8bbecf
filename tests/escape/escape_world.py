# SPDX-License-Identifier: Apache-2.0
"""The host as seen before and after a run: what must be gone when a box is gone.

Processes are found by descent: the test process is a child subreaper, so whatever husk leaves
running becomes a child of the tests and cannot hide among strangers' processes.
"""
from __future__ import annotations

import ctypes
import glob
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
SETTLE_S = 5.0
SHARED_PLACES = ("/dev/shm/*husk*", "/run/*husk*/**", "/run/netns/*")
# The lease file of id ranges stays: only its locks come and go.
KEPT = {"/run/husk", "/run/husk/", "/run/husk/ids"}

seen: set[int] = set()  # every process that a run of ours was seen to have, dead ones too


def become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def enter_own_mounts() -> None:
    """From now on a new mount is one that husk left to us: others on this host do not show."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNS)")
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount(MS_PRIVATE)")


def parents() -> dict[int, int]:
    """pid -> parent pid of everything that runs, zombies included."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path(f"/proc/{name}/stat").read_text(errors="replace")
        except OSError:
            continue
        table[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return table


def descendants(root: int) -> set[int]:
    table = parents()
    found: set[int] = set()
    fresh = {root}
    while fresh:
        fresh = {pid for pid, parent in table.items() if parent in fresh} - found
        found |= fresh
    return found


def describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return f"process {pid} (gone)"
    return f"process {pid} ({name}: {words.strip() or 'zombie'})"


def cgroup_dirs() -> set[str]:
    found = set()
    for hierarchy in glob.glob("/sys/fs/cgroup/*") + ["/sys/fs/cgroup"]:
        if not os.path.isdir(hierarchy) or os.path.islink(hierarchy):
            continue
        for folder, _, _ in os.walk(hierarchy):
            if "/husk/" in folder:  # the shared parent itself may stay
                found.add(folder)
    return found


def mounts() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {" ".join(line.split()[3:5]) for line in lines}


def net_namespaces() -> set[str]:
    """Namespaces of our own descendants: one that no process, mount or file holds is gone."""
    found = set()
    for pid in descendants(os.getpid()):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return found


def temp_files() -> set[str]:
    """Files in the temporary folder that husk is given, and in places that all programs share."""
    patterns = [*SHARED_PLACES, os.environ["HUSK_TEST_TMPDIR"] + "/**"]
    return {path for pattern in patterns for path in glob.glob(pattern, recursive=True)} - KEPT


@dataclass
class World:
    processes: set[int]
    cgroups: set[str]
    mounts: set[str]
    namespaces: set[str]
    files: set[str]

    @classmethod
    def now(cls) -> "World":
        return cls(
            descendants(os.getpid()), cgroup_dirs(), mounts(), net_namespaces(), temp_files()
        )

    def leftovers(self) -> list[str]:
        """What is there now and was not there then."""
        now = World.now()
        found = [describe(pid) for pid in now.processes - self.processes]
        found += [f"cgroup {path}" for path in now.cgroups - self.cgroups if is_ours(path)]
        found += [f"mount {line}" for line in now.mounts - self.mounts]
        found += [f"namespace {name}" for name in now.namespaces - self.namespaces]
        found += [f"file {path}" for path in now.files - self.files]
        return sorted(found)

    def settle(self, seconds: float = SETTLE_S) -> list[str]:
        """Waits for teardown, which goes on after the answer, and says what did not go away."""
        deadline = time.monotonic() + seconds
        while True:
            reap_orphans(self.processes)
            left = self.leftovers()
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.02)


def is_ours(cgroup: str) -> bool:
    """Instances are named after their launcher's pid; other husks may run on this host."""
    instance = re.search(r"/husk/(\d+)-", cgroup)
    return instance is None or int(instance.group(1)) in seen


def reap_orphans(known: set[int]) -> None:
    """Collects ended children that husk left to us. Those that we started ourselves are `known`."""
    for pid, parent in parents().items():
        if parent == os.getpid() and pid not in known:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
