# SPDX-License-Identifier: Apache-2.0
"""Runs user code inside a box: one program, or the cells of a session.

Everything that this file sends is a claim about code that shares its process; the far end treats it so. The path from
`recv` to `send` for a short cell is what users wait for: it imports nothing and touches little memory.
"""

import ast
import atexit
import builtins
import io
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types
from typing import Any, Optional

import _husk
import handler
import reseed

# Frame types and keys: src/wire/frame.h.
RUN, BRANCH = 1, 3
DONE = 20
CODE, NAME, KIND, ARG, ENV, GET = 1, 2, 3, 4, 5, 7
EVENT, CONTEXT, TIMEOUT_MS = 8, 9, 10
EXIT, VALUE, VALUE_JSON, ERROR_TYPE, ERROR_MESSAGE, TRACEBACK = 13, 14, 15, 16, 17, 18
SCRIPT, CELL, HANDLER = 0, 1, 2

ONCE, SESSION = 0, 1
VALUE_MAX = 1 << 20
MESSAGE_MAX = 64 << 10

Fields = list[tuple[int, bytes]]


class NoHandler(Exception):
    """The code defines no callable named handler."""


def _u32(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


def _text(value: str, limit: int) -> bytes:
    return value.encode("utf-8", "backslashreplace")[:limit]


def _open_stdio() -> None:
    """Line-buffered like a terminal, so that what was printed before a kill is not lost."""
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, "r", closefd=False)), encoding="utf-8", errors="surrogateescape"
    )
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(fd, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace" if fd == 2 else "surrogateescape",
            line_buffering=True,
        )
        setattr(sys, name, stream)
        setattr(sys, "__" + name + "__", stream)
    sys.__stdin__ = sys.stdin  # type: ignore[misc]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # user code may have closed or replaced it; the pipe itself is not affected


def _user_traceback(error: BaseException, name: str) -> Optional[types.TracebackType]:
    """The traceback from the user's first line on; None when the code never started (SyntaxError)."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != name:
        tb = tb.tb_next
    return tb


def _remember_source(name: str, source: str) -> None:
    # The lazy form: split into lines only if a traceback ever asks.
    linecache.cache[name] = (lambda: source,)  # type: ignore[assignment]


def _describe(error: BaseException, name: str) -> Fields:
    tb = _user_traceback(error, name)
    try:
        text = "".join(traceback.format_exception(type(error), error, tb))
        message = str(error)
    except BaseException as second:  # a hostile __str__
        text = f"{type(error).__name__}: <its message cannot be shown: {type(second).__name__}>\n"
        message = ""
    return [
        (ERROR_TYPE, _text(type(error).__name__, 256)),
        (ERROR_MESSAGE, _text(message, MESSAGE_MAX)),
        (TRACEBACK, _text(text, VALUE_MAX)),
    ]


def _value_fields(value: Any) -> Fields:
    fields = [(VALUE, _text(repr(value), VALUE_MAX))]
    try:
        encoded = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return fields
    if len(encoded) <= VALUE_MAX:
        fields.append((VALUE_JSON, encoded.encode()))
    return fields


def _compile_cell(source: str, name: str) -> tuple[Optional[types.CodeType], Optional[types.CodeType]]:
    """Splits a cell into statements and a last expression whose value is wanted."""
    try:
        return None, compile(source, name, "eval", dont_inherit=True)
    except SyntaxError:
        pass
    tree = ast.parse(source, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval", dont_inherit=True)
    return compile(tree, name, "exec", dont_inherit=True), last


def _run_cell(source: str, name: str, space: dict[str, Any]) -> Fields:
    body, last = _compile_cell(source, name)
    if body is not None:
        exec(body, space)
    value = eval(last, space) if last is not None else None
    return [] if value is None else _value_fields(value)


def _run_handler(source: str, name: str, space: dict[str, Any], fields: dict[int, bytes]) -> Fields:
    exec(compile(source, name, "exec", dont_inherit=True), space)
    function = space.get("handler")
    if not callable(function):
        raise NoHandler(f"{name} defines no function handler(event, context)")
    timeout_ms = int.from_bytes(fields.get(TIMEOUT_MS, b""), "little")
    answer = handler.call(
        function, fields.get(EVENT, b"{}"), fields.get(CONTEXT, b"{}"), timeout_ms
    )
    return [(VALUE, _text(repr(answer), VALUE_MAX)), (VALUE_JSON, handler.encode(answer))]


def _exit_code(stop: SystemExit) -> int:
    """What the interpreter makes of sys.exit(): None is 0, an int itself, anything else is printed and 1."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _at_exit() -> None:
    """What a normal end of the interpreter does: wait for threads, run exit functions."""
    if threading.active_count() > 1:
        threading._shutdown()  # type: ignore[attr-defined]
    if atexit._ncallbacks():
        atexit._run_exitfuncs()


