# SPDX-License-Identifier: Apache-2.0
"""What the tests of the local engine share: calling it, and functions for it to run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from waiting import wait_until

from husk.engines.engine import ToolSpec
from husk.engines.local.engine import LocalEngine


def run(engine: LocalEngine, func: Any, *args: Any, **limits: Any) -> Any:
    """Runs a function with these limits."""
    return engine.call_sync(ToolSpec(func.__name__, func, **limits), args, {})


def pid() -> int:
    """Says which worker runs it."""
    return os.getpid()


def is_gone(number: int) -> bool:
    """Waits until a process has ended, or is a zombie."""

    def has_ended() -> bool:
        try:
            return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    return wait_until(has_ended, f"{number} has ended")


def hang(file: str) -> None:
    """Never ends by itself, nor on a friendly signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(file).write_text(str(os.getpid()))
    while True:
        time.sleep(60)
