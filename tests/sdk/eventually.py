# SPDX-License-Identifier: Apache-2.0
"""`waiting` for code on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

from waiting import PATIENCE


async def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Waits until the condition, plain or async, returns a true value, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"still not so: {what}"
        await asyncio.sleep(0.02)
