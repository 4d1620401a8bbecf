# SPDX-License-Identifier: Apache-2.0
"""A hostile worker of a served agent at its socket to huskd. Its own requests fail with an error that
says why, it is replaced when its frames cannot be told apart any more, and workers of other agents
are served all the while.
"""
from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agents_project import Agent, Project
from husk_server import Answer
from waiting import wait_until

SDK = Path(__file__).resolve().parent / "hostile_agent"
CALL, PING = 1, 7
READY, FAILED, TEXT, EVENT, DONE, ERROR, HTTP_HEAD, HTTP_BODY, HTTP_END, PONG = range(64, 74)
PAYLOAD_MAX = 16 << 20  # AGENT_PAYLOAD_MAX of src/agents/agent_frame.h
TIMEOUT_MS = 700
QUICK = 5.0  # seconds: what a neighbour may take on a busy machine
HELD_MOST = 32 << 20  # an answer of 4 MiB that no client takes, and slack
Say = list[Any]


def frame(kind: int, payload: Any = b"", offset: int | None = 0, length: int | None = None) -> Say:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    row: Say = [kind, offset, data.hex()]
    return row if length is None else [*row, length]


NO_FRAME = "bytes that are no frame"
NOT_ITS = "a frame for a request that it does not have"
WRONG_TIME = "at the wrong time"
ANSWER = {"response": "x"}

# What it says, and why it is killed then.
KILLED: dict[str, tuple[Say, str]] = {
    "the_next_id": ([frame(DONE, ANSWER, 1)], NOT_ITS),
    "an_id_of_a_later_use": ([frame(DONE, ANSWER, 1 << 16)], NOT_ITS),
    "the_largest_id": ([frame(DONE, ANSWER, 0x7FFFFFFF)], NOT_ITS),
    "an_answer_without_an_id": ([frame(DONE, ANSWER, None)], NO_FRAME),
    "ready_with_an_id": ([frame(READY, {"pid": 1, "streams": []}, 0)], NO_FRAME),
    "ready_again": ([frame(READY, {"pid": 1, "streams": []}, None)], WRONG_TIME),
    "a_late_failure": ([frame(FAILED, {"error": "", "traceback": ""}, None)], WRONG_TIME),
    "ready_that_is_no_object": ([frame(READY, b"[]", None)], "wrong content"),
    "one_byte_too_many": ([frame(DONE, b"", 0, PAYLOAD_MAX + 1)], NO_FRAME),
    "four_gigabytes": ([frame(DONE, b"", 0, 0xFFFFFFFF)], NO_FRAME),
    "a_pong_with_content": ([frame(PONG, b"x", None)], NO_FRAME),
    "a_type_that_there_is_not": ([frame(74, b"{}")], NO_FRAME),
    "a_frame_of_huskd": ([frame(CALL, {"query": "x"})], NO_FRAME),
    # WORKER_START of src/wire/supervisor_msg.h, for agent 0: the socket leads to huskd alone
    "an_order_for_the_supervisor": ([struct.pack("=IIIiI", 1, 0, 77, 0, 0).hex()], NO_FRAME),
}

# Whole frames with bad content: only the request that they belong to fails.
BAD_ANSWERS: dict[str, bytes] = {
    "no_utf8": b'{"response": "\xff\xfe"}',
    "half_a_surrogate": b'{"response": "\\ud800"}',
    "a_nul": b'{"response": "x"}\0',
    "a_name_twice": b'{"response": "a", "response": "b"}',
    "more_than_an_answer": b'{"response": "a", "detail": "b"}',
    "no_object": b"[]",
    "nothing": b"",
    "half_of_it": b'{"response": "x',
    "text_behind_it": b'{"response": "x"} {}',
    "a_hundred_levels": b'{"result": ' + b"[" * 100 + b"]" * 100 + b"}",
    "a_number": b'{"response": 1}',
}


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    # One agent for each worker that is killed: the pause before the next start doubles each time.
    killed = [Agent(f"killed{i}") for i in range(len(KILLED))]
    more = [Agent(name) for name in ("bad", "twice", "dies", "flood")]
    brief = Agent("brief", settings={"request_timeout_ms": TIMEOUT_MS, "max_in_flight": 4})
    made = Project((*killed, *more, brief, Agent("honest")), [])
    plan = json.loads(made.plan.read_text())
    made.plan.write_text(json.dumps({**plan, "sdk": str(SDK)}))
    try:
        made.server.start()
        for row in plan["agents"]:
            made.wait_for(row["name"], "healthy")
        yield made
    finally:
        made.server.remove()


@contextmanager
def neighbour(project: Project) -> Iterator[None]:
    """Another agent's client asks all the while, and is answered soon."""
    stop, slowest, wrong = threading.Event(), [0.0], []

    def ask() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            answer = project.post("honest", "hi")
            slowest[0] = max(slowest[0], time.monotonic() - begun)
            if answer.status != 200 or answer.json["response"] != "hi":
                wrong.append(answer.text)
            stop.wait(0.01)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        stop.set()
        asking.join()
    assert not wrong, wrong
    assert slowest[0] < QUICK


