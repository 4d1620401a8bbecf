# SPDX-License-Identifier: Apache-2.0
"""Calls a Lambda-style handler: handler(event) or handler(event, context), decided by its
signature.
"""

import inspect
import json
import os
import time
from typing import Any, Callable

import values

ANSWER_MAX = 16 << 20

_DEFAULTS: dict[str, Any] = {
    "function_name": "unknown-function",
    "function_version": "$LATEST",
    "log_group_name": "/lambda-sandbox/logs",
    "memory_limit_in_mb": 256,
    "invoked_function_arn": None,
}


def _uuid() -> str:
    """Of version 4. The uuid module is not loaded for it."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Context:
    """The second argument of a handler. Its remaining time counts down."""

    def __init__(self, fields: dict[str, Any], timeout_ms: int) -> None:
        unknown = (
            set(fields)
            - set(_DEFAULTS)
            - {
                "request_id",
                "aws_request_id",
                "log_stream_name",
                "remaining_time_in_millis",
            }
        )
        if unknown:
            raise ValueError(f"unknown context field: {', '.join(sorted(unknown))}")
        values = {**_DEFAULTS, "request_id": _uuid(), "log_stream_name": _uuid(), **fields}
        given = values.pop("remaining_time_in_millis", None)
        self.__dict__.update(values)
        self.aws_request_id = values.get("aws_request_id", values["request_id"])
        allowed = timeout_ms if given is None else min(int(given), timeout_ms or int(given))
        self._deadline = time.monotonic() + allowed / 1000

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.monotonic()) * 1000))

    @property
    def remaining_time_in_millis(self) -> int:
        return self.get_remaining_time_in_millis()


def _wants_context(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    positional = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return True
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional += 1
    return positional >= 2


def _own_limit_ms(event: Any, timeout_ms: int) -> int:
    """__timeout in the event, in seconds, can only shorten what the box enforces (0: nothing)."""
    own = event.get("__timeout") if isinstance(event, dict) else None
    if isinstance(own, bool) or not isinstance(own, (int, float)) or not own > 0:
        return timeout_ms
    own_ms = int(min(own, 3600) * 1000)
    return min(own_ms, timeout_ms) if timeout_ms else own_ms


def call(function: Callable[..., Any], event: bytes, context: bytes, timeout_ms: int) -> Any:
    parsed = json.loads(event)
    timeout_ms = _own_limit_ms(parsed, timeout_ms)
    made = Context(json.loads(context), timeout_ms)
    answer = function(parsed, made) if _wants_context(function) else function(parsed)
    if inspect.iscoroutine(answer):
        import asyncio

        answer = asyncio.run(answer)
    return answer


def encode(answer: Any) -> bytes:
    """The answer as JSON. TypeError for a value that JSON cannot represent."""
    try:
        encoded = values.to_json(answer).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the handler's answer cannot be said in JSON: {error}") from None
    if len(encoded) > ANSWER_MAX:
        raise ValueError(
            f"the handler's answer is {len(encoded)} bytes long, at most {ANSWER_MAX} are possible"
        )
    return encoded
