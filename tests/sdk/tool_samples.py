# SPDX-License-Identifier: Apache-2.0
"""Functions of an importable module for the tests of tools: workers load them by name."""

from __future__ import annotations

import os

from husk import tool

calls = 0


class SampleError(Exception):
    """An exception of a module that both sides can import."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number = number


class Unrebuildable(Exception):
    """An exception that pickles and then cannot be made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def plain(x: int) -> int:
    """Not a tool yet."""
    return x + 100


@tool
def count_calls() -> tuple[int, int]:
    """Shows that the module lives on in its worker."""
    global calls
    calls += 1
    return os.getpid(), calls


@tool
def fail(number: int) -> None:
    """Raises an exception of this module."""
    raise SampleError(number, "as asked")


@tool
def fail_badly() -> None:
    """Raises what the caller cannot rebuild."""
    raise Unrebuildable("this", "that")
