# SPDX-License-Identifier: Apache-2.0
"""Runs a piece of code as what it is, a script, a cell or a handler, and reports its value."""

import ast
import json
import types
from typing import Any, Callable, Optional, TypeVar

import displays
import handler
import policy
import values
from wire import (
    CELL,
    CONTEXT,
    EVENT,
    HANDLER,
    HANDLER_NAME,
    POLICY,
    PRINT,
    PYRUNNER,
    RICH,
    TIMEOUT_MS,
)
from wire import DROPPED, VALUE, VALUE_JSON, VALUE_MAX, VARIABLE, VARIABLES, Fields, text

T = TypeVar("T")


class NoHandler(Exception):
    """The code defines no callable named handler."""


def _value(value: Any) -> tuple[int, bytes]:
    """Cut to one byte more than is kept, by which the reader sees that it was cut."""
    return VALUE, text(repr(value), VALUE_MAX + 1)


def value_fields(value: Any) -> Fields:
    fields = [_value(value)]
    try:
        encoded = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return fields
    if len(encoded) <= VALUE_MAX:
        fields.append((VALUE_JSON, encoded.encode()))
    return fields


def _split(source: str, name: str) -> tuple[Optional[types.CodeType], Optional[types.CodeType]]:
    """Statements, and a last expression whose value is wanted."""
    try:
        return None, compile(source, name, "eval", dont_inherit=True)
    except SyntaxError:
        pass
    tree = ast.parse(source, name)
    last = None
    if tree.body:
        final = tree.body[-1]
        if isinstance(final, ast.Expr):
            tree.body.pop()
            last = compile(ast.Expression(final.value), name, "eval", dont_inherit=True)
    return compile(tree, name, "exec", dont_inherit=True), last


def _compiled(how: Callable[[], T], fields: dict[int, bytes]) -> T:
    return policy.parsed(how) if POLICY in fields else how()


def _run_split(source: str, name: str, space: dict[str, Any], fields: dict[int, bytes]) -> Any:
    body, last = _compiled(lambda: _split(source, name), fields)
    if body is not None:
        exec(body, space)
    return eval(last, space) if last is not None else None


def _whole(source: str, name: str) -> types.CodeType:
    code: types.CodeType = compile(source, name, "exec", dont_inherit=True)
    return code


def _run_handler(source: str, name: str, space: dict[str, Any], fields: dict[int, bytes]) -> Fields:
    wanted = fields.get(HANDLER_NAME, b"handler").decode()
    space.pop(wanted, None)  # of an earlier cell: this one must bring its own
    exec(_compiled(lambda: _whole(source, name), fields), space)
    function = space.get(wanted)
    if not callable(function):
        raise NoHandler(f"{name} defines no function {wanted}(event, context)")
    timeout_ms = int.from_bytes(fields.get(TIMEOUT_MS, b""), "little")
    answer = handler.call(
        function, fields.get(EVENT, b"{}"), fields.get(CONTEXT, b"{}"), timeout_ms
    )
    return [_value(answer), (VALUE_JSON, handler.encode(answer))]


def _run(
    kind: int, source: str, name: str, space: dict[str, Any], fields: dict[int, bytes]
) -> Fields:
    if kind == HANDLER:
        return _run_handler(source, name, space, fields)
    if kind != CELL and not {PRINT, RICH, POLICY} & fields.keys():
        exec(_whole(source, name), space)
        return []
    value = _run_split(source, name, space, fields)
    if value is None:
        return []
    if PRINT in fields:
        print(value)
    if RICH in fields:
        displays.display(value)
    return value_fields(value) if kind == CELL else []


def evaluate(
    kind: int, source: str, name: str, space: dict[str, Any], fields: dict[int, bytes]
) -> Fields:
    if POLICY in fields:
        if fields[POLICY] != PYRUNNER:
            raise policy.PolicyViolation("the policy asked for is not known here")
        policy.check(source, name)
    if RICH not in fields:
        return _run(kind, source, name, space, fields)
    displays.begin()
    try:
        answer = _run(kind, source, name, space, fields)
    except BaseException as error:
        displays.end(error)
        raise
    displays.end(None)
    return answer


def variables(space: dict[str, Any], fields: dict[int, bytes]) -> Fields:
    names = fields[VARIABLE].decode("utf-8", "surrogateescape").split("\0")
    encoded, dropped = values.variables(names, space)
    return [(VARIABLES, encoded), *([(DROPPED, b"")] if dropped else [])]
