# SPDX-License-Identifier: Apache-2.0
"""Other accounts of the host against a server that root runs: an ordinary user, and a process that
has nothing of a taken-over huskd but its account. Each attempt runs in a child with that account.
"""
from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from attempt import LIBC, in_child
from husk_server import Server
from places import BIN
from procfs import below, links_of
from v1_client import Api, v1_server  # noqa: F401


class Account(NamedTuple):
    uid: int
    gid: int


STRANGER = Account(4242, 4242)
PTRACE_SEIZE = 0x4206
REFUSED = {"EPERM", "EACCES"}
# fmt: off
COUNTERS = {
    "memory.max_usage_in_bytes", "memory.peak", "memory.oom_control", "memory.events", "cpu.stat",
    "cpuacct.usage", "pids.current", "io.stat",
}
# fmt: on
PARTS = ("supervisor", "launcher", "guard", "zygote", "box")


def as_user(account: Account, function: Callable[[], Any]) -> str:
    """What the function comes to, as of in_child()."""

    def act() -> Any:
        os.setgroups([])
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
        return function()

    return in_child(act)


@pytest.fixture(scope="module")
def processes(v1_server: Server) -> Iterator[dict[str, int]]:  # noqa: F811
    """Each part of the running server by its pid."""
    api = Api(v1_server.port)
    session = api.session()
    found = {"supervisor": v1_server.process.pid}
    ordered = sorted(below(v1_server.process.pid), key=lambda p: p.pid)
    for process in ordered:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        parent = next((p.name for p in ordered if p.pid == process.parent), "")
        if process.name == "huskd":
            found["huskd"] = process.pid
        elif process.name == "husk-guard":
            found["guard"] = process.pid
        elif process.name == "husk-launcher":
            found["launcher"] = process.pid
        elif b"zygote.py" in command and parent == "husk-launcher":
            found.setdefault("zygote", process.pid)
        elif b"zygote.py" in command:
            found.setdefault("box", process.pid)
    assert set(found) == {*PARTS, "huskd"}, found
    yield found
    api.call("DELETE", f"/sessions/{session}")


def account_of(pid: int) -> Account:
    status = os.stat(f"/proc/{pid}")
    return Account(status.st_uid, status.st_gid)


@pytest.fixture(scope="module", params=["stranger", "daemon"])
def account(request: pytest.FixtureRequest, processes: dict[str, int]) -> Account:
    """An ordinary user, and huskd's own account without what confines huskd."""
    daemon = account_of(processes["huskd"])
    assert 0 not in daemon and daemon != STRANGER
    return STRANGER if request.param == "stranger" else daemon


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(64)


def write(path: str) -> int:
    with open(path, "r+b") as file:
        return file.write(b"x")


def seize(pid: int) -> int:
    if LIBC.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return pid


