# SPDX-License-Identifier: Apache-2.0
"""A hostile box at the sockets that it shares with huskd."""
from __future__ import annotations

import os
import socket

import pytest
from husk_server import Server
from v1_client import Api, v1, v1_server  # noqa: F401

SO_PASSRIGHTS = 83

SEND = """
import errno, os, socket
def attempt(number):
    try:
        here = socket.socket(fileno=os.dup(number))
        one, other = socket.socketpair()
        socket.send_fds(here, [b"x"], [one.fileno()])
    except OSError as error:
        return errno.errorcode[error.errno]
    return "reached"
sockets = [n for n in map(int, os.listdir("/proc/self/fd")) if n > 2 and os.path.exists(
    f"/proc/self/fd/{n}") and os.readlink(f"/proc/self/fd/{n}").startswith("socket:")]
[attempt(n) for n in sockets]
"""


def has_passrights() -> bool:
    one, other = socket.socketpair()
    with one, other:
        try:
            one.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            return False
    return True


@pytest.mark.skipif(not has_passrights(), reason="SO_PASSRIGHTS is of Linux 6.16")
@pytest.mark.parametrize("mode", ["persistent", "ephemeral"])
def test_a_box_sends_no_descriptor_to_the_daemon(
    v1: Api, v1_server: Server, mode: str  # noqa: F811
) -> None:
    """One whose close() waits would freeze the daemon, and with it every session."""
    session = v1.post("/sessions", {"mode": mode})["id"]
    done = v1.run(session, SEND)
    assert done["status"] == "completed", done
    assert done["return_value"] and set(done["return_value"]) == {"EPERM"}
    assert os.path.exists(f"/proc/{v1_server.process.pid}")
