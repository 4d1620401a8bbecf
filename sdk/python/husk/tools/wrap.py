# SPDX-License-Identifier: Apache-2.0
"""Finds the function inside a tool object of LangChain, Pydantic AI or Agno.

This file imports no framework: an object of a framework exists only if the framework is imported
already. A tool that its framework runs only after a check (an approval, a hook) is rejected, because
the check would be lost.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from typing import Any, Callable, NoReturn, Optional

from husk.tool_errors import ToolFunctionError

# Function, name, description, and the signature if it is not the function's own.
Unwrapped = tuple[Callable[..., Any], str, Optional[str], Optional[inspect.Signature]]

_AGNO_CHECKS = (
    "requires_confirmation",
    "requires_user_input",
    "external_execution",
    "pre_hook",
    "post_hook",
    "tool_hooks",
    "approval_type",
)
# Agno wraps a function in a layer that logs and one that checks types, which cannot be pickled. The
# framework that uses our tool checks arguments itself, and without the layers workers need no Agno.
_AGNO_LAYERS = ("agno.tools.decorator", "pydantic._internal._validate_call")
_PYDANTIC_CHECKS = ("requires_approval", "args_validator", "prepare")


def unwrap(target: Any) -> Optional[Unwrapped]:
    """Returns the function inside a tool object of a framework; None for other objects.

    Raises:
        ToolFunctionError: the tool cannot run elsewhere without losing a check or a hook.
    """
    for module, name, take in (
        ("langchain_core.tools", "BaseTool", _langchain),
        ("langchain_core.tools", "BaseToolkit", _toolkit),
        ("pydantic_ai.tools", "Tool", _pydantic_ai),
        ("agno.tools.function", "Function", _agno),
        ("agno.tools.toolkit", "Toolkit", _toolkit),
    ):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(target, kind):
            return take(target)
    return None


def _toolkit(target: Any) -> NoReturn:
    raise ToolFunctionError(
        f"{type(target).__name__} is a set of tools, not one tool.",
        solution="Wrap each of its tools separately.",
    )


def _refuse_checks(target: Any, names: tuple[str, ...]) -> None:
    lost = [name for name in names if getattr(target, name, None)]
    if lost:
        raise ToolFunctionError(
            f"Tool '{target.name}' has {', '.join(lost)}, which husk would ignore.",
            solution="Wrap the function with husk.tool first, and pass the result to the framework.",
        )


# ---- Pydantic AI and Agno ----


def _pydantic_ai(target: Any) -> Unwrapped:
    _refuse_checks(target, _PYDANTIC_CHECKS)
    return target.function, target.name, target.description, None


def _agno(target: Any) -> Unwrapped:
    _refuse_checks(target, _AGNO_CHECKS)
    func = target.entrypoint
    if func is None:
        raise ToolFunctionError(f"The Agno tool '{target.name}' has no function.")
    while getattr(func, "__globals__", {}).get("__name__") in _AGNO_LAYERS:
        func = func.__wrapped__
    return func, target.name, target.description or func.__doc__, None


# ---- LangChain ----


class LangChainCall:
    """Runs a LangChain tool that has its own class, with its `invoke`."""

    def __init__(self, target: Any, names: list[str]) -> None:
        self.target = target
        self.names = names

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the tool; passes positional arguments by name."""
        if len(args) > len(self.names):
            raise TypeError(
                f"{self.target.name} takes {len(self.names)} arguments, {len(args)} were given"
            )
        return self.target.invoke({**dict(zip(self.names, args)), **kwargs})


def _langchain(target: Any) -> Unwrapped:
    func = getattr(target, "func", None) or getattr(target, "coroutine", None)
    schema = _schema_signature(target)
    if callable(func) and not _injected(func):
        parameters = inspect.signature(func).parameters.values()
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
        return func, target.name, target.description, schema if open_ended else None
    if callable(func):
        resolved = {
            field: _resolve(value)
            for field in ("func", "coroutine")
            if isinstance(value := getattr(target, field, None), types.FunctionType)
        }
        target = target.model_copy(update=resolved)
    names = list(schema.parameters) if schema is not None else ["tool_input"]
    return LangChainCall(target, names), target.name, target.description, schema


def _injected(func: Callable[..., Any]) -> bool:
    """Returns whether LangChain injects a parameter, which only `invoke` does."""
    for name, parameter in inspect.signature(func).parameters.items():
        note = str(parameter.annotation)
        if name in ("callbacks", "run_manager", "runtime") or "RunnableConfig" in note:
            return True
        if "Injected" in note or "ToolRuntime" in note:
            return True
    return False


def _resolve(func: types.FunctionType) -> types.FunctionType:
    """Returns a copy whose annotations are types instead of strings.

    LangChain uses them to inject parameters, and a worker cannot resolve the names in a string.
    """
    try:
        hints = typing.get_type_hints(func, include_extras=True)
    except Exception:
        # Some names exist only for type checkers; the others can still be resolved.
        return func
    copy = types.FunctionType(
        func.__code__, func.__globals__, func.__name__, func.__defaults__, func.__closure__
    )
    copy.__kwdefaults__ = func.__kwdefaults__
    functools.update_wrapper(copy, func)
    del copy.__wrapped__  # type: ignore[attr-defined]
    copy.__annotations__ = hints
    return copy


def _schema_signature(target: Any) -> Optional[inspect.Signature]:
    """Returns parameters for the fields of the schema that a model fills in."""
    fields = getattr(target.tool_call_schema, "model_fields", None)
    if fields is None:
        return None
    # A field without a default may follow one with a default, so they cannot be positional.
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = []
    for name, field in fields.items():
        default = inspect.Parameter.empty if field.is_required() else field.get_default()
        parameters.append(
            inspect.Parameter(name, keyword, default=default, annotation=field.annotation)
        )
    return inspect.Signature(parameters)
