# SPDX-License-Identifier: Apache-2.0
"""Runs user code inside a box: one program, or the cells of a session.

Everything that this file sends is a claim about code that shares its process; the far end treats it
so. The path from `_husk.cell` to `_husk.done` is what users wait for: it imports nothing and
touches little memory.
"""

import _thread
import atexit
import builtins
import io
import linecache
import os
import signal
import sys
import types
from typing import Any, NoReturn, Optional

import _husk
import artifacts
import reseed
import sources
from ending import at_exit, finalise
from evaluate import evaluate, value_fields, variables
from failure import failure, flush
from policy import PolicyViolation, may_break_a_rule
from wire import ARG, ARTIFACTS, BRANCH, CELL, CODE, ENV, ERROR_MESSAGE, ERROR_TYPE, EXIT, GET
from wire import KIND, MESSAGE_MAX, NAME, POLICY, PRINT, PYRUNNER, SCRIPT, VARIABLE
from wire import Fields, text, u32

_getpid = os.getpid  # user code may replace it

REST_ALL, REST_VALUE, REST_ERROR, REST_SESSION = 0, 1, 2, 3  # src/runner/module.h


def _open_stdio() -> None:
    """Unbuffered, as PYTHONUNBUFFERED says: what was printed before a kill is not lost."""
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, "r", closefd=False)),
        encoding="utf-8",
        errors="surrogateescape",
    )
    streams = []
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(
            _husk.Writer(io.FileIO(fd, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace" if fd == 2 else "surrogateescape",
            write_through=True,
        )
        setattr(sys, name, stream)
        setattr(sys, "__" + name + "__", stream)
        streams.append(stream)
    sys.__stdin__ = sys.stdin
    _husk.unbuffer(*streams)


def _kind(fields: dict[int, bytes]) -> int:
    return fields[KIND][0] if KIND in fields else SCRIPT


def _name(fields: dict[int, bytes]) -> str:
    name = fields[NAME].decode("utf-8", "replace") if NAME in fields else "<cell>"
    return name if name != "<cell>" else _husk.cell_name()


def _finish(
    answer: Fields,
    error: Optional[BaseException],
    fields: dict[int, bytes],
    space: dict[str, Any],
    ends: bool,
) -> Fields:
    """What follows a piece of code that has run. Returns the fields of its DONE frame."""
    code = 0
    if error is not None:
        answer, code = failure(error, _kind(fields), _name(fields))
    if ends:
        at_exit(_kind(fields))
    if VARIABLE in fields and not isinstance(error, PolicyViolation):
        answer += variables(space, fields)
    if ends:
        finalise(space, error)
    flush()
    answer.append((EXIT, u32(code)))
    return answer


def execute(fields: dict[int, bytes], space: dict[str, Any], ends: bool) -> Fields:
    """Runs one piece of code. Returns the fields of its DONE frame."""
    kind, name = _kind(fields), _name(fields)
    answer: Fields = []
    error = None
    try:
        source = fields[CODE].decode("utf-8")
        sources.remember(name, source)
        answer = evaluate(kind, source, name, space, fields)
    except BaseException as raised:
        error = raised
    try:
        return _finish(answer, error, fields, space, ends)
    finally:
        del error  # its frames refer to this one: a cycle, with all their variables


def _conclude(rest: int, what: Any, fields: dict[int, bytes], ends: bool) -> Fields:
    """Ends a run that C began: it has a value to report, or an exception."""
    answer: Fields = []
    error = what if rest == REST_ERROR else None
    sources.remember(_name(fields), fields[CODE].decode("utf-8", "replace"))
    try:
        if rest == REST_VALUE and what is not None and _kind(fields) == CELL:
            answer = value_fields(what)
    except BaseException as raised:
        error = raised
    try:
        return _finish(answer, error, fields, _space, ends)
    finally:
        del error  # as above


_replaced: dict[str, Optional[str]] = {}  # what the last cell's variables were before; None: absent


def _put_back(variable: str) -> None:
    value = _replaced[variable]
    try:
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
    except Exception:
        pass  # user code may have replaced it
    del _replaced[variable]


def _set_environment(given: dict[str, str]) -> None:
    """Applies the variables of this cell and removes those of an earlier one.

    Not at the end of that one: no interrupt can come between, and what every cell of a session gets
    stays for threads that go on between cells.
    """
    for variable in _replaced.keys() - given.keys():
        _put_back(variable)
    for variable, value in given.items():
        _replaced.setdefault(variable, os.environ.get(variable))
        os.environ[variable] = value


def _prepare(fields: Fields) -> dict[int, bytes]:
    """Applies arguments and environment; returns the single-valued fields."""
    single: dict[int, bytes] = {}
    args: list[str] = []
    given: dict[str, str] = {}
    for key, data in fields:
        if key == ARG:
            args.append(data.decode("utf-8", "surrogateescape"))
        elif key == ENV:
            variable, _, value = data.decode("utf-8", "surrogateescape").partition("=")
            given[variable] = value
        elif key == VARIABLE:
            single[key] = single.get(key, b"") + data + b"\0"
        else:
            single[key] = data
    _set_environment(given)
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


def _rehearse() -> None:
    """Does once what is done for a run that is more than a print: a value, and the checks of
    /run.
    """
    arguments = sys.argv
    for code, options in (
        (b"x = 1\nx", [(KIND, b"\x01")]),
        (b"x = 1\nNone", [(PRINT, b""), (POLICY, PYRUNNER)]),
    ):
        fields = [(NAME, b"<cell>"), (CODE, code), *options]
        execute(_prepare(fields), {"__builtins__": builtins}, True)
    sys.argv = arguments
    linecache.cache.clear()


def _warm_up_space() -> dict[str, Any]:
    """For a template's warm-up: boxes whose template says `warm = rehearse()` park with all this
    done.
    """
    return {"__builtins__": builtins, "rehearse": _rehearse}


def _in_box(warm: int) -> None:
    """First thing in a new box, where there is anything to do."""
    reseed.apply()
    if warm and _template_warm_up:
        exec(_template_warm_up, _warm_up_space())


def prepare(template_warm_up: str) -> None:
    """In the zygote: everything that can be done once, so that boxes need not."""
    global _template_warm_up, _space
    _template_warm_up = template_warm_up
    _open_stdio()
    sys.argv = ["<cell>"]  # C changes it only for a program that has a name of its own
    _space = _new_space()
    if template_warm_up:
        exec(template_warm_up, _warm_up_space())
    _rehearse()
    sources.prepare()
    sys.path.insert(0, "/workspace")
    has_work = reseed.prepare() or bool(template_warm_up)
    reseed.apply()  # once here, for what it makes lazily
    _husk.prepare(
        _space,
        _thread._count,
        atexit._ncallbacks,
        _in_box if has_work else None,
        may_break_a_rule,
    )


def _end_once(rest: int, what: Any, fields: Fields) -> None:
    """What C could not do for a single-use box."""
    single = _prepare(fields)
    if rest == REST_ALL:
        answer = execute(single, _space, True)
    else:
        answer = _conclude(rest, what, single, True)
    code = int.from_bytes(answer[-1][1], "little")
    if not _husk.run_is_open():
        os._exit(code)  # forked by the program: only its parent waits for it
    try:
        _send_files(fields)
        _husk.done(answer)
        _husk.wait_for_end()  # a sleeping process's CPU time is fully counted
    except OSError:
        pass  # user code closed the socket: only the exit code is left
    os._exit(code)


def _cell(fields: dict[int, bytes]) -> Fields:
    if ARTIFACTS not in fields:
        return execute(fields, _space, False)
    start = artifacts.now()
    answer = execute(fields, _space, False)
    try:
        return [(ARTIFACTS, artifacts.since(start)), *answer]
    except Exception:  # user code may have replaced what this uses; its result counts
        return answer


def _serve_context() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _husk.mute()
    _husk.ready()
    while True:
        process = _getpid()
        try:
            request = _husk.cell(not _replaced)
            if request is None:
                os._exit(0)
            (rest, what, fields), kind, fd = request
            if kind == BRANCH and fd >= 0:
                if _husk.branch(fd):
                    reseed.apply()
                    _husk.ready()
                continue
            single = _prepare(fields)
            answer = _cell(single) if rest == REST_ALL else _conclude(rest, what, single, False)
            if _getpid() != process:
                os._exit(int.from_bytes(answer[-1][1], "little"))  # forked by the cell: no context
            _send_files(fields)
            _husk.done(answer, True)
        except KeyboardInterrupt:
            if _getpid() != process:
                os._exit(130)  # as above
            # The interrupt arrived between the user's code and its answer, or later: then no run
            # is open.
            _husk.done([(ERROR_TYPE, b"KeyboardInterrupt"), (EXIT, u32(130))], True)


def refuse(error: OSError) -> NoReturn:
    """A run that could not be started: reported as its result."""
    fields = [(ERROR_TYPE, b"OSError"), (ERROR_MESSAGE, text(str(error), MESSAGE_MAX))]
    _husk.done([*fields, (EXIT, u32(126))])
    os._exit(126)


def serve(rest: int, what: Any, fields: Fields) -> None:
    """In a new box, with what _husk.zygote() left to do."""
    if rest == REST_SESSION:
        _husk.session()  # PID 1 never returns; a context does
        reseed.apply()
        _serve_context()
    else:
        _end_once(rest, what, fields)
