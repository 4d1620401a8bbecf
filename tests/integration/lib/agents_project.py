# SPDX-License-Identifier: Apache-2.0
"""A project of agents for tests: a plan whose agents are run by the test's own worker
(agent_worker/), and a server of it.

    with Project.serve(Agent("echo")) as project:
        assert project.ask("echo", "echo hi") == "hi"
"""
from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from husk_server import Answer, Server
from waiting import wait_until

SDK = Path(__file__).resolve().parent / "agent_worker"


@dataclass
class Agent:
    """A row of the plan; `start` is what the worker reads in the agent's file, {folder} in it is
    the project's.
    """

    name: str
    start: str = "ready"
    kind: str = "agent"
    prefix: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    def row(self, folder: Path) -> dict[str, Any]:
        file = folder / f"{self.name}.py"
        file.write_text(self.start.replace("{folder}", str(folder)))
        default = f"/{self.name}" if self.kind == "mcp" else f"/agents/{self.name}"
        row: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "framework": "callable",
            "file": str(file),
            "main": False,
            "route_prefix": self.prefix or default,
            "num_cpus": 1.0,
            "num_gpus": 0.0,
            "memory_bytes": 128 << 20,
            "replicas": 1,
            "streams": ["text", "events"],
            "chat": True,
            "max_in_flight": 16,
            "queue_length": 16,
            "request_timeout_ms": 60000,
            "retries": 0,
        }
        return row | self.settings


class Project:
    def __init__(self, agents: tuple[Agent, ...], failed: list[dict[str, str]]) -> None:
        self.server = Server()
        self.folder = self.server.folder / "project"
        self.folder.mkdir()
        self.plan = self.server.folder / "plan.json"
        rows = [agent.row(self.folder) for agent in agents]
        plan = {
            "version": 1,
            "python": "/usr/bin/python3",
            "folder": str(self.folder),
            "sdk": str(SDK),
            "agents": rows,
            "failed": failed,
        }
        self.plan.write_text(json.dumps(plan))
        self.plan.chmod(0o644)
        self.server.flags = ("--agents-plan", str(self.plan))

    @classmethod
    @contextmanager
    def serve(
        cls, *agents: Agent, failed: list[dict[str, str]] | None = None, wait: bool = True
    ) -> Iterator[Project]:
        project = cls(agents, failed or [])
        try:
            project.server.start()
            for agent in agents if wait else ():
                project.wait_for(agent.name, "healthy")
            yield project
        finally:
            project.server.remove()

    # ---- questions ----

    def post(self, name: str, query: str, **more: Any) -> Answer:
        return self.server.post(f"/agents/{name}", {"query": query, **more})

    def ask(self, name: str, query: str) -> str:
        answer = self.post(name, query)
        assert answer.status == 200, answer.text
        text: str = answer.json["response"]
        return text

    def begin(self, path: str, body: Any) -> http.client.HTTPConnection:
        """Sends a request and does not wait for its answer."""
        connection = self.server.connection()
        data = json.dumps(body).encode()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        return connection

    def state(self, name: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = self.server.get("/agents").json["agents"]
        return next(row for row in rows if row["name"] == name)

    def wait_for(self, name: str, status: str) -> dict[str, Any]:
        return self.wait_until(name, "status", lambda value: value == status)

    def wait_until(self, name: str, key: str, holds: Any) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            state = self.state(name)
            return state if holds(state[key]) else None

        return wait_until(look, lambda: f"{key} of {self.state(name)}\n{self.server.output}")

    def pid(self, name: str) -> int:
        return int(self.ask(name, "pid"))

    def kill(self, name: str) -> int:
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        return pid


def events(text: str) -> list[str]:
    """The data of each server-sent event."""
    found = []
    for block in text.split("\n\n"):
        lines = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if lines:
            found.append("\n".join(lines))
    return found
