# SPDX-License-Identifier: Apache-2.0
"""Calls a Lambda-style handler: handler(event) or handler(event, context), decided by its
signature.
"""

import inspect
import json
import os
import time
from typing import Any, Awaitable, Callable

import values

ANSWER_MAX = 16 << 20

_DEFAULTS: dict[str, Any] = {
    "function_name": "unknown-function",
    "function_version": "$LATEST",
    "log_group_name": "/lambda-sandbox/logs",
    "memory_limit_in_mb": 256,
    "invoked_function_arn": None,
    "tenant_id": None,
}
# Each a dictionary of the request, and an object with these attributes for the handler.
_IDENTITY = ("cognito_identity_id", "cognito_identity_pool_id")
_CLIENT = (
    "installation_id",
    "app_title",
    "app_version_name",
    "app_version_code",
    "app_package_name",
)
_OTHERS = {
    "request_id",
    "aws_request_id",
    "log_stream_name",
    "remaining_time_in_millis",
    "identity",
    "client_context",
}


def _uuid() -> str:
    """Of version 4. The uuid module is not loaded for it."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class _Part:
    """A part of the context: attributes as Lambda names them, None where nothing was given."""

    def __init__(self, names: tuple[str, ...], given: Any, what: str) -> None:
        if given is not None and not isinstance(given, dict):
            raise ValueError(f"context.{what} must be an object")
        fields = given or {}
        if unknown := set(fields) - set(names):
            raise ValueError(f"unknown field of context.{what}: {', '.join(sorted(unknown))}")
        self.__dict__.update({name: fields.get(name) for name in names})


def _client_context(given: Any) -> Any:
    """None unless the caller sent one, as for an invocation without a client."""
    if given is None:
        return None
    made = _Part(("client", "custom", "env"), given, "client_context")
    fields = made.__dict__
    fields["client"] = _Part(_CLIENT, fields["client"], "client_context.client")
    fields["custom"] = fields["custom"] or {}
    fields["env"] = fields["env"] or {}
    return made


class Context:
    """The second argument of a handler. Its remaining time counts down."""

    def __init__(self, fields: dict[str, Any], timeout_ms: int) -> None:
        if unknown := set(fields) - set(_DEFAULTS) - _OTHERS:
            raise ValueError(f"unknown context field: {', '.join(sorted(unknown))}")
        values = {**_DEFAULTS, "request_id": _uuid(), "log_stream_name": _uuid(), **fields}
        given = values.pop("remaining_time_in_millis", None)
        self.__dict__.update(values)
        self.aws_request_id = values.get("aws_request_id", values["request_id"])
        self.identity = _Part(_IDENTITY, values.get("identity"), "identity")
        self.client_context = _client_context(values.get("client_context"))
        allowed = timeout_ms if given is None else min(int(given), timeout_ms or int(given))
        self._deadline = time.monotonic() + allowed / 1000

    def log(self, text: Any) -> None:
        """Writes to the log, which is standard output."""
        print(text)

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
    if inspect.isawaitable(answer):
        import asyncio

        answer = asyncio.run(_awaited(answer))
    return answer


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


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
