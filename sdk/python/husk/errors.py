# SPDX-License-Identifier: Apache-2.0
"""Every exception that husk raises on purpose; all derive from HuskError.

What the *program in the sandbox* did is never raised by itself: it is in the result (`result.ok`,
`result.error`), and `result.check()` turns it into one of the RunError classes. Exceptions mean
that *husk* could not do what was asked.
"""

from __future__ import annotations

from typing import Any


class HuskError(Exception):
    """Something that husk could not do.

    Attributes:
        code: machine-readable name, such as `Sandbox.SessionNotFound`; empty when no server was
            involved.
        message: one sentence that says what went wrong.
        detail: what exactly, in this case.
        solution: what to do about it.
        request_id: names the request in the server's log; empty when there was none.
        status: HTTP status of the answer; 0 when there was none.
    """

    code: str = ""

    def __init_subclass__(cls, code: str = "") -> None:
        super().__init_subclass__()
        if code:
            cls.code = code

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        detail: str = "",
        solution: str = "",
        request_id: str = "",
        status: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = type(self).code if code is None else code
        self.detail = detail
        self.solution = solution
        self.request_id = request_id
        self.status = status

    def __str__(self) -> str:
        text = (self.message or type(self).__name__).rstrip(".")
        detail = self.detail.rstrip(".")
        if detail and detail.lower() != text.lower():
            text += f": {detail}"
        return f"{text}. {self.solution}" if self.solution else text

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process borders (workers, Ray); keyword arguments would be lost
        # otherwise.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[HuskError], message: str, fields: dict[str, Any]) -> HuskError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


def text_of(error: BaseException) -> str:
    """The text of any exception, also of one that raises when it is asked for it."""
    try:
        return str(error)
    except Exception:
        return "(its text could not be made)"


# ---- one per error code of the server ----


class InvalidParameterError(HuskError, ValueError, code="Sandbox.InvalidParameter"):
    """The request is not valid; `detail` names the field and what is allowed."""


class ForbiddenError(HuskError, PermissionError, code="Sandbox.Forbidden"):
    """The server does not answer under this name, or not to this origin."""


class NotFoundError(HuskError, code="Sandbox.NotFound"):
    """What was asked for does not exist."""


class SessionNotFoundError(NotFoundError, code="Sandbox.SessionNotFound"):
    """The session does not exist, or its record is no longer kept."""


class ExecutionNotFoundError(NotFoundError, code="Sandbox.ExecutionNotFound"):
    """The execution does not exist."""


class TemplateNotFoundError(NotFoundError, code="Sandbox.TemplateNotFound"):
    """The template does not exist."""


class ContainerNotFoundError(NotFoundError, code="Sandbox.ContainerNotFound"):
    """The sandbox with this container id does not exist."""


class WorkspaceFileNotFoundError(NotFoundError, FileNotFoundError, code="Sandbox.FileNotFound"):
    """The file or directory does not exist in the workspace."""


class MethodNotAllowedError(HuskError, code="Sandbox.MethodNotAllowed"):
    """The address does not have this method: client and server are of different versions."""


class RequestTimeoutError(HuskError, TimeoutError, code="Sandbox.RequestTimeout"):
    """The request took too long; an execution that it started goes on and is named in `detail`."""


class ConflictError(HuskError, code="Sandbox.Conflict"):
    """The current state does not allow this; `detail` names the state."""


class TooLargeError(HuskError, ValueError, code="Sandbox.TooLarge"):
    """The request is larger than the server takes."""


class RangeNotSatisfiableError(HuskError, ValueError, code="Sandbox.RangeNotSatisfiable"):
    """The range lies outside the file."""


class TooManyRequestsError(HuskError, code="Sandbox.TooManyRequests"):
    """A limit of the server is reached; `retry_after` is the time in seconds that it asks to
    wait.
    """

    retry_after: float = 1.0


class ExecTimeoutError(HuskError, TimeoutError, code="Sandbox.ExecTimeout"):
    """An execution of `/workspace/se` took too long."""


class IsolationMissingError(HuskError, code="Sandbox.IsolationMissing"):
    """The isolation that is asked for cannot be had on this host; nothing was run with less."""


class NotOfferedError(HuskError, NotImplementedError, code="Sandbox.NotImplemented"):
    """The server does not do this."""


class UnavailableError(HuskError, code="Sandbox.Unavailable"):
    """The server cannot do this now: it starts, stops, or lacks a part of itself."""

    retry_after: float = 1.0


