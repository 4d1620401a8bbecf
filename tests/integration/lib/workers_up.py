# SPDX-License-Identifier: Apache-2.0
"""husk up with a daemon that is a script of the test, and workers that do as they are told.

The real daemon would not send what must be refused. The script runs beside real copies of husk and
husk-launcher, as the account that huskd gets.
"""
from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import BIN
from process import Heard
from waiting import wait_until

PYTHON = "/usr/bin/python3"

# How the daemon speaks with the supervisor: wire/supervisor_msg.h.
DAEMON = """#!/usr/bin/python3
import array, json, os, signal, socket, struct, sys, time

START, KILL, STARTED, FAILED, EXITED = range(1, 6)
NAMES = {STARTED: "started", FAILED: "failed", EXITED: "exited"}
supervisor = socket.socket(fileno=3)
supervisor.recvmsg(64, socket.CMSG_SPACE(64))
sockets = {}

def order(kind, agent=0, worker=0, status=0):
    supervisor.send(struct.pack("=IIIiI", kind, agent, worker, status, 0))

def hear():
    data, controls, _, _ = supervisor.recvmsg(64, socket.CMSG_SPACE(4))
    if not data:
        sys.exit(0)
    kind, agent, worker, status, flags = struct.unpack("=IIIiI", data)
    for _, _, fds in controls:
        sockets[worker] = socket.socket(fileno=array.array("i", fds)[0])
    say(event=NAMES[kind], agent=agent, worker=worker, status=status, flags=flags)
    return kind

def ask(worker, words):
    sockets[worker].sendall(words.encode() + b"\\n")
    say(answer=json.loads(sockets[worker].makefile().readline()))

def say(**what):
    print("daemon " + json.dumps(what), flush=True)

def leave(n, f):
    say(event="asked")
    os._exit(0)

signal.signal(signal.SIGTERM, leave)
supervisor.send(struct.pack("=I", os.getpid()))
"""

# What runs for each agent: husk/agents/worker.py of a package that only the plan's `sdk` leads to.
WORKER = """
import json, os, signal, socket, sys, time

link = socket.socket(fileno=3)
lines = link.makefile()
for line in lines:
    words = line.split()
    if words[0] == "exit":
        sys.exit(int(words[1]))
    if words[0] == "eat":
        bytearray(400 << 20)
    if words[0] == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if words[0] == "stay":  # also when asked to go, or when the daemon has hung up
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if words[0] == "leave":  # a note behind
        def note(n, f):
            time.sleep(0.1)
            with open("left", "w") as out:
                out.write("in order")
            os._exit(0)
        signal.signal(signal.SIGTERM, note)
    facts = {
        "argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "pid": os.getpid(), "uid": os.getuid(),
        "fds": len(os.listdir("/proc/self/fd")) - 1, "path": sys.path[:2], "blocked": sorted(signal.pthread_sigmask(0, [])),
    }
    link.sendall(json.dumps(facts).encode() + b"\\n")
while signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
    time.sleep(0.05)
"""


class Up(Heard):
    """husk up with a daemon of the test and a plan of two agents."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.data = folder / "data"
        self.project = folder / "project"
        self.plan_file = folder / "agents.json"
        self.drain = 1  # seconds
        self.said: list[dict[str, Any]] = []
        for name in ("bin", "lib/husk", "project", "sdk/husk/agents"):
            (folder / name).mkdir(parents=True)
        for name in ("husk", "husk-launcher"):
            shutil.copy(BIN / name, folder / "bin" / name)
        for name in ("husk/__init__.py", "husk/agents/__init__.py"):
            (folder / "sdk" / name).touch()
        (folder / "sdk/husk/agents/worker.py").write_text(WORKER)
        self.plan = {
            "version": 1,
            "python": PYTHON,
            "folder": str(self.project),
            "sdk": str(folder / "sdk"),
            "agents": [self.agent("first"), self.agent("Second_1", main=True, replicas=2)],
            "failed": [],
        }
        self.write_plan()

    def agent(self, name: str, **changes: Any) -> dict[str, Any]:
        return {
            "name": name,
            "kind": "agent",
            "framework": "callable",
            "file": str(self.project / f"{name}.py"),
            "main": False,
            "route_prefix": f"/agents/{name}",
            "num_cpus": 1.0,
            "num_gpus": 0.0,
            "memory_bytes": 128 << 20,
            "replicas": 1,
            "streams": [],
            "chat": False,
            "max_in_flight": 1,
            "queue_length": 1,
            "request_timeout_ms": 1000,
            "retries": 0,
        } | changes

    def write_plan(self) -> None:
        self.plan_file.write_text(json.dumps(self.plan))
        self.plan_file.chmod(0o644)

    def start(self, daemon: str, **env: str) -> None:
        """The script ends with a loop that prints whatever the supervisor says."""
        script = self.folder / "bin" / "huskd"
        script.write_text(DAEMON + daemon + "\nwhile True:\n    hear()\n")
        script.chmod(0o755)
        # fmt: off
        self.launch(self.folder / "bin/husk", "up", "--data", self.data, "--listen", "none",
                    "--agents-plan", self.plan_file, "--drain-timeout", str(self.drain),
                    env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **env})
        # fmt: on

    def hear(self, line: str) -> None:
        super().hear(line)
        if line.startswith("daemon "):
            self.said.append(json.loads(line[7:]))

    def wait_words(self, n: int) -> list[dict[str, Any]]:
        """What the daemon said, as soon as those are so many words."""
        wait_until(lambda: len(self.said) >= n, lambda: f"{n} words of the daemon in {self.lines}")
        return self.said

    def remove(self) -> None:
        if self.is_running():
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def new_up() -> Iterator[Up]:
    folder = Path(tempfile.mkdtemp(prefix="husk-test-"))
    folder.chmod(0o755)
    made = Up(folder)
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def up() -> Iterator[Up]:
    with new_up() as made:
        yield made


def event(worker: int, name: str, **more: int) -> dict[str, Any]:
    return {"event": name, "worker": worker, "agent": 0, "status": 0, "flags": 0} | more
