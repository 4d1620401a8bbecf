# SPDX-License-Identifier: Apache-2.0
"""What a normal end of the interpreter does, for a program whose interpreter is ended from outside."""

import _thread
import atexit
import sys
import threading
from typing import Any, Optional

import _husk
from wire import HANDLER

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


# A warning names the line that runs. At the end that would be one of ours; Python says "sys:1" then.
_let_go = compile("_husk.finalise(space)", "sys", "eval")


def finalise(space: dict[str, Any], error: Optional[BaseException]) -> None:
    """Lets go of what is left: files are flushed, __del__ is called. Nothing in here changes the result."""
    try:
        if error is not None:  # its frames hold their variables
            error.__traceback__ = error.__context__ = error.__cause__ = None
    except BaseException:
        pass
    _settrace(None)  # what they call goes with the rest
    _setprofile(None)
    if not _thread._count():  # threads that nobody waits for still use it
        eval(_let_go, {"_husk": _husk, "space": space})
    _husk.flush_files()