def execute(fields: dict[int, bytes], space: dict[str, Any], ends: bool) -> Fields:
    """Runs one piece of code. Returns the fields of its DONE frame."""
    kind = fields[KIND][0] if KIND in fields else SCRIPT
    name = fields[NAME].decode("utf-8", "replace") if NAME in fields else "<cell>"
    answer: Fields = []
    code = 0
    try:
        source = fields[CODE].decode("utf-8")
        _remember_source(name, source)
        if kind == CELL:
            answer = _run_cell(source, name, space)
        elif kind == HANDLER:
            answer = _run_handler(source, name, space, fields)
        else:
            exec(compile(source, name, "exec", dont_inherit=True), space)
        if ends:
            _at_exit()
    except SystemExit as stop:
        code = _exit_code(stop)
    except BaseException as error:
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
        answer = _describe(error, name)
        if kind == SCRIPT:
            error.__traceback__ = _user_traceback(error, name)
            sys.excepthook(type(error), error, error.__traceback__)
    _flush()
    answer.append((EXIT, _u32(code)))
    return answer


def _prepare(fields: Fields) -> dict[int, bytes]:
    """Applies arguments and environment; returns the single-valued fields."""
    single: dict[int, bytes] = {}
    args: list[str] = []
    for key, data in fields:
        if key == ARG:
            args.append(data.decode("utf-8", "surrogateescape"))
        elif key == ENV:
            variable, _, value = data.decode("utf-8", "surrogateescape").partition("=")
            os.environ[variable] = value
        else:
            single[key] = data
    sys.argv = [single.get(NAME, b"<cell>").decode("utf-8", "replace"), *args]
    return single


def _send_files(fields: Fields) -> None:
    for key, data in fields:
        if key == GET:
            _husk.send_file(data)


def _new_space() -> dict[str, Any]:
    """A __main__ module as a script has it."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    space = main.__dict__
    space["__builtins__"] = builtins
    return space


_FIRST_CELL: Fields = [(KIND, b"\x01"), (NAME, b"<cell>"), (CODE, b"print(1+1)")]
_template_warm_up = ""


def _warm() -> None:
    """Touches the memory that a first cell will touch, before anybody waits for it."""
    saved = _husk.mute(True)
    if _template_warm_up:
        exec(_template_warm_up, _new_space())
    execute(_prepare(_FIRST_CELL), _new_space(), True)
    _husk.unmute(saved)
    linecache.cache.clear()


def rehearse(template_warm_up: str) -> None:
    """In the zygote: the same once, so that what it creates lazily exists before memory is frozen."""
    global _template_warm_up
    _template_warm_up = template_warm_up
    _open_stdio()
    if template_warm_up:
        exec(template_warm_up, _new_space())
    execute(_prepare(_FIRST_CELL), _new_space(), True)
    execute({KIND: b"\x01", CODE: b"x = 1\nx"}, _new_space(), False)
    linecache.cache.clear()


def rehearse_box() -> None:
    """In a throw-away fork of the zygote: all that a box does up to the end of its first cell."""
    reseed.apply()
    _warm()
    sys.path.insert(0, "/workspace")
    execute(_prepare(_FIRST_CELL), _new_space(), True)


def _serve_once(space: dict[str, Any]) -> None:
    _husk.ready()
    request = _husk.recv()
    if request is None or request[0] != RUN:
        os._exit(0)
    fields = request[2]
    single = _prepare(fields)
    answer = execute(single, space, True)
    _send_files(fields)
    _husk.send(DONE, answer)
    # Stay until the end comes from outside: a sleeping process's CPU time is fully counted.
    _husk.recv()
    os._exit(int.from_bytes(answer[-1][1], "little"))


def _serve_context(space: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _husk.mute(False)
    _husk.ready()
    while True:
        try:
            request = _husk.recv()
            if request is None:
                os._exit(0)
            kind, fd, fields = request
            if kind == BRANCH and fd >= 0:
                _branch(fd)
                continue
            answer = execute(_prepare(fields), space, False)
            _send_files(fields)
            _husk.mute(False)
            _husk.send(DONE, answer)
        except KeyboardInterrupt:
            continue  # an interrupt that came after its cell had ended


def _branch(fd: int) -> None:
    """Forks this context with all its variables; the copy answers on its own socket."""
    if os.fork() == 0:
        _husk.adopt(fd)
        reseed.apply()
        _husk.ready()
    else:
        os.close(fd)


def serve(mode: int, warm: bool) -> None:
    """In a new box: from isolation to the first byte of user code."""
    reseed.apply()
    if mode == SESSION:
        _husk.session()  # PID 1 stays in there; a context comes out
        reseed.apply()
    if warm and mode == ONCE:
        _warm()
    sys.path.insert(0, "/workspace")
    space = _new_space()
    if mode == SESSION:
        _serve_context(space)
    _serve_once(space)
