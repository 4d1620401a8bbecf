# SPDX-License-Identifier: Apache-2.0
"""Workers of served agents that die, hang, lie, flood or do not start: what their clients hear, and
that others go on.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest
from agents_project import Agent, Project, events
from beside import beside
from waiting import PATIENCE, wait_until


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    agents = [
        Agent("echo"),
        # One for each test that ends workers: the pause before the next start doubles each time.
        *(Agent(name) for name in ("dies0", "dies1", "dies2", "dies3", "dies4", "half")),
        *(Agent(name) for name in ("lies0", "lies1", "lies2", "twice")),
        Agent("brief", settings={"request_timeout_ms": 2000, "max_in_flight": 4}),
        Agent("narrow", settings={"max_in_flight": 2, "queue_length": 3}),
        Agent("pair", settings={"replicas": 2, "max_in_flight": 2}),
    ]
    with Project.serve(*agents) as running:
        yield running


def wait_for_another(project: Project, name: str, pid: int) -> None:
    """Another process answers: the one with that pid was replaced."""

    def is_another() -> bool:
        answer = project.post(name, "pid")
        return answer.status == 200 and int(answer.json["response"]) != pid

    wait_until(is_another, f"{name} has a worker other than {pid}")


# ---- death ----


@pytest.mark.parametrize(
    ("name", "query", "says"),
    [
        ("dies0", "die 3", "exited with code 3"),
        ("dies1", "die 0", "exited with code 0"),
        ("dies2", "signal 11", "was ended by signal 11"),
        ("dies3", "signal 9", "was ended by signal 9"),
        ("dies4", "memory", "ran out of memory"),
    ],
)
def test_a_worker_that_dies_fails_its_requests(
    project: Project, name: str, query: str, says: str
) -> None:
    pid = project.pid(name)
    with ThreadPoolExecutor() as pool:
        beside = pool.submit(project.post, name, "sleep 3600")
        project.wait_until(name, "in_flight", lambda n: n == 1)
        answer = project.post(name, query)
        assert answer.status == 502
        assert answer.json == {"detail": f"WorkerDied: the agent's worker {says}"}
        assert beside.result().json == answer.json
    wait_for_another(project, name, pid)
    assert project.ask("echo", "echo fine") == "fine"


def test_a_death_in_a_stream_is_its_last_event(project: Project) -> None:
    pid = project.pid("half")
    answer = project.post("half", "half", stream="text")
    assert answer.status == 200
    first, last = events(answer.text)
    assert first == "half"
    assert json.loads(last) == {
        "type": "error",
        "content": "WorkerDied: the agent's worker exited with code 7",
    }
    wait_for_another(project, "half", pid)


def test_requests_that_wait_survive_a_death(project: Project) -> None:
    pid = project.pid("narrow")
    with ThreadPoolExecutor() as pool:
        busy = [pool.submit(project.post, "narrow", "sleep 3600") for _ in range(2)]
        project.wait_until("narrow", "in_flight", lambda n: n == 2)
        waiting = [pool.submit(project.post, "narrow", f"echo {i}") for i in range(3)]
        project.wait_until("narrow", "queued", lambda n: n == 3)
        os.kill(pid, signal.SIGKILL)
        assert [b.result().status for b in busy] == [502, 502]
        assert [w.result().json["response"] for w in waiting] == ["0", "1", "2"]


def test_the_other_replica_goes_on(project: Project) -> None:
    pids = set()
    with ThreadPoolExecutor() as pool:
        busy = [pool.submit(project.post, "pair", "sleep 3600") for _ in range(2)]
        project.wait_until("pair", "in_flight", lambda n: n == 2)
        pids = {project.pid("pair") for _ in range(8)}
        assert len(pids) >= 1
        victim = pids.pop()
        os.kill(victim, signal.SIGKILL)
        (failed,), (survivor,) = wait(busy, PATIENCE, FIRST_COMPLETED)  # they were spread
        assert failed.result().status == 502
        assert project.ask("pair", "echo on") == "on"
        project.wait_until("pair", "ready", lambda n: n == 2)
        for _ in range(40):
            project.post("pair", "pid")
        assert not survivor.done()
        _end_all(project, "pair")
        assert survivor.result().status == 502


def _end_all(project: Project, name: str) -> None:
    """Kills workers until none has anything to do."""

    def none_left() -> bool:
        if project.state(name)["in_flight"] == 0:
            return True
        with ThreadPoolExecutor() as pool:
            pids = list(pool.map(lambda _: project.post(name, "pid"), range(3)))
        for answer in pids:
            if answer.status == 200:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(answer.json["response"]), signal.SIGKILL)
        return False

    wait_until(none_left, f"no worker of {name} has anything to do")


# ---- lies ----


@pytest.mark.parametrize(
    ("name", "query", "says"),
    [
        ("lies0", "garbage", "bytes that are no frame"),
        ("lies1", "huge", "bytes that are no frame"),
        ("lies2", "stranger", "a frame for a request that it does not have"),
    ],
)
def test_a_worker_that_lies_is_replaced(project: Project, name: str, query: str, says: str) -> None:
    pid = project.pid(name)
    answer = project.post(name, query)
    assert answer.status == 502
    assert says in answer.json["detail"]
    wait_for_another(project, name, pid)
    assert says in project.state(name)["detail"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_second_end_is_a_lie(project: Project) -> None:
    pid = project.pid("twice")
    assert project.ask("twice", "again") == "first"
    wait_for_another(project, "twice", pid)


@pytest.mark.parametrize("payload", ["", "{", "[]", '{"response": 1}', '{"result": 1}', '{"a":1}'])
def test_an_answer_that_is_not_valid_fails_only_its_request(project: Project, payload: str) -> None:
    pid = project.pid("echo")
    answer = project.post("echo", "badjson " + payload)
    assert answer.status == 502
    assert answer.json["detail"].startswith("BadAnswer: ")
    assert project.pid("echo") == pid


def test_a_piece_that_is_not_valid_cancels_its_request(project: Project) -> None:
    pid = project.pid("echo")
    assert project.post("echo", "badtext", stream="text").status == 502
    project.wait_until("echo", "in_flight", lambda n: n == 0)
    assert project.pid("echo") == pid


def test_a_stream_that_nobody_asked_for(project: Project) -> None:
    assert project.post("echo", "stumble x").status == 502
    assert project.ask("echo", "echo still") == "still"


# ---- time ----


def test_a_request_that_takes_too_long_is_504_and_cancelled(project: Project) -> None:
    pid = project.pid("brief")
    answer = project.post("brief", "sleep 3602")
    assert answer.status == 504
    assert answer.json == {"detail": "the agent did not answer within 2000 ms"}
    assert "sleep 3602" in json.loads(project.ask("brief", "cancels"))
    assert project.pid("brief") == pid


def test_a_stream_may_take_longer_as_long_as_it_says_something(project: Project) -> None:
    connection = project.begin("/agents/brief", {"query": "trickle", "stream": "text"})
    answer = connection.getresponse()
    begun = time.monotonic()
    while time.monotonic() - begun < 3:
        assert answer.readline() in (b"data: x\n", b"\n")
    connection.close()


@beside
def test_a_worker_that_does_not_answer_pings_is_replaced() -> None:
    with Project.serve(Agent("mute", settings={"request_timeout_ms": 700})) as project:
        pid = project.pid("mute")
        assert project.post("mute", "block").status == 504
        wait_for_another(project, "mute", pid)
        assert "did not answer a ping" in project.state("mute")["detail"]


@beside
def test_a_worker_that_goes_on_with_what_was_cancelled_is_replaced() -> None:
    with Project.serve(Agent("stuck", settings={"request_timeout_ms": 500})) as project:
        pid = project.pid("stuck")
        assert project.post("stuck", "hang").status == 504
        assert project.pid("stuck") == pid  # it answers other requests meanwhile
        wait_for_another(project, "stuck", pid)
        assert "cancelled" in project.state("stuck")["detail"]


# ---- the queue ----


def test_a_full_queue_is_503_with_a_time_to_come_back(project: Project) -> None:
    project.ask("narrow", "echo warm")
    go = project.folder / "go"
    with ThreadPoolExecutor() as pool:
        held = [pool.submit(project.post, "narrow", f"wait {go}") for _ in range(5)]
        project.wait_until("narrow", "queued", lambda n: n == 3)
        answer = project.post("narrow", "echo")
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert answer.json == {
            "detail": 'all workers of the agent "narrow" are busy and 3 requests wait already'
        }
        go.touch()
        assert [h.result().status for h in held] == [200] * 5
    assert int(project.ask("narrow", "most")) <= 2


def test_who_hangs_up_in_the_queue_leaves_it(project: Project) -> None:
    go = project.folder / "go on"
    held = [project.begin("/agents/narrow", {"query": f"wait {go}"}) for _ in range(2)]
    project.wait_until("narrow", "in_flight", lambda n: n == 2)
    waiting = project.begin("/agents/narrow", {"query": "sleep 3603"})
    project.wait_until("narrow", "queued", lambda n: n == 1)
    waiting.close()
    project.wait_until("narrow", "queued", lambda n: n == 0)
    go.touch()
    for connection in held:
        assert connection.getresponse().status == 200
        connection.close()
    assert "sleep 3603" not in json.loads(project.ask("narrow", "cancels"))


# ---- floods ----


@beside
def test_a_client_that_does_not_read_does_not_hold_others_up_for_good() -> None:
    with Project.serve(Agent("echo")) as project:
        pid = project.pid("echo")
        connection = project.begin("/agents/echo", {"query": "flood", "stream": "text"})
        project.wait_until("echo", "in_flight", lambda n: n == 1)
        assert project.ask("echo", "echo through") == "through"
        project.wait_until("echo", "in_flight", lambda n: n == 0)
        assert project.pid("echo") == pid
        connection.close()


def test_a_flood_to_a_client_that_reads(project: Project) -> None:
    connection = project.begin("/agents/echo", {"query": "flood", "stream": "text"})
    answer = connection.getresponse()
    got = 0
    while got < 100 << 20:
        got += len(answer.read(1 << 20))
    assert project.ask("echo", "echo beside") == "beside"
    connection.close()
    project.wait_until("echo", "in_flight", lambda n: n == 0)


# ---- starts ----


def test_an_agent_that_does_not_import_is_named_and_others_are_served() -> None:
    broken = Agent("broken", start="fail ModuleNotFoundError: No module named 'x'")
    with Project.serve(broken, Agent("echo"), wait=False) as project:
        project.wait_for("echo", "healthy")
        project.wait_for("broken", "unhealthy")
        health = project.server.get("/agents/broken/health")
        assert health.status == 503
        assert health.json == {
            "status": "unhealthy",
            "agent": "broken",
            "detail": "ModuleNotFoundError: No module named 'x'",
        }
        answer = project.post("broken", "echo")
        assert answer.status == 503 and "Retry-After" in answer.headers
        assert "No module named" in answer.json["detail"]
        assert project.ask("echo", "echo served") == "served"
        project.server.wait_said("Traceback: ModuleNotFoundError")


def test_starts_are_repeated_more_and_more_slowly() -> None:
    with Project.serve(Agent("dead", start="die 5"), wait=False) as project:
        project.wait_until("dead", "restarts", lambda n: n >= 4)
        times = [_seconds(line) for line in project.server.wait_said("worker_started", 5)]
        pauses = [b - a for a, b in zip(times, times[1:])]
        assert pauses[0] >= 0.1 and pauses[1] >= 0.2 and pauses[2] >= 0.4 and pauses[3] >= 0.8
        assert project.state("dead")["detail"].endswith("exited with code 5")


def _seconds(line: str) -> float:
    clock = line.split("T")[1].split("Z")[0]
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def test_requests_wait_for_the_first_start() -> None:
    with Project.serve(Agent("late", start="late {folder}/go"), wait=False) as project:
        health = project.server.get("/agents/late/health")
        assert health.status == 503
        assert health.json["status"] == "starting"
        connection = project.begin("/agents/late", {"query": "echo at last"})
        project.wait_until("late", "queued", lambda n: n == 1)
        (project.folder / "go").write_text("")
        answer = connection.getresponse()
        assert json.loads(answer.read())["response"] == "at last"
        connection.close()


@beside
def test_requests_do_not_wait_for_ever_for_the_first_start() -> None:
    with Project.serve(Agent("mute", start="mute"), wait=False) as project:
        answer = project.post("mute", "echo")
        assert answer.status == 503
        assert answer.json == {"detail": 'the agent "mute" has no worker that is ready'}


def test_a_daemon_that_crashes_serves_again() -> None:
    with Project.serve(Agent("echo")) as project:
        pid = project.pid("echo")
        project.server.kill_huskd()
        project.server.wait_ready()
        project.wait_for("echo", "healthy")
        assert project.pid("echo") != pid
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the worker before is gone")


@pytest.mark.parametrize("text", ["", "{}", '{"version":1,"agents":[],"failed":[]}'])
def test_a_plan_that_is_wrong_keeps_the_server_from_starting(text: str) -> None:
    project = Project((Agent("echo"),), [])
    project.plan.write_text(text)
    try:
        with pytest.raises(AssertionError, match="ended with"):
            project.server.start()
        assert "plan.json" in project.server.output
    finally:
        project.server.remove()
