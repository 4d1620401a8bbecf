# SPDX-License-Identifier: Apache-2.0
"""Memory strings, `ray:` blocks of docstrings, and how arguments, blocks and defaults come
together.
"""

from __future__ import annotations

from typing import Any

import pytest

from husk.engines.local.gpus import GpuLedger
from husk.engines.resources import parse_docstring, parse_memory, resolve


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1KB", 1024),
        ("1K", 1024),
        ("2MB", 2 << 20),
        ("2GB", 2 << 30),
        ("2gb", 2 << 30),
        ("1.5G", 3 << 29),
        ("0.5TB", 1 << 39),
        ("1T", 1 << 40),
        ("512Mi", 512 << 20),
        ("1GiB", 1 << 30),
        (" 4 MB ", 4 << 20),
        ("1048576", 1048576),
        ("0", 0),
        (4096, 4096),
    ],
)
def test_memory(text: Any, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "2XB", "-1GB", "1.5", "1e3", "1 2GB", "2GBs", "٢GB", -1, 1.5, None, True]
)
def test_memory_refused(text: Any) -> None:
    with pytest.raises(ValueError):
        parse_memory(text)


def test_block() -> None:
    doc = """Does something.

    RAY:
        num_cpus: 4
        num_gpus: 0.5
        memory: 2GB
        colour: blue

    Args:
        num_cpus: 9
    """
    assert parse_docstring(doc) == {"num_cpus": 4, "num_gpus": 0.5, "memory": "2GB"}


def test_block_ends_at_the_first_line_that_is_not_indented() -> None:
    assert parse_docstring("ray:\n    num_cpus: 2\nmemory: 1GB\n    num_gpus: 1") == {"num_cpus": 2}


def test_block_ignores_counts_that_are_no_number() -> None:
    assert parse_docstring("ray:\n  num_cpus: many\n  num_gpus: 1\n") == {"num_gpus": 1}


def test_inline() -> None:
    doc = "Does something.\n\n    ray: num_cpus=2, memory='1GB', num_gpus=0\n"
    assert parse_docstring(doc) == {"num_cpus": 2, "memory": "1GB", "num_gpus": 0}


@pytest.mark.parametrize("doc", [None, "", "About a ray: of light", "Array:\n  num_cpus: 3"])
def test_no_block(doc: Any) -> None:
    assert parse_docstring(doc) == {}


def test_arguments_win_over_the_docstring() -> None:
    found = resolve("ray: num_cpus=2, memory=1GB", num_cpus=8)
    assert (found.num_cpus, found.num_gpus, found.memory) == (8, 0, "1GB")
    assert found.memory_bytes == 1 << 30


def test_defaults() -> None:
    found = resolve(None)
    assert (found.num_cpus, found.num_gpus, found.memory, found.memory_bytes) == (1, 0, None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_cpus": -1},
        {"num_cpus": float("nan")},
        {"num_gpus": float("inf")},
        {"num_cpus": "2"},
        {"num_cpus": True},
        {"memory": "0"},
        {"memory": "lots"},
    ],
)
def test_senseless_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        resolve(None, **wrong)


def test_gpus_are_handed_out_once() -> None:
    ledger = GpuLedger(["0", "1"])
    assert ledger.take(0) == ()
    assert ledger.take(1) == ("0",)
    assert ledger.take(2) is None
    assert ledger.take(1) == ("1",)
    assert ledger.take(0.1) is None
    ledger.give_back(("1",), 1)
    assert ledger.take(1) == ("1",)


def test_shares_of_a_gpu_fill_one_before_the_next() -> None:
    ledger = GpuLedger(["0", "1"])
    shares = [ledger.take(0.5) for _ in range(3)]
    assert shares == [("0",), ("0",), ("1",)]
    assert ledger.take(1) is None
    ledger.give_back(("0",), 0.5)
    ledger.give_back(("0",), 0.5)
    assert ledger.take(1) == ("0",)
