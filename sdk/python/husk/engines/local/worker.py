# SPDX-License-Identifier: Apache-2.0
"""The process that runs tools: reads calls from a socket, runs them one by one, and answers.

The local engine starts it inside `husk limited`, which sets its limits and ends it. To start
quickly, it imports no framework and no client; tools import what they need.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import io
import os
import pickle
import socket
import sys
import traceback
import types
from typing import Any, Callable, NoReturn, Optional

from husk.engines.local import wire
from husk.errors import text_of

# Limit for one result, which must fit into the caller's memory.
RESULT_LIMIT = int(os.environ.get("HUSK_TOOL_RESULT_LIMIT", 1 << 30))


class _Output(io.FileIO):
    """File descriptor 1 or 2; notes writes, so that the caller shows the output before the result."""

    written = False

    def write(self, data: Any) -> Any:
        _Output.written = True
        return super().write(data)


def _open_output(fd: int) -> io.TextIOWrapper:
    raw = _Output(fd, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def code_mark(func: Any) -> Optional[str]:
    """Returns a text that changes when the function is edited; None for objects without code."""
    code = getattr(func, "__code__", None)
    if code is None:
        return None
    defaults = (getattr(func, "__defaults__", None), getattr(func, "__kwdefaults__", None))
    return repr((code.co_firstlineno, _content(code), _content(defaults)))


def _content(value: Any, depth: int = 0) -> Any:
    """Returns content that is the same in every process for the same source: without addresses, and
    with sets sorted.
    """
    if isinstance(value, types.CodeType):
        return value.co_code, value.co_names, value.co_varnames, _content(value.co_consts)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    kind = type(value).__qualname__
    if depth < 16:
        if isinstance(value, (tuple, list)):
            return kind, [_content(item, depth + 1) for item in value]
        if isinstance(value, (set, frozenset)):
            return kind, sorted(repr(_content(item, depth + 1)) for item in value)
        if isinstance(value, dict):
            return kind, [_content(item, depth + 1) for item in value.items()]
    return kind


class _Another(LookupError):
    """The module has no function or another function with this name."""


def _import(where: dict[str, Any]) -> Callable[..., Any]:
    """Finds the function by its module and name. Raises _Another if it is not the same one."""
    module = importlib.import_module(where["module"])
    file = getattr(module, "__file__", None)
    if file is None or os.path.realpath(file) != os.path.realpath(where["file"]):
        raise ImportError(f"module {where['module']} is another file here: {file}")
    found: Any = module
    for part in where["name"].split("."):
        found = getattr(found, part, None)
    # In the module, the name is bound to the tool, which wraps the function, maybe with other
    # decorators.
    while not getattr(found, "_rayai_tool", False) and hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    found = getattr(found, "_original_func", found)
    if code_mark(found) != where["mark"]:
        raise _Another(f"{where['module']}.{where['name']} is another function here")
    function: Callable[..., Any] = found
    return function


class Worker:
    """Holds the loaded functions, and an event loop for coroutines."""

    def __init__(self, channel: wire.BlockingChannel) -> None:
        self.channel = channel
        self.functions: dict[int, Callable[..., Any]] = {}
        self.loop: Optional[asyncio.AbstractEventLoop] = None

    def define(self, function_id: int, payload: memoryview) -> None:
        """Loads a function, or answers that it must be sent by value."""
        where = pickle.loads(payload)
        sys.path[:] = where["path"]
        try:
            if "value" in where:
                self.functions[function_id] = pickle.loads(where["value"])
            else:
                self.functions[function_id] = _import(where)
        except Exception as error:
            kind = wire.ANOTHER if isinstance(error, _Another) else wire.NOT_IMPORTABLE
            kind = wire.LOAD_FAILED if "value" in where else kind
            self.channel.send(kind, f"{type(error).__name__}: {error}".encode())
            return
        self.channel.send(wire.LOADED, b"")

    def call(self, function_id: int, kind: bytes, payload: memoryview) -> None:
        """Runs one call and answers it."""
        function = self.functions.get(function_id)
        if function is None:
            # Its definition was rejected just before; the caller sends the call again.
            return
        label: Optional[str] = None
        try:
            if kind == wire.CALL:
                args, kwargs = pickle.loads(payload)
            else:
                args, kwargs = [], {}
                for label, data in (parts := pickle.loads(payload))[0]:
                    args.append(pickle.loads(data))
                for label, data in parts[1]:
                    kwargs[label] = pickle.loads(data)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self.channel.send(wire.BAD_ARGUMENTS, pickle.dumps((label, text)))
            return
        _Output.written = False
        try:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = self._wait(result)
        except SystemExit as error:
            _exit(error.code)
        except BaseException as error:
            self._answer_exception(error)
        else:
            self._answer(result)

    def _wait(self, awaitable: Any) -> Any:
        async def run() -> Any:
            return await awaitable

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(run())

    def _answer(self, result: Any) -> None:
        try:
            data = wire.dumps(result)
        except Exception as error:
            text = f"{type(result).__name__}: {type(error).__name__}: {error}"
            self.channel.send(wire.BAD_RESULT, f"it cannot be pickled: {text}".encode())
            return
        if len(data) > RESULT_LIMIT:
            text = f"it is too large: {len(data)} bytes, the limit is {RESULT_LIMIT}"
            self.channel.send(wire.BAD_RESULT, text.encode())
            return
        _flush()
        self.channel.send(wire.RESULT_AFTER_OUTPUT if _Output.written else wire.RESULT, data)

    def _answer_exception(self, error: BaseException) -> None:
        # Leave out the first frames, which are ours.
        own = error.__traceback__
        shown = own.tb_next if own is not None else None
        text = "".join(traceback.format_exception(type(error), error, shown))
        # Some exceptions have another meaning in the caller's coroutine, such as CancelledError and
        # StopIteration.
        again = isinstance(error, Exception) and not isinstance(
            error, (StopIteration, StopAsyncIteration)
        )
        data = None
        if again:
            try:
                data = wire.dumps(error)
            except Exception:
                again = False
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        _flush()
        self.channel.send(wire.RAISED, pickle.dumps((name, text_of(error), text, data)))

    def run(self) -> None:
        """Serves calls until the caller closes the socket."""
        while True:
            kind, function_id, payload = self.channel.receive()
            if kind == wire.DEFINE:
                self.define(function_id, payload)
            else:
                self.call(function_id, kind, payload)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            # A tool may have closed or replaced it.
            pass


def _exit(code: Any) -> NoReturn:
    """Ends the process immediately, without waiting for threads of tools."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    _flush()
    os._exit((code or 0) & 0xFF)


def main(fd: int) -> NoReturn:
    """Serves the socket with this number until the peer closes it."""
    os.set_inheritable(fd, False)
    sys.stdout = _open_output(1)
    sys.stderr = _open_output(2)
    sys.argv = ["husk-tool"]
    # Modules imported so far are never freed, so keep the collector from scanning them.
    gc.freeze()
    try:
        Worker(wire.BlockingChannel(socket.socket(fileno=fd))).run()
    except (EOFError, ConnectionError):
        pass
    _exit(0)
