# SPDX-License-Identifier: Apache-2.0
"""Boxes end while their sessions are in use: whoever waited gets a new one, or is told."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from audit import wait_for, wait_tree
from husk_server import Server
from v1_client import Api

FOREVER = "import time\nprint('on', flush=True)\nwhile True: time.sleep(0.05)"


@pytest.fixture
def one() -> Iterator[Server]:
    """Without pools every box is a session's."""
    flags = ["--pool-min", "0", "--pool-max", "0", "--se-pool", "0"]
    with Server.run(*flags, "--session-pool-min", "0", "--session-pool-max", "0") as running:
        yield running


def kill_boxes(server: Server) -> None:
    boxes = wait_tree(server).boxes
    assert boxes != []
    for pid in boxes:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: set(wait_tree(server).boxes).isdisjoint(boxes), "they are gone")


def test_a_reset_that_waits_for_its_turn_outlives_the_box(one: Server) -> None:
    """The new box cannot be had either: there is nothing to reset when its turn comes."""
    api = Api(one.port)
    session = api.session()
    runs = [api.start(session, FOREVER, timeout=60) for _ in range(3)]
    api.wait_output(runs[0], "on")
    daemon = one.pid_of_huskd()
    (one.data / "workspaces" / f"{session}.tar").write_bytes(os.urandom(4096))
    answers: list[Any] = []

    def reset() -> None:
        answers.append(api.call("POST", f"/sessions/{session}/reset", is_known=False))

    client = threading.Thread(target=reset)
    client.start()
    api.wait_output(runs[1], "on")  # the first was cancelled; the reset stands behind the third
    kill_boxes(one)
    client.join()
    assert [a.status >= 400 for a in answers] == [True], answers
    assert one.pid_of_huskd() == daemon
