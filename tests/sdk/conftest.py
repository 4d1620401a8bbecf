# SPDX-License-Identifier: Apache-2.0
"""Every test here uses a real server: `server` is one per test module, with .url, .socket and
.data.

The environment names it (HUSK_URL), so that code under test finds it as a user's code would.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "integration" / "lib"), str(ROOT / "sdk" / "python")]

from husk_server import Server  # noqa: E402
from places import BIN  # noqa: E402

os.environ["HUSK_BIN"] = str(BIN)
os.environ["PYTHONPATH"] = str(ROOT / "sdk" / "python")  # for the processes that tests start
for name in ("HUSK_URL", "HUSK_SOCKET"):
    os.environ.pop(name, None)  # tests must not use other servers of this machine

# Scripts that tests interrupt inherit it: a shell's background job has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


class SdkServer(Server):
    """husk up on a free port and a socket, with its own data folder."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def server() -> Iterator[SdkServer]:
    running = SdkServer()
    try:
        running.start()
        os.environ["HUSK_URL"] = f"unix://{running.socket}"
        yield running
    finally:
        os.environ.pop("HUSK_URL", None)
        running.remove()
