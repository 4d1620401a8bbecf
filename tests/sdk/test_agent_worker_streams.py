# SPDX-License-Identifier: Apache-2.0
"""The worker process: streams of text and events, and /chat."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from worker_agents import agent, write  # noqa: F401
from worker_peer import CANCEL, DONE, ERROR, EVENT, PING, PONG, TEXT, Peer

# ---- streams ----

STREAMS = """
    import asyncio
    import husk

    async def agent(query):
        if query == "flood":
            n = 0
            while True:
                n += 1
                yield "x" * 1000
        if query == "raise":
            yield "before"
            raise ValueError("in the middle")
        if query == "slow":
            yield "first"
            await asyncio.Event().wait()
        if query == "odd":
            yield {"type": "odd", "nan": float("nan"), "big": 10**400, 3: {1}, "o": object}
        if query == "deep":
            deep = []
            for _ in range(100):
                deep = [deep]
            yield {"type": "deep", "value": deep}
        if query == "long":
            yield "y" * 1_000_000
        for word in query.split():
            yield word

    husk.serve(agent, name="agent")
"""


@pytest.fixture
def streams(tmp_path: Path) -> Any:
    with Peer(write(tmp_path, STREAMS), "agent") as peer:
        peer.ready()
        yield peer


def test_text_and_events(streams: Peer) -> None:
    got = list(streams.until_last(streams.call("a b", stream="text")))
    assert got == [(TEXT, {"content": "a"}), (TEXT, {"content": "b"}), (DONE, {"response": ""})]
    got = list(streams.until_last(streams.call("a", stream="events")))
    assert got == [(EVENT, {"type": "text", "content": "a"}), (DONE, {"response": ""})]
    assert streams.ask("a b") == "ab"


def test_first_piece_comes_before_the_end(streams: Peer) -> None:
    request = streams.call("slow", stream="text")
    assert streams.next() == (TEXT, request, {"content": "first"})  # the agent waits for ever now
    streams.send(CANCEL, request)
    assert next(streams.until_last(request))[1]["type"] == "Cancelled"


def test_failure_in_the_middle(streams: Peer) -> None:
    got = list(streams.until_last(streams.call("raise", stream="text")))
    assert got[0] == (TEXT, {"content": "before"})
    assert got[1][0] == ERROR and got[1][1]["message"] == "in the middle"


def test_flood_is_held_back_and_others_are_served(streams: Peer) -> None:
    flood = streams.call("flood", stream="text")
    assert streams.next()[0] == TEXT
    streams.send(PING, 0)
    assert PONG in (streams.next()[0] for _ in range(100_000))
    streams.send(CANCEL, flood)
    while streams.next()[0] != ERROR:
        pass
    # huskd does not read: the worker must wait, not grow
    flood = streams.call("flood", stream="text")
    streams.next()
    before = _memory(streams.process.pid)
    time.sleep(1.0)  # time is the subject: enough for hundreds of megabytes
    assert _memory(streams.process.pid) - before < 64 << 20


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_long_texts_are_cut_and_odd_values_made_to_fit(streams: Peer) -> None:
    got = list(streams.until_last(streams.call("long", stream="text")))
    assert "".join(v["content"] for k, v in got if k == TEXT) == "y" * 1_000_000 + "long"
    kind, value = next(streams.until_last(streams.call("odd", stream="events")))
    assert kind == EVENT
    assert value["nan"] is None and value["3"] == [1] and value["big"].startswith("1000")
    assert value["o"] == str(object)
    list(streams.until_last(2))


def test_too_deep_is_an_error(streams: Peer) -> None:
    got = list(streams.until_last(streams.call("deep", stream="events")))
    assert got[-1][0] == ERROR and "nested deeper" in got[-1][1]["message"]


def test_missing_stream_modes_are_400(agent: Peer) -> None:
    for mode in ("text", "events"):
        kind, value = next(agent.until_last(agent.call("x", stream=mode)))
        assert kind == ERROR and value["status"] == 400 and mode in value["message"]
    kind, value = next(agent.until_last(agent.call("x", stream="video")))
    assert kind == ERROR and value["status"] == 422


# ---- chat ----


def test_chat(tmp_path: Path) -> None:
    text = """
        import husk
        class Doubling:
            def run(self, data):
                return {"twice": data["n"] * 2, "kept": data}
            def stream_text(self, data):
                yield from data["words"]
        husk.serve(Doubling(), name="twice")
    """
    with Peer(write(tmp_path, text), "twice") as peer:
        assert peer.ready()["streams"] == ["text"]
        got = list(peer.until_last(peer.chat({"n": 4})))
        assert got == [(DONE, {"result": {"twice": 8, "kept": {"n": 4}}})]
        got = list(peer.until_last(peer.chat({"words": ["a", "b"]}, stream="text")))
        assert [v["content"] for k, v in got if k == TEXT] == ["a", "b"]
        assert next(peer.until_last(peer.chat({}, stream="events")))[1]["status"] == 400
        kind, value = next(peer.until_last(peer.chat({})))
        assert (kind, value["type"], value["status"]) == (ERROR, "KeyError", 500)
        kind, value = next(peer.until_last(peer.call("text")))
        assert (kind, value["status"]) == (ERROR, 501)


def test_no_chat_is_501(agent: Peer) -> None:
    kind, value = next(agent.until_last(agent.chat({})))
    assert (kind, value["status"]) == (ERROR, 501)