def take_descriptor(pid: int) -> int:
    pidfd = os.pidfd_open(pid)
    fd = LIBC.syscall(ctypes.c_long(438), pidfd, 3, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return int(fd)


def join(pid: int) -> int:
    fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    if LIBC.setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    return fd


PROCESS_ATTEMPTS: dict[str, Callable[[int], Any]] = {
    "kill": lambda pid: os.kill(pid, signal.SIGTERM),
    "probe": lambda pid: os.kill(pid, 0),
    "stop": lambda pid: os.kill(pid, signal.SIGSTOP),
    "ptrace": seize,
    "take_descriptor": take_descriptor,
    "join_namespaces": join,
    "read_memory": lambda pid: read(f"/proc/{pid}/mem"),
    "write_memory": lambda pid: write(f"/proc/{pid}/mem"),
    "read_environment": lambda pid: read(f"/proc/{pid}/environ"),
    "read_maps": lambda pid: read(f"/proc/{pid}/maps"),
    "list_descriptors": lambda pid: os.listdir(f"/proc/{pid}/fd"),
    "enter_root": lambda pid: os.listdir(f"/proc/{pid}/root"),
    "enter_folder": lambda pid: os.listdir(f"/proc/{pid}/cwd"),
    "spare_from_oom": lambda pid: write(f"/proc/{pid}/oom_score_adj"),
    "set_limits": lambda pid: __import__("resource").prlimit(pid, 7, (0, 0)),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", PROCESS_ATTEMPTS)
def test_a_process_of_the_server(
    processes: dict[str, int], account: Account, part: str, name: str
) -> None:
    assert as_user(account, lambda: PROCESS_ATTEMPTS[name](processes[part])) in REFUSED


@pytest.mark.parametrize("name", PROCESS_ATTEMPTS)
def test_a_stranger_reaches_the_daemon(processes: dict[str, int], name: str) -> None:
    outcome = as_user(STRANGER, lambda: PROCESS_ATTEMPTS[name](processes["huskd"]))
    assert outcome in REFUSED


@pytest.mark.parametrize("name", ["ptrace", "take_descriptor", "read_memory", "write_memory"])
def test_its_own_account_does_not_reach_the_daemon(processes: dict[str, int], name: str) -> None:
    """Another process of the account must not borrow the daemon's socket to the launcher."""
    daemon = processes["huskd"]
    own = account_of(daemon)
    assert as_user(own, lambda: PROCESS_ATTEMPTS[name](daemon)) in REFUSED


# ---- files ----


def lock_ids() -> Any:
    with open("/run/husk/ids", "rb") as file:
        return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


ID_ATTEMPTS: dict[str, Callable[[], Any]] = {
    "lock": lock_ids,
    "read": lambda: read("/run/husk/ids"),
    "list": lambda: os.listdir("/run/husk"),
    "remove": lambda: os.unlink("/run/husk/ids"),
    "replace": lambda: os.rename("/run/husk/ids", "/run/husk/ids2"),
    "plant": lambda: os.mkdir("/run/husk/planted"),
    "replace_folder": lambda: os.rename("/run/husk", "/run/husk2"),
}


@pytest.mark.parametrize("name", ID_ATTEMPTS)
def test_the_lease_of_ids(account: Account, name: str) -> None:
    assert as_user(account, ID_ATTEMPTS[name]) in REFUSED


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


DATA_ATTEMPTS: dict[str, Callable[[Server], Any]] = {
    "list": lambda s: os.listdir(s.data),
    "list_store": lambda s: os.listdir(s.store),
    "connect": lambda s: connect(s.socket),
    "remove_socket": lambda s: os.unlink(s.socket),
    "replace_folder": lambda s: os.rename(s.data, s.folder / "other"),
    "plant": lambda s: os.mkdir(s.data / "planted"),
    "read_any_file": lambda s: [read(str(s.store / name)) for name in ("husk.db", "lock")],
}


@pytest.mark.parametrize("name", DATA_ATTEMPTS)
def test_a_stranger_in_the_data_folder(v1_server: Server, name: str) -> None:  # noqa: F811
    assert as_user(STRANGER, lambda: DATA_ATTEMPTS[name](v1_server)) in REFUSED


TEMPLATE_ATTEMPTS: dict[str, Callable[[Server], Any]] = {
    "plant": lambda s: (s.templates / "planted.template").write_text("mount = /\n"),
    "replace": lambda s: os.rename(s.templates, s.folder / "other"),
    "remove": lambda s: os.rmdir(s.templates),
}


@pytest.mark.parametrize("name", TEMPLATE_ATTEMPTS)
def test_the_operators_templates(
    v1_server: Server, account: Account, name: str
) -> None:  # noqa: F811
    assert as_user(account, lambda: TEMPLATE_ATTEMPTS[name](v1_server)) in REFUSED


def test_cgroups_of_boxes(processes: dict[str, int], account: Account) -> None:
    """No other account moves a process into the cgroup of a box, or changes its limits."""
    lines = Path(f"/proc/{processes['box']}/cgroup").read_text().splitlines()
    tried = 0
    for line in lines:
        _, names, path = line.split(":", 2)
        folder = Path("/sys/fs/cgroup") / names.split(",")[0] / path.lstrip("/")
        for file in ("cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.max", "pids.max"):
            if (folder / file).exists():
                tried += 1
                assert as_user(account, lambda: write(str(folder / file))) in REFUSED, folder / file
    assert tried > 0, lines


# ---- the daemon itself ----


@pytest.mark.parametrize(
    "key,value",
    [("CapEff", "0" * 16), ("CapPrm", "0" * 16), ("CapInh", "0" * 16), ("CapAmb", "0" * 16)]
    + [("NoNewPrivs", "1"), ("Seccomp", "2")],
)
def test_the_daemon_has_no_rights(processes: dict[str, int], key: str, value: str) -> None:
    lines = Path(f"/proc/{processes['huskd']}/status").read_text().splitlines()
    assert f"{key}:\t{value}" in lines


def test_the_daemon_holds_no_folder_of_the_host(
    processes: dict[str, int], v1_server: Server  # noqa: F811
) -> None:
    """What is open is inside DATA, the operator's templates or husk's own files, or no file; and
    counters of boxes, read-only: writing to one would set it back. The peak of memory is the
    exception: huskd sets it back before each cell, and its own result is all that it can spoil.
    """
    own = (str(v1_server.data), str(v1_server.templates), str(BIN.parent / "lib" / "husk"))
    for fd, link in links_of(processes["huskd"]).items():
        if link.startswith("/sys/fs/cgroup/"):
            assert os.path.basename(link) in COUNTERS, link
            info = Path(f"/proc/{processes['huskd']}/fdinfo/{fd}").read_text()
            flags = int(info.split("flags:")[1].split()[0], 8)
            is_read_only = flags & os.O_ACCMODE == os.O_RDONLY
            is_peak = os.path.basename(link) in ("memory.peak", "memory.max_usage_in_bytes")
            assert is_read_only or is_peak, link
        elif link.startswith("/") and link not in ("/dev/null", "/dev/urandom"):
            assert link.startswith(own), link
