# SPDX-License-Identifier: Apache-2.0
"""Tests that only wait for a limit to pass do so beside the others.

    @beside
    def test_it() -> None: ...

They begin before the first test and are reported after the last one; conftest.py sees to that.
"""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import Any

_pool = ThreadPoolExecutor(3)


def beside(test: Callable[[], None]) -> Callable[[], None]:
    """It runs on another thread: no fixtures, and what it starts it ends itself."""
    begun: list[Future[None]] = []

    def begin() -> None:
        begun.append(_pool.submit(test))

    @wraps(test)
    def report() -> None:
        begun[0].result()

    setattr(report, "begin", begin)
    return report


def begin_of(item: Any) -> Callable[[], None] | None:
    """Begins this test, if it is such a one."""
    return getattr(getattr(item, "function", None), "begin", None)