def told(project: Project, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(project.ask(name, '{"tell": 1}'))
    return facts


def order(project: Project, name: str, say: Say, then: str = "go on", **more: Any) -> Answer:
    return project.post(name, json.dumps({"say": say, "then": then}), **more)


def check_replaced(project: Project, name: str, pid: int) -> None:
    """The worker is gone, and another one serves."""
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), f"worker {pid} is gone")
    project.wait_for(name, "healthy")
    assert told(project, name)["pid"] != pid


# ---- frames ----


@pytest.mark.parametrize("what", KILLED)
def test_a_worker_that_sends(project: Project, what: str) -> None:
    name = f"killed{list(KILLED).index(what)}"
    say, why = KILLED[what]
    pid = told(project, name)["pid"]
    with neighbour(project):
        answer = order(project, name, say)
        assert answer.status == 502, answer.text
        assert why in answer.json["detail"]
        check_replaced(project, name, pid)


@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_an_answer_that_has(project: Project, what: str) -> None:
    pid = told(project, "bad")["pid"]
    with neighbour(project):
        answer = order(project, "bad", [frame(DONE, BAD_ANSWERS[what])])
    assert answer.status == 502
    assert answer.json["detail"].startswith("BadAnswer: "), answer.text
    assert told(project, "bad")["pid"] == pid


def test_an_answer_that_comes_twice(project: Project) -> None:
    """The client has the first one. The second must not become the answer of another request."""
    pid = told(project, "twice")["pid"]
    with neighbour(project):
        answer = order(project, "twice", [frame(DONE, {"response": "1"}), frame(DONE, ANSWER)])
        assert (answer.status, answer.json["response"]) == (200, "1")
        check_replaced(project, "twice", pid)


def test_an_error_that_says_all_is_well(project: Project) -> None:
    lie = {"type": "X", "message": "x", "status": 200}
    answer = order(project, "bad", [frame(ERROR, lie)])
    assert answer.status == 502 and answer.json["detail"].startswith("BadAnswer: "), answer.text


# ---- time and amount ----


@pytest.mark.parametrize("say", [[], [frame(DONE, b"{", 0, 1 << 20)]], ids=["no", "half_an"])
def test_it_gives_answer(project: Project, say: Say) -> None:
    """A frame that is begun and not finished is no answer either."""
    with neighbour(project):
        answer = order(project, "brief", say, "hang")
    assert answer.status == 504, answer.text
    project.wait_for("brief", "healthy")


def test_it_dies_in_the_middle_of_a_frame(project: Project) -> None:
    pid = told(project, "dies")["pid"]
    with neighbour(project):
        answer = order(project, "dies", [frame(DONE, b'{"res', 0, 1000)], "die")
        assert answer.status == 502
        assert answer.json["detail"] == "WorkerDied: the agent's worker exited with code 3"
        check_replaced(project, "dies", pid)


def test_it_never_ends_a_stream(project: Project) -> None:
    """Its client reads nothing and hangs up; the worker goes on. huskd holds a bounded part of it."""
    before = rss(project)
    query = json.dumps({"say": [frame(TEXT, {"content": "x" * 65536})], "then": "repeat"})
    with neighbour(project):
        client = project.begin("/agents/flood", {"query": query, "stream": "text"})
        project.wait_until("flood", "in_flight", lambda n: n == 1)
        time.sleep(1)  # for the flood to pile up
        assert rss(project) - before < HELD_MOST
        client.close()
        time.sleep(1)
        assert rss(project) - before < HELD_MOST


def rss(project: Project) -> int:
    status = Path(f"/proc/{project.server.pid_of_huskd()}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


# ---- descriptors and other workers ----


def test_it_sends_descriptors(project: Project) -> None:
    """huskd takes none of them: they would use up its own."""
    folder = Path(f"/proc/{project.server.pid_of_huskd()}/fd")
    before = len(list(folder.iterdir()))
    for _ in range(20):
        answer = order(project, "bad", [["descriptor"]], "answer")
        assert answer.status == 200, answer.text
    assert len(list(folder.iterdir())) <= before + 4  # connections of other tests come and go


def test_it_has_no_way_to_another_worker(project: Project) -> None:
    """Its one socket is an end of a pair: there is nothing to connect to a second time."""
    fds = told(project, "honest")["fds"]
    sockets = [fd for fd, what in fds.items() if what == "socket"]
    assert sockets == ["3"], fds
    pid = told(project, "honest")["pid"]
    listening = Path(f"/proc/{pid}/net/unix").read_text()
    assert "worker" not in listening and "agent" not in listening


def test_it_is_not_started_more_often_than_the_plan_says(project: Project) -> None:
    """However often it dies at once, pauses grow and there is one process at a time."""
    assert workers_of("honest", project) == [told(project, "honest")["pid"]]
    begun = project.state("dies")["restarts"]
    deadline = time.monotonic() + 3
    most = 0
    while time.monotonic() < deadline:
        with neighbour(project):
            order(project, "dies", [], "die")
        most = max(most, len(workers_of("dies", project)))
    assert most <= 1
    assert project.state("dies")["restarts"] - begun <= 6  # 0.1 s, 0.2 s, 0.4 s, ...


def workers_of(name: str, project: Project) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue  # it has ended
        # The one that keeps its limits has the same words behind its own name.
        if (
            words[1:3] == [b"-m", b"husk.agents.worker"]
            and str(project.folder / f"{name}.py").encode() in words
        ):
            found.append(int(folder.name))
    return found
