# SPDX-License-Identifier: Apache-2.0
"""What the tests of the local engine share: calling it, and functions for it to run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from husk.engines.engine import ToolSpec
from husk.engines.local.engine import LocalEngine

PATIENCE = 60.0  # seconds; a guard against hanging, never a measurement


def run(engine: LocalEngine, func: Any, *args: Any, **limits: Any) -> Any:
    """Runs a function with these limits."""
    return engine.call_sync(ToolSpec(func.__name__, func, **limits), args, {})


def pid() -> int:
    """Says which worker runs it."""
    return os.getpid()


def is_gone(number: int) -> bool:
    """Waits until a process has ended."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def hang(file: str) -> None:
    """Never ends by itself, nor on a friendly signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(file).write_text(str(os.getpid()))
    while True:
        time.sleep(60)