class DiskFullError(HuskError, code="Sandbox.DiskFull"):
    """The disk of the server or of the sandbox cannot take this."""


class QuotaExceededError(DiskFullError, code="Sandbox.QuotaExceeded"):
    """No more can be kept of the session, or of all sessions of the server."""


class InternalError(HuskError, code="Sandbox.InternalError"):
    """The server failed; its log has more under `request_id`."""


class NotInitializedError(UnavailableError, code="Sandbox.NotInitialized"):
    """The sandboxes of `/workspace/se` are not ready."""


class ExecFailedError(HuskError, code="Sandbox.ExecException"):
    """An execution of `/workspace/se` failed."""


class TooManyExecutionsError(TooManyRequestsError, code="Sandbox.TooManyRequestsExection"):
    """Too many executions of `/workspace/se` at once."""


class UnauthorizedError(HuskError, PermissionError):
    """Something between here and the server, such as a proxy, wants credentials."""


# ---- the way to the server ----


class ServerNotFoundError(HuskError, ConnectionError):
    """The server that was named does not answer, or is no huskd."""


class ServerStartError(HuskError):
    """A server of this process's own could not be started; `detail` is what it said."""


class ProgramNotFoundError(HuskError, FileNotFoundError):
    """A program of husk is not where it is looked for."""


class ConnectionLostError(HuskError, ConnectionError):
    """The connection broke before the answer was complete.

    Whether the request was done is not known, which is why it was not repeated.
    """


class AnswerTimeoutError(HuskError, TimeoutError):
    """The server did not answer in time."""


# ---- what was lost ----


class SandboxLostError(HuskError):
    """What a held sandbox had is gone.

    Attributes:
        session_id: the session that it is about.
    """

    session_id: str = ""


class SessionEndedError(SandboxLostError):
    """The session has ended: variables and files are gone. Make a new Sandbox."""


class InterpreterLostError(SandboxLostError):
    """The sandbox's interpreter is gone with all variables; its files are there as last saved.

    The session itself goes on: the next run starts with a fresh interpreter.

    Attributes:
        result: when the loss was noticed only after a run: its result, of the fresh interpreter.
    """

    result: Any = None


class SandboxClosedError(HuskError, ValueError):
    """The Sandbox or Client object was closed before."""


class NotOwnerError(HuskError, PermissionError):
    """Only the Sandbox object that made a session, in the process that made it, ends it."""


# ---- what the program did; raised by result.check() only ----


class RunError(HuskError):
    """The program in the sandbox did not end well.

    Attributes:
        result: the whole result, with output until then.
    """

    result: Any = None


class RunFailedError(RunError):
    """It raised an exception or ended with another exit code than 0."""


class RunTimeoutError(RunError, TimeoutError):
    """Its time was up."""


class RunMemoryError(RunError, MemoryError):
    """Its memory was used up."""


class RunCancelledError(RunError):
    """It was cancelled."""


class RunCrashedError(RunError):
    """A signal or a forbidden system call ended it, or its sandbox broke."""


class RunLostError(RunError):
    """Nobody knows how it ended: the server was lost while it ran."""


# ---- the sandbox functions, and Ray ----


class BackendUnavailableError(HuskError):
    """Another isolation than husk's own was asked for (a container image, gVisor, Kubernetes), and
    it is not here.
    """


class EgressUnavailableError(HuskError):
    """A way out of the sandbox was asked for, and there is none."""


class VolumeError(HuskError, ValueError):
    """A volume cannot be had, or what the sandbox left in it cannot be taken back; `detail` names
    the path.
    """


class UnknownSessionError(HuskError, ValueError):
    """There is no session of that name; nothing was run in it yet, or it was cleaned up."""


class NodeLostError(SandboxLostError):
    """The Ray node or the process that held the sandbox is gone, and with it variables and
    files.
    """


class RayMissingError(HuskError, ImportError):
    """Ray was asked for and is not installed, or is too old."""


class ServeError(HuskError):
    """An agent cannot be served on Ray Serve."""


# ---- served agents ----


class AgentTypeError(HuskError, TypeError):
    """An object that husk cannot serve; the message names its type."""


class AgentLoadError(HuskError):
    """An agent's file that cannot be served: `message` is one line, `traceback` the rest."""

    traceback: str = ""


class AgentRunError(HuskError, RuntimeError):
    """A framework reported in its result that the run failed; the message is what it said."""
