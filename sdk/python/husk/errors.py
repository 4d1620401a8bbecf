# SPDX-License-Identifier: Apache-2.0
"""Every exception that husk raises on purpose; all derive from HuskError.

A failure of the *program in the sandbox* is not raised. It is in the result (`result.ok`,
`result.error`), and `result.check()` raises it as one of the RunError classes. Any other exception
means that *husk* failed.
"""

from __future__ import annotations

from typing import Any


class HuskError(Exception):
    """An operation of husk failed.

    Attributes:
        code: machine-readable name, such as `Sandbox.SessionNotFound`; empty when no server was
            involved.
        message: what failed, in one sentence.
        detail: why it failed.
        solution: what to do about it.
        request_id: identifies the request in the server's log; empty when there was no request.
        status: HTTP status of the answer; 0 when there was no answer.
        begun: whether the code of a run may have been executed; None when the error is not about a
            run. False means that nothing had begun.
        queue_ms: how long the run waited, in milliseconds.
        execution_id: the execution that failed; empty when there is no record.
    """

    code: str = ""
    begun: bool | None = None
    queue_ms: float = 0.0
    execution_id: str = ""

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
        # Exceptions travel between processes (workers, Ray), and pickle drops keyword arguments.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[HuskError], message: str, fields: dict[str, Any]) -> HuskError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


def text_of(error: BaseException) -> str:
    """Returns the text of an exception, even if its `__str__` raises."""
    try:
        return str(error)
    except Exception:
        return "(its __str__ failed)"


# ---- one per error code of the server ----


class InvalidParameterError(HuskError, ValueError, code="Sandbox.InvalidParameter"):
    """The request is not valid; `detail` names the field and what is allowed."""


class ForbiddenError(HuskError, PermissionError, code="Sandbox.Forbidden"):
    """The server does not accept this Host or Origin header."""


class NotFoundError(HuskError, code="Sandbox.NotFound"):
    """The requested object does not exist."""


class SessionNotFoundError(NotFoundError, code="Sandbox.SessionNotFound"):
    """The session does not exist, or its record has expired."""


class ExecutionNotFoundError(NotFoundError, code="Sandbox.ExecutionNotFound"):
    """The execution does not exist."""


class TemplateNotFoundError(NotFoundError, code="Sandbox.TemplateNotFound"):
    """The template does not exist."""


class ContainerNotFoundError(NotFoundError, code="Sandbox.ContainerNotFound"):
    """The sandbox with this container id does not exist."""


class WorkspaceFileNotFoundError(NotFoundError, FileNotFoundError, code="Sandbox.FileNotFound"):
    """The file or directory does not exist in the workspace."""


class MethodNotAllowedError(HuskError, code="Sandbox.MethodNotAllowed"):
    """The route does not accept this method: client and server have different versions."""


class RequestTimeoutError(HuskError, TimeoutError, code="Sandbox.RequestTimeout"):
    """The request took too long. An execution that it started continues; `detail` has its id."""


class ConflictError(HuskError, code="Sandbox.Conflict"):
    """The current state does not allow this; `detail` names the state."""


class UnsupportedError(HuskError, code="Sandbox.Unsupported"):
    """This kind of thing cannot do that: a JavaScript context cannot be copied."""


class TooLargeError(HuskError, ValueError, code="Sandbox.TooLarge"):
    """The request exceeds the server's size limit."""


class RangeNotSatisfiableError(HuskError, ValueError, code="Sandbox.RangeNotSatisfiable"):
    """The range lies outside the file."""


class TooManyRequestsError(HuskError, code="Sandbox.TooManyRequests"):
    """A limit of the server is reached; retry after `retry_after` seconds."""

    retry_after: float = 1.0


class ExecTimeoutError(HuskError, TimeoutError, code="Sandbox.ExecTimeout"):
    """An execution of `/workspace/se` took too long."""


class IsolationMissingError(HuskError, code="Sandbox.IsolationMissing"):
    """This host cannot provide the requested isolation. Nothing was run with less."""


class NotOfferedError(HuskError, NotImplementedError, code="Sandbox.NotImplemented"):
    """The server does not implement this."""


class UnavailableError(HuskError, code="Sandbox.Unavailable"):
    """The server cannot do this now: it is starting or stopping, or one of its parts is down."""

    retry_after: float = 1.0


