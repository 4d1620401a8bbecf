# SPDX-License-Identifier: Apache-2.0
"""The worker process, spoken to as huskd does: answers, failures, cancellation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worker_agents import agent, plain, write  # noqa: F401
from worker_peer import CALL, CANCEL, DONE, ERROR, HEAD, PATIENCE, PING, PONG, Peer

# ---- answers ----


def test_answers_and_passes_the_session(agent: Peer) -> None:
    assert agent.ask("hello", session="s") == "hello@s"
    assert agent.ask("Grüße 🌍\0") == "Grüße 🌍\0@default"


def test_ready_names_pid_and_streams(tmp_path: Path) -> None:
    text = "import husk\nasync def a(query):\n    yield query\nhusk.serve(a, name='a')\n"
    with Peer(write(tmp_path, text), "a") as peer:
        assert peer.ready() == {"pid": peer.process.pid, "streams": ["text", "events"]}


def test_many_requests_at_once_and_frames_in_pieces(agent: Peer) -> None:
    payload = json.dumps({"query": "q", "session_id": "s", "stream": False}).encode()
    data = b"".join(HEAD.pack(len(payload), CALL, n) + payload for n in range(1, 201))
    for at in range(0, len(data), 7):  # no frame comes whole
        agent.sock.sendall(data[at : at + 7])
    got = [agent.next() for _ in range(200)]
    assert sorted(request for _, request, _ in got) == list(range(1, 201))
    assert all(kind == DONE and value == {"response": "q@s"} for kind, _, value in got)


def test_large_request(agent: Peer) -> None:
    query = "y" * (8 << 20)
    assert agent.ask(query, session="s") == query + "@s"


def test_answers_that_do_not_fit_are_errors(agent: Peer) -> None:
    kind, value = next(agent.until_last(agent.call(f"large {17 << 20}")))
    assert kind == ERROR and value["status"] == 500 and "too large" in value["message"]
    assert agent.ask("surrogate") == "a?b"
    assert agent.ask("next", session="s") == "next@s"


def test_requests_run_at_the_same_time(agent: Peer) -> None:
    waits = [agent.call(f"wait {n}") for n in range(10)]
    while agent.ask("waiting") != "10":
        pass
    for request in waits:
        agent.send(CANCEL, request)
    assert sorted(agent.next()[1] for _ in waits) == waits


def test_plain_functions_run_at_the_same_time(plain: Peer) -> None:
    requests = [plain.call("meet") for _ in range(4)]  # passes only when all four run together
    got = [plain.next() for _ in requests]
    assert sorted(request for _, request, _ in got) == requests
    assert all(value == {"response": "met"} for _, _, value in got)


# ---- failures ----


def test_raising(agent: Peer) -> None:
    kind, value = next(agent.until_last(agent.call("raise nothing there")))
    assert kind == ERROR
    assert value == {"type": "LookupError", "message": "nothing there", "status": 500}
    assert "LookupError: nothing there" in agent.said()  # for the log, with its traceback
    assert agent.ask("next", session="s") == "next@s"


def test_raising_what_has_no_text(agent: Peer) -> None:
    kind, value = next(agent.until_last(agent.call("mute")))
    assert kind == ERROR
    assert value == {"type": "Mute", "message": "(its __str__ failed)", "status": 500}
    assert agent.ask("next", session="s") == "next@s"


def test_cancelling_oneself_is_an_error(agent: Peer) -> None:
    kind, value = next(agent.until_last(agent.call("cancelled")))
    assert kind == ERROR and value["type"] == "Cancelled"


@pytest.mark.parametrize("which", ["agent", "plain"])
def test_sys_exit_ends_the_request_only(which: str, request: pytest.FixtureRequest) -> None:
    peer: Peer = request.getfixturevalue(which)
    kind, value = next(peer.until_last(peer.call("exit 3" if which == "agent" else "exit")))
    assert kind == ERROR and value["type"] == "SystemExit" and value["status"] == 500
    assert peer.ask("next").startswith("next")


def test_hard_exit_ends_the_worker(agent: Peer) -> None:
    agent.call("die 7")
    with pytest.raises(EOFError):
        agent.next()
    assert agent.process.wait(PATIENCE) == 7


def test_a_blocked_loop_does_not_answer_pings_until_it_is_free(agent: Peer) -> None:
    request = agent.call("block 0.5")
    agent.send(PING, 0)
    assert {agent.next()[:2] for _ in range(2)} == {(DONE, request), (PONG, 0)}


# ---- cancel ----


def test_cancel_stops_an_async_agent(agent: Peer) -> None:
    request = agent.call("wait one")
    while agent.ask("waiting", request=100) != "1":
        pass
    agent.send(CANCEL, request)
    kind, value = next(agent.until_last(request))
    assert (kind, value["type"]) == (ERROR, "Cancelled")
    assert agent.ask("stopped", request=101) == "one"
    agent.send(CANCEL, request)  # is over: nothing happens
    agent.send(CANCEL, 4711)
    assert agent.ask("next", session="s", request=102) == "next@s"


def test_cancel_stops_a_plain_loop(plain: Peer) -> None:
    request = plain.call("spin")
    assert plain.ask("next", request=50) == "next"
    plain.send(CANCEL, request)
    kind, value = next(plain.until_last(request))
    assert (kind, value["type"]) == (ERROR, "Cancelled")
    while plain.ask("spins", request=51) != "stopped":
        pass


def test_cancel_in_the_same_breath(agent: Peer) -> None:
    payload = json.dumps({"query": "wait x", "session_id": "s", "stream": False}).encode()
    agent.sock.sendall(HEAD.pack(len(payload), CALL, 7) + payload + HEAD.pack(0, CANCEL, 7))
    assert next(agent.until_last(7))[1]["type"] == "Cancelled"
    assert agent.ask("next", session="s", request=8) == "next@s"


def test_cancelled_calls_that_sleep_give_up_their_places(plain: Peer) -> None:
    requests = [plain.call("sleep", request=n) for n in range(1, 41)]
    for request in requests:
        plain.send(CANCEL, request)
        assert next(plain.until_last(request))[1]["type"] == "Cancelled"
    assert plain.ask("next", request=100) == "next"


def test_too_many_stuck_calls_end_the_worker(plain: Peer) -> None:
    with pytest.raises((EOFError, ConnectionError)):
        for request in range(1, 200):
            plain.call("sleep", request=request)
            plain.ask("next", request=1000 + request)  # the call before has begun
            plain.send(CANCEL, request)
            assert next(plain.until_last(request))[1]["type"] == "Cancelled"
    assert plain.process.wait(PATIENCE) == 70
    assert "cancelled calls do not stop" in plain.said()


def test_the_begin_of_a_request_is_told_before_it_happens(agent: Peer) -> None:
    """And finished answers leave first: a worker that dies loses only what had begun."""
    calls = [agent.call("block 0.2"), *(agent.call(f"say {i}") for i in range(3))]
    calls += [agent.call("die 3"), agent.call("say late")]
    answered = []
    with pytest.raises(EOFError):
        while True:
            kind, request, _ = agent.next()
            assert kind == DONE
            answered.append(request)
    assert answered == calls[:4]
    assert agent.begun == calls[:5]
