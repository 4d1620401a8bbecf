# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a tool, apart from what the tool itself raises.

What a tool raises reaches its caller as the same exception type; the errors here say that the call
could not be made or that the worker did not survive it. They are for both engines.
"""

from __future__ import annotations

from typing import Optional

from husk.errors import HuskError


class ToolError(HuskError):
    """A tool could not be run to its end."""


class ToolTimeout(ToolError, TimeoutError):
    """The tool ran longer than its timeout and was ended. On Ray, the time until it is placed
    counts as well.
    """


class ToolCrashed(ToolError):
    """The worker process ended in the middle of the call.

    Attributes:
        exit_code: what the process exited with; None when a signal ended it or nobody knows.
        signal: number of the signal that ended it, else None.
        oom: whether it was killed for using more memory than its limit.
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
    """The worker used more memory than the tool asked for, and the kernel killed it."""


class ToolOutputTooLarge(ToolError):
    """The tool wrote more to its output than one call may, and was ended."""


class ToolArgumentError(ToolError, TypeError):
    """An argument cannot be sent to the worker.

    Attributes:
        argument: its name in the tool's signature; `*args[N]` for a surplus positional one.
    """

    argument: str = ""

    def __init__(self, message: str = "", *, argument: str = "", solution: str = "") -> None:
        super().__init__(message, solution=solution)
        self.argument = argument


class ToolResultError(ToolError, TypeError):
    """What the tool returned cannot be sent back: it cannot be pickled, or is too large."""


class ToolFunctionError(ToolError, TypeError):
    """The function itself cannot be sent to a worker, or cannot be loaded there."""


class ToolResourceError(ToolError):
    """This machine does not have what the tool asks for, for example a GPU."""


class ToolRaised(ToolError):
    """The tool raised something that cannot be raised again here.

    That is an exception whose class cannot be rebuilt in this process, or one that means something
    else to the caller than to the tool, such as KeyboardInterrupt.

    Attributes:
        type_name: the name of its class.
    """

    type_name: str = ""

    def __init__(self, message: str = "", *, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class ToolTraceback(HuskError):
    """The traceback in the worker, as text; the `__cause__` of what a tool raised."""

    def __str__(self) -> str:
        return f"\n{self.message}"
