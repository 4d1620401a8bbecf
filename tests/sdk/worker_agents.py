# SPDX-License-Identifier: Apache-2.0
"""Two agents for tests of the worker, one async and one not, that do what the query says; fixtures
that run them.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from worker_peer import Peer

AGENT = """
    import asyncio, os, sys, threading, time
    import husk

    waiting = 0
    stopped = []

    async def agent(query, session_id):
        global waiting
        word, _, rest = query.partition(" ")
        if word == "wait":
            waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(rest)
        if word == "waiting":
            return str(waiting)
        if word == "stopped":
            return ",".join(stopped)
        if word == "raise":
            raise LookupError(rest)
        if word == "mute":
            class Mute(Exception):
                def __str__(self):
                    raise ValueError("no text")
                __repr__ = __str__
            raise Mute
        if word == "cancelled":
            raise asyncio.CancelledError
        if word == "exit":
            sys.exit(int(rest))
        if word == "die":
            os._exit(int(rest))
        if word == "block":
            time.sleep(float(rest))
        if word == "large":
            return "x" * int(rest)
        if word == "surrogate":
            return "a\\ud800b"
        return f"{query}@{session_id}"

    husk.serve(agent, name="agent")
"""

PLAIN = """
    import sys, threading, time
    import husk

    gate = threading.Barrier(4, timeout=30)
    spins = 0

    def agent(query):
        global spins
        if query == "meet":
            gate.wait()
            return "met"
        if query == "spin":
            while True:
                spins += 1
        if query == "spins":
            before = spins
            time.sleep(0.2)
            return "stopped" if spins == before else "spinning"
        if query == "sleep":
            time.sleep(3600)
        if query == "exit":
            sys.exit(3)
        return query

    husk.serve(agent, name="agent")
"""


def write(folder: Path, text: str, name: str = "agent.py") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return file


@pytest.fixture
def agent(tmp_path: Path) -> Any:
    with Peer(write(tmp_path, AGENT), "agent") as peer:
        peer.ready()
        yield peer


@pytest.fixture
def plain(tmp_path: Path) -> Any:
    with Peer(write(tmp_path, PLAIN), "agent") as peer:
        peer.ready()
        yield peer
