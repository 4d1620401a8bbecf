# SPDX-License-Identifier: Apache-2.0
"""`Sandbox` of the rayai API: a sandbox whose methods are tools for an agent.

    sandbox = Sandbox(timeout=60)
    agent = pydantic_ai.Agent(model, tools=[sandbox.run_code, sandbox.bash])

The first use starts it, so it can be created at the top of an agent's file. `husk.Sandbox` is
another class: the whole API of the server for one session.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from dataclasses import dataclass, field
from typing import Any, Optional, cast

from husk import errors, interpreter
from husk.interpreter import policy
from husk.interpreter.session import failure
from husk.interpreter.types import Execution

__all__ = ["ExecResult", "Sandbox"]

_PREFIX = "sandbox-"  # of actor names; execute_code() has another
_OWN_SESSION = "default"
_ENDED = {"TimeoutError": errors.RunTimeoutError, "MemoryError": errors.RunMemoryError}


@dataclass(frozen=True)
class ExecResult:
    """The result of a command.

    Attributes:
        stdout: its standard output.
        stderr: its standard error.
        exit_code: as a shell reports it.
        metrics: the resources it used.
        receipt: isolation and limits of its box.
    """

    stdout: str
    stderr: str
    exit_code: int
    metrics: dict[str, Any] = field(default_factory=dict, repr=False)
    receipt: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The standard output."""
        return self.stdout

    @property
    def success(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0


class Sandbox:
    """A sandbox for agents: `run_code` and `bash` are tools that return text, `exec` and `upload`
    are for programs.

    Under Ray it is a detached actor, which all `Sandbox` objects with the same `session_id` in the
    cluster share; without Ray it belongs to this process. Only the object that created a sandbox
    can end it: `terminate()` of another one does nothing.

    Args:
        dockerfile: rejected with `BackendUnavailableError`: there is no container back end.
        image: the name of a template; `python:3.12-slim` means the template `python`.
        timeout: seconds for one run.
        session_id: by default `sandbox-<8 hex digits>`.
    """

    def __init__(
        self,
        dockerfile: Optional[str] = None,
        image: str = policy.DEFAULT_IMAGE,
        timeout: float = policy.DEFAULT_TIMEOUT,
        session_id: Optional[str] = None,
    ) -> None:
        policy.check(dockerfile, None)
        self.dockerfile = dockerfile
        self.image = image
        self.timeout = timeout
        self.session_id = session_id or f"sandbox-{secrets.token_hex(4)}"
        self._owned: set[str] = set()
        self._lock = threading.Lock()
        self.run_code = _run_code(self)
        self.bash = _bash(self)

    def exec(self, command: str, timeout: Optional[float] = None) -> ExecResult:
        """Runs a shell command and returns its result.

        Raises:
            RunTimeoutError: it exceeded its time limit; a TimeoutError.
            HuskError: it could not run, or its sandbox was lost.
        """
        result = self._run(
            "shell", command, _OWN_SESSION, self.timeout if timeout is None else timeout
        )
        if "exit_code" not in result:
            raise _error(result["error_type"], result["error"])
        done = cast(dict[str, Any], result)
        return ExecResult(
            done["stdout"], done["stderr"], done["exit_code"], done["metrics"], done["receipt"]
        )

    def upload(self, path: str, content: bytes) -> None:
        """Writes a file: below `/workspace`, or relative to it, or in another folder that the code
        can write, such as `/tmp`.

        Raises:
            HuskError: it could not be written.
        """
        result = self._open(_OWN_SESSION).upload_file(path, content)
        if result["status"] == "error":
            raise _error(result["error_type"], result["error"])

    def terminate(self) -> None:
        """Ends the sandboxes that this object created. A second call does nothing."""
        with self._lock:
            owned, self._owned = self._owned, set()
        for session in owned:
            interpreter.end(_PREFIX + session, session)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.terminate)

    def __repr__(self) -> str:
        return f"Sandbox(session_id={self.session_id!r}, image={self.image!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process uses the same sandbox but does not own it.
        return Sandbox, (self.dockerfile, self.image, self.timeout, self.session_id)

    # ---- inside ----

    def _name(self, session: str) -> str:
        """Returns the session for a name: `default` is the sandbox itself, others are new boxes."""
        return self.session_id if session == _OWN_SESSION else f"{self.session_id}-{session}"

    def _open(self, session: str) -> Any:
        policy.check(None, None)
        name = self._name(session)
        executor, is_new = interpreter.directory().open(_PREFIX + name, name, image=self.image)
        if is_new:
            with self._lock:
                self._owned.add(name)
        return executor

    def _run(self, kind: str, text: str, session: str, timeout: float) -> Execution:
        name = self._name(session)
        try:
            self._open(session)
        except Exception as error:
            return failure(error, f"{name}_0")
        return interpreter.run(kind, text, timeout, _PREFIX + name, name, self.image)


def _error(name: str, message: str) -> errors.HuskError:
    """Returns the exception for a failed result."""
    kind = _ENDED.get(name) or getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.HuskError):
        return kind(message)
    return errors.HuskError(message, code=name)


def _run_code(sandbox: Sandbox) -> Any:
    def run_code(code: str, session_id: str = _OWN_SESSION) -> str:
        """Run Python code in a sandbox and return what it printed.

        Variables, imports and files stay for the next call with the same session_id. There is no
        network.

        Args:
            code: the Python source; print what you want to see.
            session_id: calls with the same session_id share variables and files.
        """
        return interpreter.text_of(sandbox._run("code", code, session_id, sandbox.timeout))

    return interpreter.as_tool(run_code)


def _bash(sandbox: Sandbox) -> Any:
    def bash(command: str, session_id: str = _OWN_SESSION) -> str:
        """Run a shell command in a sandbox and return what it printed.

        It sees the same files as run_code with the same session_id. There is no network.

        Args:
            command: the command, for bash.
            session_id: calls with the same session_id share files.
        """
        return interpreter.text_of(sandbox._run("shell", command, session_id, sandbox.timeout))

    return interpreter.as_tool(bash)
