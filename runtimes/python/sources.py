# SPDX-License-Identifier: Apache-2.0
"""The source lines of tracebacks: no file on disk holds them, and all cells of a session have the same name."""

import io
import linecache
import traceback
import types
import warnings
from typing import Any, Iterator

_last = ""  # the source that was remembered last
_are_cells = False


def begin_session() -> None:
    global _are_cells
    _are_cells = True


def remember(name: str, source: str) -> None:
    global _last
    _last = source
    lines = io.StringIO(source, None).readlines()  # at the ends of lines that the compiler knows
    if lines and lines[-1][-1] != "\n":
        lines[-1] += "\n"
    linecache.cache[name] = (len(source), None, lines, name)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _codes_of_cell(error: BaseException, name: str) -> set[types.CodeType]:
    """Code that is equal was written alike. The outermost frame is this cell's in any case."""
    outermost = error.__traceback__
    if outermost is None:
        return set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # given when it was compiled to run
        whole = compile(_last, name, "exec", dont_inherit=True)
    return {outermost.tb_frame.f_code, *_codes(whole)}


def _hide_others(shown: Any, error: Any, name: str) -> None:
    """Takes the lines from frames of earlier cells: those lines are gone, this cell's would be shown."""
    own = _codes_of_cell(error, name)
    pairs = [(shown, error)]
    while pairs:
        shown, error = pairs.pop()
        if shown is None or error is None:
            continue
        for i, (frame, _) in enumerate(traceback.walk_tb(error.__traceback__)):
            if frame.f_code.co_filename != name or frame.f_code in own or i >= len(shown.stack):
                continue
            known = shown.stack[i]
            shown.stack[i] = traceback.FrameSummary(
                name, known.lineno, known.name, lookup_line=False, line=""
            )
        pairs += [(shown.__cause__, error.__cause__), (shown.__context__, error.__context__)]
        pairs += zip(getattr(shown, "exceptions", None) or (), getattr(error, "exceptions", ()))


def _add_line(error: BaseException, name: str) -> None:
    """The compiler looks for it on disk when it has the syntax tree alone."""
    is_ours = error.__traceback__ is None  # this code never started
    if is_ours and isinstance(error, SyntaxError) and (error.filename, error.text) == (name, None):
        error.text = linecache.getline(name, error.lineno or 0) or None


def format_exception(error: BaseException, name: str) -> str:
    _add_line(error, name)
    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    if _are_cells:
        _hide_others(shown, error, name)
    return "".join(shown.format())
