# SPDX-License-Identifier: Apache-2.0
"""A launcher that reads nothing: the supervisor neither waits for it nor keeps `husk down` waiting."""
from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from procfs import below
from test_server_state import BEGIN, READY, Installation, needs_root
from waiting import wait_until

# Asks for more definitions than a socket holds, takes none, and ends when the supervisor hangs up.
LAUNCHER = """#!/usr/bin/python3
import os, select, socket, struct
link = socket.socket(fileno=3)
for ticket in range(1, 41):
    link.send(struct.pack("=IIIIQ64s", ticket, ticket, 0, 0, 0, b"python"))
open(os.environ["HUSK_TEST_REPORT"] + "/asked", "w").close()
ended = select.poll()
ended.register(link, 0)
while not any(event & select.POLLHUP for _, event in ended.poll()):
    pass
"""
HUSKD = f"{BEGIN}{READY}signal.pause()\n"


@pytest.fixture
def stuck() -> Iterator[Installation]:
    one = Installation(HUSKD)
    (one.folder / "bin/husk-launcher").write_text(LAUNCHER)
    try:
        yield one
    finally:
        one.remove()


@needs_root
@pytest.mark.parametrize("huskd_dies", [False, True])
def test_a_launcher_that_reads_nothing_does_not_hang_the_supervisor(
    stuck: Installation, huskd_dies: bool
) -> None:
    """Neither while it owes definitions, nor when the next huskd is to be brought to it."""
    done = stuck.husk("up", "--detach", "--data", stuck.data, "--listen", "none")
    assert done.returncode == 0, done.stderr
    log = stuck.data / "husk.log"
    supervisor = int((stuck.data / "husk.pid").read_text())
    wait_until((stuck.report / "asked").exists, "the launcher has asked")
    if huskd_dies:
        # The script's name is that of its interpreter.
        (huskd,) = [p.pid for p in below(supervisor) if is_huskd(p.pid)]
        os.kill(huskd, signal.SIGKILL)
        wait_until(lambda: "does not read its socket" in log.read_text(), "it was noticed")
    start = time.monotonic()
    down = stuck.down()
    assert down.returncode == 0, down
    assert time.monotonic() - start < 20  # far less than a launcher that does not end would get
    wait_until(lambda: not os.path.exists(f"/proc/{supervisor}"), "the supervisor has ended")


def is_huskd(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return any(word.endswith(b"/huskd") for word in file.read().split(b"\0"))
