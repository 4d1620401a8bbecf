# SPDX-License-Identifier: Apache-2.0
"""Requests that end their worker, and what becomes of those beside them; sessions and replicas."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from served_project import Project, Served
from waiting import PATIENCE, wait_until

AGENT = """
import asyncio, os, time
from pathlib import Path
import husk

folder = Path(__file__).parent

async def agent(query, session_id):
    word, _, rest = query.partition(" ")
    with (folder / f"{rest or word}.runs").open("a") as out:
        out.write("x")
    if word == "die":
        os._exit(3)
    if word == "block":  # the whole event loop: what comes meanwhile is not begun
        while not (folder / "go").exists():
            time.sleep(0.01)
    if word == "slow":
        while not (folder / "go").exists():
            await asyncio.sleep(0.01)
    return str(os.getpid()) if word == "pid" else query

husk.serve(agent, name="{name}", memory="256MB", **{settings})
"""

Answer = tuple[int, str, str | None]


@pytest.fixture
def project() -> Iterator[Project]:
    with Project.made("husk") as made:
        yield made


def add(project: Project, name: str, **settings: int) -> Path:
    text = AGENT.replace("{name}", name).replace("{settings}", repr(settings))
    project.write(f"agents/{name}/agent.py", text)
    return project.folder / "agents" / name


def ask(served: Served, name: str, query: str, session: str = "default") -> Answer:
    """Status, response or detail, Retry-After."""
    connection = http.client.HTTPConnection("localhost", served.port, timeout=2 * PATIENCE)
    body = json.dumps({"query": query, "session_id": session})
    try:
        connection.request("POST", f"/agents/{name}/", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = json.loads(answer.read())
        said = text.get("response") or str(text.get("detail"))
        return answer.status, said, answer.headers["Retry-After"]
    finally:
        connection.close()


class Crowd:
    """Sends requests one after another, without waiting for the answers."""

    def __init__(self, served: Served, name: str) -> None:
        self.served, self.name = served, name
        self.pool = ThreadPoolExecutor(32)
        self.answers: dict[str, Future[Answer]] = {}

    def send(self, query: str) -> None:
        before = self.state()["in_flight"]
        self.answers[query] = self.pool.submit(ask, self.served, self.name, query)
        wait_until(lambda: self.state()["in_flight"] > before, f"{query} is given to the worker")

    def state(self) -> dict[str, int]:
        return self.served.agents()[self.name]

    def results(self) -> dict[str, Answer]:
        return {query: answer.result(2 * PATIENCE) for query, answer in self.answers.items()}


def test_one_request_that_ends_its_worker_fails_alone(project: Project) -> None:
    """Twenty others beside it: those before it are answered, those after it move."""
    folder = add(project, "crowd")
    with project.up() as served:
        crowd = Crowd(served, "crowd")
        crowd.send("block")
        for i in range(10):
            crowd.send(f"echo {i}")
        crowd.send("die")
        for i in range(10, 20):
            crowd.send(f"echo {i}")
        (folder / "go").touch()
        results = crowd.results()
    status, said, again = results.pop("die")
    assert (status, said) == (502, "WorkerDied: the agent's worker exited with code 3")
    assert again is not None and int(again) >= 1
    assert {query: a[:2] for query, a in results.items()} == {q: (200, q) for q in results}
    runs = {p.stem: p.read_text() for p in folder.glob("*.runs")}
    assert len(runs) == 22 and set(runs.values()) == {"x"}, "each ran once"


@pytest.mark.parametrize("retries", [0, 1])
def test_requests_that_had_begun(project: Project, retries: int) -> None:
    """They may have had effects: they fail, unless the agent says that it may be repeated."""
    folder = add(project, "begun", retries=retries)
    with project.up() as served:
        crowd = Crowd(served, "begun")
        for i in range(3):
            crowd.send(f"slow {i}")
        wait_until(lambda: len(list(folder.glob("*.runs"))) == 3, "all have begun")
        crowd.answers["die"] = crowd.pool.submit(ask, served, "begun", "die")
        wait_until((folder / "die.runs").exists, "the worker ends")
        (folder / "go").touch()
        results = crowd.results()
    assert results.pop("die")[0] == 502
    assert len((folder / "die.runs").read_text()) == 1 + retries
    for query, (status, said, again) in results.items():
        assert (status, said) == (200, query) if retries else (status, again) == (502, "1")
        assert len((folder / f"{query[5:]}.runs").read_text()) == 1 + retries


def test_a_session_stays_with_its_replica(project: Project) -> None:
    add(project, "three", replicas=3)
    with project.up() as served, ThreadPoolExecutor(8) as pool:
        sessions = [f"session-{i % 12}" for i in range(60)]
        pids = list(pool.map(lambda s: ask(served, "three", "pid", s)[1], sessions))
        homes: dict[str, set[str]] = {}
        for session, pid in zip(sessions, pids):
            homes.setdefault(session, set()).add(pid)
        assert all(len(found) == 1 for found in homes.values()), homes
        assert len(set(pids)) == 3, "and sessions are spread"


def test_no_worker_is_said_with_the_time_to_try_again(project: Project) -> None:
    add(project, "gone")
    with project.up() as served:
        text = (project.folder / "agents/gone/agent.py").read_text()
        project.write("agents/gone/agent.py", "raise RuntimeError('changed')\n" + text)
        assert ask(served, "gone", "die")[0] == 502
        wait_until(lambda: served.agents()["gone"]["status"] == "unhealthy", "it cannot start")
        status, said, again = ask(served, "gone", "pid")
        assert status == 503 and "changed" in said and again is not None, said
