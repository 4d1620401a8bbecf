# SPDX-License-Identifier: Apache-2.0
"""A progress bar for file transfers, on stderr if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

Progress = Callable[[int, int | None], None]
"""Called with the bytes transferred and the total, which is None if it is unknown."""

WIDTH = 30
INTERVAL = 0.1


class Bar:
    """A line that is redrawn on progress.

    Args:
        label: the name of the file.
        stream: the output.
    """

    def __init__(self, label: str, stream: TextIO) -> None:
        self.label = label
        self.stream = stream
        self._next = 0.0

    def __call__(self, done: int, total: int | None) -> None:
        is_last = total is not None and done >= total
        if time.monotonic() < self._next and not is_last:
            return
        self._next = time.monotonic() + INTERVAL
        self.stream.write("\r" + self.line(done, total) + ("\n" if is_last else ""))
        self.stream.flush()

    def line(self, done: int, total: int | None) -> str:
        """Return the line."""
        if not total:
            return f"{self.label}  {_size(done)}"
        filled = WIDTH * done // total
        bar = "#" * filled + "-" * (WIDTH - filled)
        return f"{self.label}  [{bar}] {100 * done // total:3} %  {_size(done)} of {_size(total)}"


def _size(n: int) -> str:
    value = float(n)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def progress_for(label: str, wanted: Progress | bool | None) -> Progress | None:
    """Return the function to call on progress.

    Args:
        label: the name of the file.
        wanted: a custom function; False: nothing; True or None: a bar if stderr is a terminal.
    """
    if callable(wanted):
        return wanted
    if wanted is False or sys.stderr is None or not sys.stderr.isatty():
        return None
    return Bar(label, sys.stderr)
