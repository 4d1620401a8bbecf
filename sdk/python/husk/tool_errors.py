# SPDX-License-Identifier: Apache-2.0
"""Errors of tool calls, on every engine.

An exception that the tool itself raises reaches the caller with its own type. The errors here mean
that the call could not be made, or that the worker died during it.
"""

from __future__ import annotations

from typing import Optional

from husk.errors import HuskError


class ToolError(HuskError):
    """A tool call failed."""


class ToolTimeout(ToolError, TimeoutError):
    """The tool exceeded its timeout and was killed. On Ray, the timeout includes scheduling."""


class ToolCrashed(ToolError):
    """The worker process ended in the middle of the call.

    Attributes:
        exit_code: exit code of the process; None if a signal killed it or the code is unknown.
        signal: number of the signal that killed it, else None.
        oom: whether it was killed for exceeding its memory limit.
    """

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    oom: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        exit_code: Optional[int] = None,
        signal: Optional[int] = None,
        oom: bool = False,
        detail: str = "",
        solution: str = "",
    ) -> None:
        super().__init__(message, detail=detail, solution=solution)
        self.exit_code = exit_code
        self.signal = signal
        self.oom = oom


class ToolOutOfMemory(ToolCrashed, MemoryError):
    """The worker exceeded the memory limit of the tool, and the kernel killed it."""


class ToolOutputTooLarge(ToolError):
    """The tool exceeded the output limit of one call and was killed."""


class ToolArgumentError(ToolError, TypeError):
    """An argument cannot be sent to the worker.

    Attributes:
        argument: its name in the tool's signature; `*args[N]` for an extra positional argument.
    """

    argument: str = ""

    def __init__(self, message: str = "", *, argument: str = "", solution: str = "") -> None:
        super().__init__(message, solution=solution)
        self.argument = argument


class ToolResultError(ToolError, TypeError):
    """The tool's result cannot be sent back: it cannot be pickled, or is too large."""


class ToolFunctionError(ToolError, TypeError):
    """The function itself cannot be sent to a worker, or cannot be loaded there."""


class ToolResourceError(ToolError):
    """This machine lacks a resource that the tool requires, for example a GPU."""


class ToolRaised(ToolError):
    """The tool raised an exception that cannot be raised again in this process.

    Either its class cannot be rebuilt here, or it would mean something else to the caller, such as
    KeyboardInterrupt.

    Attributes:
        type_name: the name of its class.
    """

    type_name: str = ""

    def __init__(self, message: str = "", *, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class ToolTraceback(HuskError):
    """The traceback in the worker, as text; the `__cause__` of an exception of a tool."""

    def __str__(self) -> str:
        return f"\n{self.message}"
