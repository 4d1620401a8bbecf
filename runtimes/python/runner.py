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
from typing import Any, NoReturn, Optional

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

REST_ALL, REST_VALUE, REST_ERROR, REST_SESSION = 0, 1, 2, 3  # src/runner/module_once.c
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
        io.BufferedReader(io.FileIO(0, "r", closefd=False)),
        encoding="utf-8",
        errors="surrogateescape",
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
    sys.__stdin__ = sys.stdin


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
    """For tracebacks: no file on disk holds the code."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


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


def _compile_cell(
    source: str, name: str
) -> tuple[Optional[types.CodeType], Optional[types.CodeType]]:
    """Splits a cell into statements and a last expression whose value is wanted."""
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


def _failure(error: BaseException, kind: int, name: str) -> tuple[Fields, int]:
    """What is said about code that raised."""
    if isinstance(error, SystemExit):
        return [], _exit_code(error)
    answer = _describe(error, name)
    if kind == SCRIPT:
        if sys.excepthook is sys.__excepthook__:
            # The built-in hook would look for the source on disk.
            os.write(2, answer[-1][1])
        else:
            sys.excepthook(type(error), error, _user_traceback(error, name))
    return answer, 130 if isinstance(error, KeyboardInterrupt) else 1


def _evaluate(
    kind: int, source: str, name: str, space: dict[str, Any], fields: dict[int, bytes]
) -> Fields:
    if kind == CELL:
        return _run_cell(source, name, space)
    if kind == HANDLER:
        return _run_handler(source, name, space, fields)
    exec(compile(source, name, "exec", dont_inherit=True), space)
    return []


def _kind(fields: dict[int, bytes]) -> int:
    return fields[KIND][0] if KIND in fields else SCRIPT


def _name(fields: dict[int, bytes]) -> str:
    return fields[NAME].decode("utf-8", "replace") if NAME in fields else "<cell>"


def execute(fields: dict[int, bytes], space: dict[str, Any], ends: bool) -> Fields:
    """Runs one piece of code. Returns the fields of its DONE frame."""
    kind, name, code = _kind(fields), _name(fields), 0
    try:
        source = fields[CODE].decode("utf-8")
        _remember_source(name, source)
        answer = _evaluate(kind, source, name, space, fields)
        if ends:
            _at_exit()
    except BaseException as error:
        answer, code = _failure(error, kind, name)
    _flush()
    answer.append((EXIT, _u32(code)))
    return answer


def _conclude(rest: int, what: Any, fields: dict[int, bytes]) -> Fields:
    """Ends a run that _husk.once() began: it has a value to report, or an exception."""
    kind, name, code = _kind(fields), _name(fields), 0
    _remember_source(name, fields[CODE].decode("utf-8", "replace"))
    try:
        if rest == REST_ERROR:
            raise what
        answer = [] if what is None or kind != CELL else _value_fields(what)
        _at_exit()
    except BaseException as error:
        answer, code = _failure(error, kind, name)
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


_template_warm_up = ""
_space: dict[str, Any] = {}


def _in_box(warm: int) -> None:
    """First thing in a new box, where there is anything to do."""
    reseed.apply()
    if warm and _template_warm_up:
        exec(_template_warm_up, {"__builtins__": builtins})


def prepare(template_warm_up: str) -> None:
    """In the zygote: everything that can be done once, so that boxes need not."""
    global _template_warm_up, _space
    _template_warm_up = template_warm_up
    _open_stdio()
    _space = _new_space()
    if template_warm_up:
        exec(template_warm_up, {"__builtins__": builtins})
    execute({KIND: b"\x01", CODE: b"x = 1\nx"}, {"__builtins__": builtins}, False)
    linecache.cache.clear()
    sys.path.insert(0, "/workspace")
    has_work = reseed.prepare() or bool(template_warm_up)
    reseed.apply()  # once here, for what it makes lazily
    _husk.prepare(
        _space,
        threading._active,  # type: ignore[attr-defined]
        atexit._ncallbacks,
        _in_box if has_work else None,
    )


def _end_once(rest: int, what: Any, fields: Fields) -> None:
    """What C could not do for a single-use box."""
    single = _prepare(fields)
    if rest == REST_ALL:
        answer = execute(single, _space, True)
    else:
        answer = _conclude(rest, what, single)
    try:
        _send_files(fields)
        _husk.send(DONE, answer)
        # Stay until the end comes from outside: a sleeping process's CPU time is fully counted.
        _husk.recv()
    except OSError:
        pass  # user code closed the socket: the exit code alone must do
    os._exit(int.from_bytes(answer[-1][1], "little"))


def _serve_context() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _husk.mute()
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
            answer = execute(_prepare(fields), _space, False)
            _send_files(fields)
            _husk.mute()
            _husk.send(DONE, answer)
        except KeyboardInterrupt:
            continue  # an interrupt that came after its cell had ended


def _branch(fd: int) -> None:
    """Forks this context with all its variables; the copy answers on its own socket.

    Forked twice, so that PID 1 becomes its parent and can tell how it ends.
    """
    between = os.fork()
    if between:
        os.close(fd)
        os.waitpid(between, 0)
        return
    if os.fork():
        os._exit(0)
    _husk.adopt(fd)
    reseed.apply()
    _husk.ready()


def refuse(error: OSError) -> NoReturn:
    """A run that could not be started: said as its result."""
    fields = [(ERROR_TYPE, b"OSError"), (ERROR_MESSAGE, _text(str(error), MESSAGE_MAX))]
    _husk.send(DONE, [*fields, (EXIT, _u32(126))])
    os._exit(126)


def serve(rest: int, what: Any, fields: Fields) -> None:
    """In a new box, with what _husk.zygote() left to do."""
    if rest == REST_SESSION:
        _husk.session()  # PID 1 stays in there; a context comes out
        reseed.apply()
        _serve_context()
    else:
        _end_once(rest, what, fields)
