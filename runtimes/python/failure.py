# SPDX-License-Identifier: Apache-2.0
"""The report about code that raised, and what the interpreter prints of it."""

import os
import sys
import types
from typing import Any, Optional

import sources
from policy import PolicyViolation
from wire import ERROR_MESSAGE, ERROR_TYPE, MESSAGE_MAX, SCRIPT, TRACEBACK, VALUE_MAX, Fields, text

_excepthook = sys.__excepthook__  # user code may replace it


def flush() -> None:
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            pass  # user code may have closed or replaced it; the pipe itself is not affected


def _user_traceback(error: BaseException, name: str) -> Optional[types.TracebackType]:
    """The traceback from the user's first line on; None when the code never started
    (SyntaxError).
    """
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != name:
        tb = tb.tb_next
    return tb


def _describe(error: BaseException, name: str) -> Fields:
    try:
        # Also for a hook of the user, which may read only the exception.
        BaseException.with_traceback(error, _user_traceback(error, name))
        shown = sources.format_exception(error, name)
        message = str(error)
    except BaseException as second:  # a hostile __str__
        shown = f"{type(error).__name__}: <its message cannot be shown: {type(second).__name__}>\n"
        message = ""
    return [
        (ERROR_TYPE, text(type(error).__name__, 256)),
        (ERROR_MESSAGE, text(message, MESSAGE_MAX)),
        (TRACEBACK, text(shown, VALUE_MAX)),
    ]


def _exit_code(stop: SystemExit) -> int:
    """What the interpreter makes of sys.exit(): None is 0, an int itself, anything else is printed
    and 1.
    """
    try:
        code: Any = stop.code
        if code is None:
            return 0
        if issubclass(type(code), int):
            number = int.__index__(code)  # it may have operators of its own
            return number & 0xFF if -(1 << 63) <= number < 1 << 63 else 0xFF
        sys.stderr.write(str(code) + "\n")
    except BaseException:  # a hostile __str__, a closed stream
        pass
    return 1


def _show(error: BaseException, shown: bytes, name: str) -> None:
    """What the interpreter does with a script's exception. Raises SystemExit if the user's hook
    does.
    """
    hook = getattr(sys, "excepthook", _excepthook)
    if hook is not _excepthook:
        try:
            hook(type(error), error, error.__traceback__)
            return
        except SystemExit:
            raise
        except BaseException as second:
            why = _describe(second, name)[-1][1]
            shown = b"Error in sys.excepthook:\n%b\nOriginal exception was:\n%b" % (why, shown)
    # The built-in hook would look for the source on disk.
    flush()
    try:
        os.write(2, shown)
    except OSError:
        pass  # closed


def failure(error: BaseException, kind: int, name: str) -> tuple[Fields, int]:
    """The report about code that raised."""
    if isinstance(error, SystemExit):
        return [], _exit_code(error)
    if isinstance(error, PolicyViolation):
        return [(ERROR_TYPE, b"PolicyViolation"), (ERROR_MESSAGE, text(str(error), MESSAGE_MAX))], 1
    answer, code = _describe(error, name), 130 if isinstance(error, KeyboardInterrupt) else 1
    if kind == SCRIPT:
        try:
            _show(error, answer[-1][1], name)
        except SystemExit as stop:
            code = _exit_code(stop)
    return answer, code
