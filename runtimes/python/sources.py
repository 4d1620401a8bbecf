# SPDX-License-Identifier: Apache-2.0
"""The source lines of tracebacks, for which no file on disk exists (src/runner/module_source.c)."""

import io
import linecache
import sys
import threading
import traceback
from typing import Any

import _husk


CELLS_KEPT = 1000  # whose source is still shown, as in C

_remembered: list[str] = []


class _Cache(dict[str, Any]):
    """linecache's cache, which fetches code that C ran only when it is read."""

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        try:
            source = _husk.source(name)
        except (TypeError, ValueError):  # not a name of ours
            return False
        if source is not None:
            remember(str(name), source.decode("utf-8", "replace"))
        return source is not None

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


def _show_end_of_thread(args: Any) -> None:
    """As threading.excepthook, which would look for the source on disk."""
    thread = args.thread
    stderr = sys.stderr if sys.stderr is not None else getattr(thread, "_stderr", None)
    if args.exc_type is SystemExit or stderr is None:
        return
    name = thread.name if thread is not None else threading.get_ident()
    print(f"Exception in thread {name}:", file=stderr, flush=True)
    traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback, file=stderr)
    stderr.flush()


def prepare() -> None:
    """In the zygote, once nothing is rehearsed any more."""
    linecache.cache = _Cache(linecache.cache)
    threading.excepthook = threading.__excepthook__ = _show_end_of_thread  # type: ignore[attr-defined]


def remember(name: str, source: str) -> None:
    lines = io.StringIO(source, None).readlines()  # at the ends of lines that the compiler knows
    if lines and lines[-1][-1] != "\n":
        lines[-1] += "\n"
    linecache.cache[name] = (len(source), None, lines, name)
    _remembered.append(name)
    if len(_remembered) > CELLS_KEPT:
        linecache.cache.pop(_remembered.pop(0), None)


def _add_line(error: BaseException, name: str) -> None:
    """The compiler looks for it on disk when it has the syntax tree alone."""
    is_ours = error.__traceback__ is None  # this code never started
    if is_ours and isinstance(error, SyntaxError) and (error.filename, error.text) == (name, None):
        error.text = linecache.getline(name, error.lineno or 0) or None


def format_exception(error: BaseException, name: str) -> str:
    _add_line(error, name)
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
