# SPDX-License-Identifier: Apache-2.0
"""A project of agents as a user has it: made and served by the built programs, with the SDK that
came with them.

with Project.made("rayai") as project:
    project.run("create-agent", "hello")
    with project.up() as served:
        assert served.ask("hello", "Hi")["response"]
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from husk_server import free_port
from places import BIN
from process import Heard
from waiting import PATIENCE, wait_until

UP = {"husk": ["agents", "up"], "rayai": ["up"]}


def environment(**more: str) -> dict[str, str]:
    """What a shell has in which husk is installed; nothing names the SDK or a server."""
    ours = ("HUSK_", "SANDBOX_", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


class Project:
    """A folder for agents, gone after the block, and the program that makes and serves them."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.parent = Path(tempfile.mkdtemp(prefix="husk-project-"))
        self.parent.chmod(0o755)  # huskd is another user than root
        self.folder = self.parent / "demo"
        self.env: dict[str, str] = {}  # for the commands of run()

    @classmethod
    @contextmanager
    def made(cls, program: str) -> Iterator[Project]:
        """One that `init` filled."""
        with cls(program) as project:
            project.run("init", "demo", cwd=project.parent)
            yield project

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *unused: object) -> None:
        shutil.rmtree(self.parent, ignore_errors=True)

    def run(self, *args: str, cwd: Path | None = None, code: int = 0) -> str:
        """One command; what it said on both streams."""
        done = subprocess.run(
            [BIN / self.program, *args],
            cwd=cwd or self.folder,
            env=environment(**self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def write(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    @contextmanager
    def up(
        self, *flags: str, python: str = sys.executable, port: int = 0, **env: str
    ) -> Iterator[Served]:
        """Serves the project until the block ends."""
        port = port or free_port()
        command = [str(BIN / self.program), *UP[self.program], "--port", str(port), *flags]
        served = Served([*command, "--python", python], self.folder, port, env)
        try:
            served.wait_ready()
            yield served
        finally:
            served.end()


class Served(Heard):
    """A running `husk agents up`, or a script that serves itself."""

    def __init__(self, command: list[str], folder: Path, port: int, env: dict[str, str]) -> None:
        super().__init__()
        self.port = port
        self.launch(*command, env=environment(**env), cwd=folder)

    def wait_ready(self) -> None:
        """Until every agent is."""
        wait_until(self._is_ready, lambda: f"all agents are ready:\n{self.output}", 2 * PATIENCE)

    def _is_ready(self) -> bool:
        assert self.is_running(), self.output
        try:
            if self.request("GET", "/agents")[0] == 404:
                return False  # Ray Serve listens before it has the routes
            agents = self.agents()
        except (OSError, http.client.HTTPException):
            return False
        return bool(agents) and all(a["ready"] == a["replicas"] for a in agents.values())

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=PATIENCE)
        try:
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request(
                method, path, None if body is None else json.dumps(body).encode(), sent
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def agents(self) -> dict[str, dict[str, Any]]:
        status, text = self.request("GET", "/agents")
        assert status == 200, text
        return {a["name"]: a for a in json.loads(text)["agents"]}

    def ask(self, name: str, query: str, **more: Any) -> dict[str, Any]:
        status, text = self.request("POST", f"/agents/{name}/", {"query": query, **more})
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def stream(self, name: str, query: str, kind: str) -> list[str]:
        """The data of each event, in order."""
        body = {"query": query, "stream": kind}
        status, text = self.request("POST", f"/agents/{name}/", body)
        assert status == 200, text
        events = [block for block in text.split("\n\n") if block]
        assert all(line.startswith("data: ") for event in events for line in event.split("\n"))
        return ["\n".join(line[6:] for line in event.split("\n")) for event in events]

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """As Ctrl-C does; the exit code."""
        code = self.stop(how)
        self.listener.join(PATIENCE)
        return code
