# SPDX-License-Identifier: Apache-2.0
"""Python values as JSON: a handler's answer, and requested variables."""

import json
from typing import Any

VARIABLES_MAX = 1 << 20  # src/wire/frame.h


def _null(_: str) -> None:
    return None


def to_json(value: Any) -> str:
    """JSON text, with null for NaN and the infinities, which JSON does not have.

    Raises TypeError, ValueError or RecursionError for a value that has no JSON form.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError:
        loose = json.dumps(value, ensure_ascii=False)  # raises again if it is a circle
        return json.dumps(json.loads(loose, parse_constant=_null), ensure_ascii=False)


def _said(value: Any) -> str:
    """JSON text for any value: itself, else its str(), else its type. NaN becomes text too: null
    would be another value.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except Exception:
        pass
    try:
        return to_json(str(value))
    except Exception:  # a hostile __str__, a number too long to print
        return to_json(f"<{type(value).__name__}>")


def variables(names: list[str], space: dict[str, Any]) -> tuple[bytes, bool]:
    """The values of these globals as one JSON object, and whether some did not fit. Missing names
    are left out.
    """
    members: list[bytes] = []
    size, dropped = 2, False
    for name in dict.fromkeys(names):
        if name not in space:
            continue
        member = f"{to_json(name)}: {_said(space[name])}".encode("utf-8", "replace")
        size += len(member) + 2
        if size > VARIABLES_MAX:
            size -= len(member) + 2
            dropped = True
        else:
            members.append(member)
    return b"{" + b", ".join(members) + b"}", dropped