class DiskFullError(HuskError, code="Sandbox.DiskFull"):
    """The disk of the server or of the sandbox is full."""


class QuotaExceededError(DiskFullError, code="Sandbox.QuotaExceeded"):
    """The session, or the server as a whole, has reached its storage quota."""


class InternalError(HuskError, code="Sandbox.InternalError"):
    """The server failed; its log has details under `request_id`."""


class NotInitializedError(UnavailableError, code="Sandbox.NotInitialized"):
    """The sandboxes of `/workspace/se` are not ready."""


class ExecFailedError(HuskError, code="Sandbox.ExecException"):
    """An execution of `/workspace/se` failed."""


class TooManyExecutionsError(TooManyRequestsError, code="Sandbox.TooManyRequestsExection"):
    """Too many executions of `/workspace/se` at once."""


class UnauthorizedError(HuskError, PermissionError):
    """A proxy in front of the server requires credentials."""


# ---- the way to the server ----


class ServerNotFoundError(HuskError, ConnectionError):
    """The server at the given address does not answer, or is not huskd."""


class ServerStartError(HuskError):
    """This process could not start a server of its own; `detail` has the server's output."""


class ProgramNotFoundError(HuskError, FileNotFoundError):
    """A program of husk was not found."""


class ConnectionLostError(HuskError, ConnectionError):
    """The connection broke before the answer was complete.

    The server may have executed the request, so it was not retried.
    """


class AnswerTimeoutError(HuskError, TimeoutError):
    """The server did not answer in time."""


# ---- lost sandboxes ----


class SandboxLostError(HuskError):
    """A sandbox lost its state.

    Attributes:
        session_id: the session of the sandbox.
    """

    session_id: str = ""


class SessionEndedError(SandboxLostError):
    """The session has ended; its variables and files are lost. Create a new Sandbox."""


class InterpreterLostError(SandboxLostError):
    """The sandbox lost its interpreter with all variables; files are as last saved.

    The session continues: the next run starts with a fresh interpreter.

    Attributes:
        result: the result of a run in the fresh interpreter, if the loss was noticed only after it.
    """

    result: Any = None


class SandboxClosedError(HuskError, ValueError):
    """The Sandbox or Client object is closed."""


class NotOwnerError(HuskError, PermissionError):
    """Only the Sandbox object that created a session can end it, in the process that created it."""


# ---- failures of the program; raised by result.check() ----


class RunError(HuskError):
    """The program in the sandbox failed.

    Attributes:
        result: the whole result, with the output up to the failure.
    """

    result: Any = None


class RunFailedError(RunError):
    """The program raised an exception or exited with a code other than 0."""


class RunTimeoutError(RunError, TimeoutError):
    """The program exceeded its time limit."""


class RunMemoryError(RunError, MemoryError):
    """The program exceeded its memory limit."""


class RunCancelledError(RunError):
    """The run was cancelled."""


class RunCrashedError(RunError):
    """A signal or a forbidden system call killed the program, or its sandbox failed."""


class RunLostError(RunError, code="Sandbox.ExecutionLost"):
    """The outcome of the run is unknown: the server or a part of it failed during it.

    `Sandbox.run` raises this, too, since the fault is not the program's.
    """


# ---- the sandbox functions, and Ray ----


class BackendUnavailableError(HuskError):
    """The requested back end (a container image, gVisor, Kubernetes) is not available."""


class EgressUnavailableError(HuskError):
    """Network access from the sandbox was requested; sandboxes have none."""


class VolumeError(HuskError, ValueError):
    """A volume cannot be read, or its changes cannot be copied back; `detail` has the path."""


class UnknownSessionError(HuskError, ValueError):
    """No session has this name: nothing has run in it yet, or it was cleaned up."""


class NodeLostError(SandboxLostError):
    """The Ray node or the process that held the sandbox is gone, with all variables and files."""


class RayMissingError(HuskError, ImportError):
    """Ray is required and is not installed, or is too old."""


class ServeError(HuskError):
    """An agent cannot be served on Ray Serve."""


# ---- served agents ----


class AgentTypeError(HuskError, TypeError):
    """husk cannot serve an object of this type; the message names it."""


class AgentLoadError(HuskError):
    """An agent's file failed to load; `message` is one line, `traceback` has the rest."""

    traceback: str = ""


class AgentRunError(HuskError, RuntimeError):
    """An agent framework reported a failed run; the message is the framework's."""
