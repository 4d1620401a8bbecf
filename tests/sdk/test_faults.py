# SPDX-License-Identifier: Apache-2.0
"""Failures of the server are exceptions of their own, not results of the code; what had not begun
is requested again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from audit import wait_tree
from conftest import SdkServer
from waiting import wait_until

from husk import Client, Sandbox, errors
from husk.client import drive
from husk.results.result import Result

LOOP = "print('on', flush=True)\nwhile True: pass"


@pytest.fixture
def small() -> Iterator[SdkServer]:
    """One place, and those in line wait for a moment."""
    running = SdkServer("--max-executions", "1", "--queue-timeout", "300ms")
    try:
        running.start()
        yield running
    finally:
        running.remove()


class Busy:
    """Holds the only place of a server."""

    def __init__(self, server: SdkServer) -> None:
        self.client = Client(server.url)
        self.session = self.client.create_session()
        self.execution = self.client.execute(self.session.id, {"code": LOOP, "timeout": 600}).id
        for event in self.client.events(self.execution):
            if event.kind == "stdout":
                break

    def leave(self) -> None:
        self.client.cancel_execution(self.execution)
        self.client.close()


def has_failed(client: Client, session_id: str) -> bool:
    return any(x.status == "failed" for x in client.list_executions(session_id).items)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_durable", [False, True])
def test_a_run_without_a_place_is_tried_again(
    small: SdkServer, is_durable: bool, is_streamed: bool
) -> None:
    heard: list[str] = []
    with Sandbox(url=small.url, durable=is_durable) as s, Client(small.url) as client:
        busy = Busy(small)

        def run() -> Result:
            return s.run("print(6 * 7)", on_stdout=heard.append if is_streamed else None)

        with ThreadPoolExecutor() as pool:
            running: Future[Result] = pool.submit(run)
            wait_until(lambda: has_failed(client, s.id), "it was refused once")
            busy.leave()
            assert running.result().stdout == "42\n"
        assert "".join(heard) == ("42\n" if is_streamed else "")
        states = [x.status for x in client.list_executions(s.id).items]
        assert states.count("completed") == 1 and set(states) == {"completed", "failed"}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_no_place_at_all(
    small: SdkServer, monkeypatch: pytest.MonkeyPatch, is_streamed: bool
) -> None:
    monkeypatch.setattr(drive, "REPEAT_SECONDS", 0.2)
    with Sandbox(url=small.url) as s:
        busy = Busy(small)
        with pytest.raises(errors.TooManyRequestsError) as caught:
            s.run("1", on_stdout=(lambda text: None) if is_streamed else None)
        assert caught.value.begun is False and caught.value.queue_ms > 290
        assert caught.value.execution_id and caught.value.status == 429
        with Client(small.url) as client:
            found = client.get_execution(caught.value.execution_id)
        assert isinstance(found.fault, errors.TooManyRequestsError)
        with pytest.raises(errors.TooManyRequestsError):
            found.check()
        busy.leave()
        assert s.run("6 * 7").value == 42


def test_a_run_that_is_lost_is_not_repeated() -> None:
    running = SdkServer()
    try:
        running.start()
        with Sandbox(url=running.url) as s:
            begun = threading.Event()
            code = "open('runs', 'a').write('x')\nprint('on', flush=True)\nwhile True: pass"
            with ThreadPoolExecutor() as pool:
                run = pool.submit(s.run, code, on_stdout=lambda text: begun.set())
                assert begun.wait(60)
                os.kill(wait_tree(running).launcher, signal.SIGKILL)
                with pytest.raises(errors.RunLostError) as caught:
                    run.result()
            assert caught.value.begun is True and caught.value.result.stdout == "on\n"
    finally:
        running.remove()
