# SPDX-License-Identifier: Apache-2.0
"""Resource requests of tools and agents: CPUs, GPUs, memory.

Parses memory strings and the `ray:` blocks of docstrings and checks the numbers. Enforces nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Optional, Union

Number = Union[int, float]
Memory = Union[str, int]

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT])(?:B|IB?)?", re.IGNORECASE)
_BYTES = re.compile(r"[0-9]+")
_HEADER = re.compile(r"([ \t]*)ray:[ \t]*(.*)", re.IGNORECASE)
_KEYS = ("num_cpus", "num_gpus", "memory")


def parse_memory(text: Memory) -> int:
    """Returns the number of bytes of a memory string.

    `KB`, `MB`, `GB`, `TB` and the bare letters are powers of 1024, in upper or lower case, with
    fractions: `"1.5GB"`. The server's notation, `Mi` or `GiB`, means the same. A number without a
    suffix is a whole number of bytes.

    Raises:
        ValueError: the string is not a memory size.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"memory cannot be negative: {text}")
        return text
    if not isinstance(text, str):
        raise ValueError(f"memory must be a string such as '2GB', not {type(text).__name__}")
    stripped = text.strip()
    if _BYTES.fullmatch(stripped):
        return int(stripped)
    match = _MEMORY.fullmatch(stripped)
    if match is None:
        raise ValueError(f"not a memory size: {text!r} (use for example '512MB' or '2GB')")
    return int(float(match.group(1)) * 1024 ** _POWERS[match.group(2).upper()])


def parse_docstring(doc: Optional[str]) -> dict[str, Any]:
    """Returns the first `ray:` block of a docstring as a dict, which is empty without such a block.

    A block has two forms: a line `ray:` followed by `key: value` lines that are indented deeper, or
    one line such as `ray: num_cpus=2, memory=1GB`. Unknown keys and counts that are not numbers are
    ignored.
    """
    lines = doc.expandtabs().splitlines() if doc else []
    for number, line in enumerate(lines):
        header = _HEADER.fullmatch(line)
        if header is None:
            continue
        if header.group(2).strip():
            found = _pairs(header.group(2).split(","), "=")
            if found:
                return found
            continue
        return _pairs(_indented(lines[number + 1 :], len(header.group(1))), ":")
    return {}


def _indented(lines: list[str], header: int) -> list[str]:
    """Returns the lines of a block; the first line sets its indentation."""
    block: list[str] = []
    least = header + 1
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if indent < least:
            break
        if not block:
            least = indent
        block.append(line)
    return block


def _pairs(items: list[str], separator: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        key, mark, value = item.partition(separator)
        key, value = key.strip().lower(), value.strip().strip("'\"")
        if not mark or key not in _KEYS or not value:
            continue
        parsed = value if key == "memory" else _count(value)
        if parsed is not None:
            found[key] = parsed
    return found


def _count(text: str) -> Optional[Number]:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


@dataclass(frozen=True)
class Resources:
    """Checked limits of a tool; `memory` is as the user wrote it, `memory_bytes` its value."""

    num_cpus: Number = 1
    num_gpus: Number = 0
    memory: Optional[Memory] = None
    memory_bytes: Optional[int] = None


def resolve(
    doc: Optional[str],
    num_cpus: Optional[Number] = None,
    num_gpus: Optional[Number] = None,
    memory: Optional[Memory] = None,
) -> Resources:
    """Resolves limits from the arguments, then the `ray:` block of the docstring, then the defaults
    (1 CPU, no GPU, no memory limit).

    Raises:
        ValueError: a number is negative or not finite, or the memory string is invalid.
    """
    block = parse_docstring(doc)
    memory = block.get("memory") if memory is None else memory
    size = None if memory is None else parse_memory(memory)
    if size == 0:
        raise ValueError("memory cannot be 0: omit it for no limit")
    return Resources(
        num_cpus=_checked("num_cpus", block.get("num_cpus", 1) if num_cpus is None else num_cpus),
        num_gpus=_checked("num_gpus", block.get("num_gpus", 0) if num_gpus is None else num_gpus),
        memory=memory,
        memory_bytes=size,
    )


def _checked(name: str, value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be 0 or more: {value}")
    return value
