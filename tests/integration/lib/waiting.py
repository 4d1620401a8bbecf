# SPDX-License-Identifier: Apache-2.0
"""Waits for an event, never for a length of time."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 60  # seconds; a guard against hanging, never a measurement

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None], what: str | Callable[[], str], patience: float = PATIENCE
) -> T:
    """What the condition returns, as soon as that is true. `what` says what did not happen."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)
    return found


def wait_settled(look: Callable[[], T], what: str, looks: int = 3) -> T:
    """What is seen so many times in a row, a moment apart: nothing moves any more."""
    seen: list[T] = []

    def is_still() -> bool:
        if seen:
            time.sleep(0.2)
        seen.append(look())
        return len(seen) >= looks and seen[-looks:] == seen[-1:] * looks

    wait_until(is_still, lambda: f"{what} has settled: {seen[-looks:]}")
    return seen[-1]
