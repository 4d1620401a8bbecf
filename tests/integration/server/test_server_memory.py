# SPDX-License-Identifier: Apache-2.0
"""huskd has a memory cgroup of its own: the kernel ends a daemon that needs more, the next one goes
on with its sessions, and no cgroup is left, whichever process is killed.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from husk_server import Server
from limited_client import cgroups_of
from procfs import below
from v1_client import Api
from waiting import wait_until

MIB = 1 << 20
LIMIT = 256 * MIB


def trees() -> list[Path]:
    """Where hierarchies are mounted."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [Path(words[1]) for words in mounts if words[2] in ("cgroup", "cgroup2")]


def limit_of(pid: int) -> int:
    """Of the memory cgroup that the process is in, wherever that is."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for tree in trees():
            for name in ("memory.limit_in_bytes", "memory.max"):
                file = tree / path.lstrip("/") / name
                is_its = "memory" in controllers.split(",") or controllers == ""
                if is_its and f"/{pid}-" in path and file.exists():
                    text = file.read_text().strip()
                    return int(text) if text.isdigit() else -1
    return -1


def fill(server: Server, connections: int) -> None:
    """Bodies that are begun and not finished: huskd has to hold them."""
    held = []
    head = (
        b"POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % (15 * MIB)
    )
    body = head + b'{"code": "' + b"x" * (14 * MIB)
    try:
        for _ in range(connections):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            held.append(connection)
            connection.sendall(body)
    except OSError:
        pass  # the daemon has gone
    finally:
        for connection in held:
            connection.close()


def test_huskd_is_limited_and_followed_by_another() -> None:
    with Server.run("--daemon-memory", "256M") as server:
        api = Api(server.port)
        first = server.pid_of_huskd()
        assert limit_of(first) == LIMIT, Path(f"/proc/{first}/cgroup").read_text()
        session = api.session()
        api.run(session, "x = 41")
        fill(server, 40)
        wait_until(lambda: not Path(f"/proc/{first}").exists(), "the kernel has ended huskd")
        server.wait_ready()
        second = server.pid_of_huskd()
        assert second != first
        assert api.run(session, "x + 1")["value"] == "42"  # the interpreter never noticed
        assert limit_of(second) == LIMIT
        wait_until(lambda: cgroups_of(first) == [], "the first one's cgroup is gone")
        api.call("DELETE", f"/sessions/{session}")
        server.stop()
        wait_until(lambda: cgroups_of(second) == [], "and so is the last one's")


def test_nothing_is_left_when_the_supervisor_is_killed() -> None:
    with Server.run() as server:
        daemon = server.pid_of_huskd()
        guards = [p.pid for p in below(daemon)]
        assert cgroups_of(daemon) != []
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        wait_until(lambda: not Path(f"/proc/{daemon}").exists(), "huskd ends by itself")
        wait_until(lambda: cgroups_of(daemon) == [], "its cgroup is removed")
        gone = lambda: not any(Path(f"/proc/{pid}").exists() for pid in guards)  # noqa: E731
        wait_until(gone, "and so is the process that removed it")
