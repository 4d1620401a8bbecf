# SPDX-License-Identifier: Apache-2.0
"""What a normal end of the interpreter does, for a program whose interpreter is killed instead."""

import _thread
import atexit
import sys
import threading
from typing import Any, Optional

import _husk
from wire import HANDLER

FLUSH_SECONDS = 1

_settrace, _setprofile = sys.settrace, sys.setprofile


def at_exit(kind: int) -> None:
    """Waits for threads and runs exit functions. Errors change nothing."""
    try:
        if kind != HANDLER and threading.active_count() > 1:  # a handler has answered
            threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        pass
    try:
        if atexit._ncallbacks():
            atexit._run_exitfuncs()
    except BaseException:  # until 3.9; it has been shown
        pass


def _flush_beside_threads() -> None:
    """A thread may hold a file for ever, for example while it writes to a pipe without a reader."""
    is_open = _thread.allocate_lock()
    is_open.acquire()

    def flush() -> None:
        _husk.flush_files()
        is_open.release()

    try:
        _thread.start_new_thread(flush, ())
        is_open.acquire(timeout=FLUSH_SECONDS)
    except BaseException:  # no thread can be started; an interrupt
        pass


# A warning names the line that runs. At the end that would be one of ours; Python prints "sys:1".
_let_go = compile("_husk.finalise(space)", "sys", "eval")


def finalise(space: dict[str, Any], error: Optional[BaseException]) -> None:
    """Frees what is left: files are flushed, __del__ is called. Nothing in here changes the
    result.
    """
    try:
        if error is not None:  # its frames hold their variables
            error.__traceback__ = error.__context__ = error.__cause__ = None
    except BaseException:
        pass
    _settrace(None)  # a trace function is freed with the rest
    _setprofile(None)
    if _thread._count():  # daemon threads still use it
        _flush_beside_threads()
    else:
        eval(_let_go, {"_husk": _husk, "space": space})
        _husk.flush_files()
