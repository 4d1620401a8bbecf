# SPDX-License-Identifier: Apache-2.0
"""Sends a function and its arguments to a worker: by name if the worker can import it, else as a
pickled value.

By name, the module's state and classes are the same on both sides; by value works for scripts,
notebooks and closures. A function that supports neither raises an error with its name.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import pickle
import sys
import threading
from typing import Any, Callable, Optional, cast

from husk.engines.engine import ToolSpec
from husk.engines.local.wire import cloudpickle, dumps
from husk.engines.local.worker import code_mark
from husk.tool_errors import ToolArgumentError, ToolFunctionError

_ids: dict[bytes, int] = {}
_numbers = itertools.count(1)
_by_value_lock = threading.Lock()


class FunctionForm:
    """The form in which a function is sent: by name, as a value, or as a value with its module.

    Attributes:
        current: its id on workers, and a function that returns its definition.
        reason: why it is not sent by name; empty if it is.
        module: name of the module that is sent as a value, because workers cannot import it; or
            None.
        markers: texts in a pickle that show a reference to a module that workers cannot import.
    """

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec
        self.reason = ""
        self._lock = threading.Lock()
        self.module: Optional[str] = None
        self.markers: tuple[bytes, ...] = (b"__main__",)
        where = _where(spec.func)
        if where is None:
            self.reason = "it is not a function of a module"
            self.current = self._value()
        else:
            self.current = _number(repr(sorted(where.items())).encode()), lambda: _define(where)

    def weaken(self, function_id: int, reason: str, importable: bool) -> None:
        """Switches to the next form, because a worker could not load the one with this id.

        Raises:
            ToolFunctionError: there is no further form.
        """
        with self._lock:
            if function_id != self.current[0]:
                # Another call has switched already.
                return
            name = getattr(self.spec.func, "__module__", None)
            by_name, self.reason = not self.reason, reason
            if not (by_name and importable):
                if self.module is not None or not name or name not in sys.modules:
                    raise ToolFunctionError(
                        f"Tool '{self.spec.name}' cannot be loaded in its worker: {reason}."
                    )
                self.module = name
                self.markers = (b"__main__", name.encode())
            self.current = self._value()

    def _value(self) -> tuple[int, Callable[[], bytes]]:
        try:
            value = by_value(self.spec.func, self.module)
        except Exception as error:
            raise ToolFunctionError(
                f"Tool '{self.spec.name}' cannot be sent to a worker: {_culprit(self.spec.func)}"
                f"{type(error).__name__}: {error}.",
                solution="Pass it as an argument, or create it inside the function.",
            ) from error
        return _number(value), lambda: _define({"value": value})


def form_of(spec: ToolSpec) -> FunctionForm:
    """Returns the form of a tool's function, which is created on its first call."""
    form = spec.cache.get("local.form")
    if form is None:
        form = spec.cache["local.form"] = FunctionForm(spec)
    return cast(FunctionForm, form)


def by_value(value: Any, module_name: Optional[str]) -> bytes:
    """Pickles a value with the contents of one module instead of references to it."""
    pickler = cloudpickle()
    module = sys.modules.get(module_name or "")
    if module is None or module_name == "__main__":
        data: bytes = pickler.dumps(value)
        return data
    with _by_value_lock:
        pickler.register_pickle_by_value(module)
        try:
            data = pickler.dumps(value)
        finally:
            pickler.unregister_pickle_by_value(module)
    return data


def pack(form: FunctionForm, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Pickles the arguments of a call. Raises ToolArgumentError with the name of the argument that
    cannot be pickled.
    """
    try:
        plain = pickle.dumps((args, kwargs), pickle.HIGHEST_PROTOCOL)
        for marker in form.markers:
            if marker in plain:
                break
        else:
            return plain
    except Exception:
        # cloudpickle may succeed; if not, it finds the argument.
        pass
    try:
        return by_value((args, kwargs), form.module)
    except Exception as error:
        raise _argument_error(form.spec, args, kwargs, error) from error


def pack_split(form: FunctionForm, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Pickles each argument separately, so that the worker can report which one fails."""
    positional = argument_labels(form.spec.func, args)
    return pickle.dumps(
        (
            [(label, by_value(value, form.module)) for label, value in positional],
            [(name, by_value(value, form.module)) for name, value in kwargs.items()],
        )
    )


def _where(func: Any) -> Optional[dict[str, Any]]:
    """Returns where a worker can import a function; None if it must be sent by value."""
    module_name, name = getattr(func, "__module__", None), getattr(func, "__qualname__", None)
    file = getattr(sys.modules.get(module_name or ""), "__file__", None)
    if not name or "<" in name or module_name in (None, "__main__") or file is None:
        return None
    mark = code_mark(func)
    if mark is None or inspect.ismethod(func):
        return None
    return {"module": module_name, "name": name, "file": file, "mark": mark}


def _define(where: dict[str, Any]) -> bytes:
    # Workers use the current module search path of this process.
    return pickle.dumps({**where, "path": list(sys.path)})


def _number(definition: bytes) -> int:
    digest = hashlib.sha256(definition).digest()
    return _ids.setdefault(digest, next(_numbers))


def argument_labels(func: Callable[..., Any], args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Pairs positional arguments with their names in the signature."""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [
        (names[i] if i < len(names) else f"*args[{i - len(names)}]", value)
        for i, value in enumerate(args)
    ]


def _argument_error(
    spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> ToolArgumentError:
    for label, value in [*argument_labels(spec.func, args), *kwargs.items()]:
        try:
            dumps(value)
        except Exception as reason:
            return ToolArgumentError(
                f"Argument '{label}' of tool '{spec.name}' cannot be sent to a worker: "
                f"{type(value).__name__}: {reason}.",
                argument=label,
                solution="Pass plain data, and create the rest inside the tool.",
            )
    return ToolArgumentError(f"The arguments of tool '{spec.name}' cannot be sent: {error}.")


def _culprit(func: Any) -> str:
    """Returns which captured or global variable prevents pickling a function."""
    try:
        captured = inspect.getclosurevars(func)
    except TypeError:
        return ""
    for name, value in [*captured.nonlocals.items(), *captured.globals.items()]:
        try:
            dumps(value)
        except Exception:
            return f"its variable '{name}' is a {type(value).__name__}; "
    return ""
