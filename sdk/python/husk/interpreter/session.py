# SPDX-License-Identifier: Apache-2.0
"""One session of the sandbox functions: its box, its executions, variables and volumes.

All state of a session is in one `CodeInterpreter`. Without Ray they are in this process (local.py);
under Ray each is an actor (ray.py). Failures are returned as an `ExecutionError`, never raised.
"""

from __future__ import annotations

import math
import posixpath
import re
import secrets
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Protocol

from husk.errors import (
    ConflictError,
    HuskError,
    InvalidParameterError,
    SandboxLostError,
    SessionEndedError,
)
from husk.interpreter import policy
from husk.interpreter.box import Box
from husk.interpreter.types import (
    Cleanup,
    CleanupError,
    CleanupResult,
    Execution,
    ExecutionError,
    ExecutionResult,
    SessionStats,
    Upload,
    UploadError,
    UploadResult,
)
from husk.interpreter.volumes import ROOT, Volume, parse
from husk.results.result import Result

__all__ = ["CodeInterpreter", "Executor", "failure"]

_ENDED = {
    "timeout": "TimeoutError",
    "memory_exceeded": "MemoryError",
    "cancelled": "RunCancelledError",
    "crashed": "RunCrashedError",
    "lost": "RunLostError",
}


# The rule of the server; see docs/api.md.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VALUE = re.compile(r"[^\0\ud800-\udfff]{0,32768}")


class Executor(Protocol):
    """The operations of a session, wherever it is."""

    def execute_code(self, code: str, timeout: float, **options: Any) -> Execution:
        """Runs Python code."""

    def execute_shell(self, command: str, timeout: float, **options: Any) -> Execution:
        """Runs a shell command."""

    def upload_file(self, path: str, content: bytes) -> Upload:
        """Writes a file."""

    def get_session_stats(self) -> SessionStats:
        """Returns the statistics of the session."""

    def cleanup_session(self) -> Cleanup:
        """Ends the box."""


class CodeInterpreter:
    """One session. The first use creates its box; variables, files and packages in it stay until the
    session is cleaned up.

    Args:
        session_id: any text; it is part of the execution ids.
        image: the template of the box; `python:3.12-slim` means `python`.
        dockerfile: rejected, because there is no container back end.
        environment: variables of every execution.
        volumes: `{host path: {"bind": "/workspace/...", "mode": "ro" or "rw"}}`.
        mcp_allowlist: rejected, because boxes have no network.
    """

    def __init__(
        self,
        session_id: str,
        image: str = policy.DEFAULT_IMAGE,
        dockerfile: Optional[str] = None,
        environment: Optional[Mapping[str, str]] = None,
        volumes: Optional[Mapping[str, Any]] = None,
        mcp_allowlist: Optional[Sequence[str]] = None,
    ) -> None:
        self.session_id = session_id
        self.image = image
        self.created_at = time.time()
        self._refused = (dockerfile, mcp_allowlist)
        self._environment = dict(environment or {})
        self._wanted_volumes = dict(volumes or {})
        self._volumes: dict[str, Volume] = {}
        self._box: Optional[Box] = None
        self._count = 0
        self._running = 0
        self._last_use = time.monotonic()
        self._lock = threading.RLock()  # protects the fields above
        # Serialises runs with volumes: each copies in, runs and copies back.
        self._turn = threading.Lock()

    # ---- running ----

    def execute_code(
        self, code: str, timeout: float = policy.DEFAULT_TIMEOUT, **options: Any
    ) -> Execution:
        """Runs Python code in the session's interpreter; options are `image`, `environment` and
        `volumes`.
        """
        return self._execute("code", code, timeout, **options)

    def execute_shell(
        self, command: str, timeout: float = policy.DEFAULT_TIMEOUT, **options: Any
    ) -> Execution:
        """Runs a command in bash: it sees the files, but not the variables."""
        return self._execute("shell", command, timeout, **options)

    def _execute(
        self,
        kind: str,
        text: str,
        timeout: float,
        image: Optional[str] = None,
        environment: Optional[Mapping[str, str]] = None,
        volumes: Optional[Mapping[str, Any]] = None,
    ) -> Execution:
        execution_id = self._begin(kind)
        try:
            policy.check(*self._refused)
            seconds = _seconds(timeout)
            if not isinstance(text, str):
                raise InvalidParameterError(f"{kind} must be a string, not {type(text).__name__}")
            self._take_options(image, environment, volumes)
            box = self._open(image)
            if not self._volumes:
                return _answer(
                    box.run(kind, text, seconds, self._environment), execution_id, seconds
                )
            with self._turn:
                return self._with_volumes(box, kind, text, seconds, execution_id)
        except Exception as error:
            return self._failed(error, execution_id)
        finally:
            self._end()

    def _with_volumes(
        self, box: Box, kind: str, text: str, seconds: int, execution_id: str
    ) -> Execution:
        with self._lock:
            volumes = list(self._volumes.values())
        for volume in volumes:
            volume.copy_in(box)
        answer = _answer(box.run(kind, text, seconds, self._environment), execution_id, seconds)
        try:
            for volume in volumes:
                volume.copy_back(box)
        except (HuskError, OSError) as error:
            failed = failure(error, execution_id)
            # Return the output of the code together with the error of the volumes.
            failed["partial_stdout"] = str(
                answer.get("stdout") or answer.get("partial_stdout") or ""
            )
            failed["partial_stderr"] = str(
                answer.get("stderr") or answer.get("partial_stderr") or ""
            )
            return failed
        return answer

    def _begin(self, kind: str) -> str:
        with self._lock:
            self._count += 1
            self._running += 1
            return f"{self.session_id}_{'shell_' if kind == 'shell' else ''}{self._count}"

    def _end(self) -> None:
        with self._lock:
            self._running -= 1
            self._last_use = time.monotonic()

    def _take_options(
        self,
        image: Optional[str],
        environment: Optional[Mapping[str, str]],
        volumes: Optional[Mapping[str, Any]],
    ) -> None:
        """Applies options: the image cannot change; environment and volumes stay for later calls."""
        with self._lock:
            # Check everything before storing anything, so that a rejected call has no effect on
            # later ones. The image is stored with its box.
            variables = _variables({**self._environment, **(environment or {})})
            wanted = {**self._wanted_volumes, **(volumes or {})}
            volumes_now = {str(v.host): v for v in parse(wanted)} if wanted else {}
            if self._box is not None and self._wanted_image(image) != self.image:
                raise ConflictError(
                    f"session {self.session_id} has the image {self.image!r} and cannot change to {image!r}",
                    solution="Use another session, or clean up this one first.",
                )
            self._environment, self._wanted_volumes = variables, wanted
            for host, volume in volumes_now.items():
                held = self._volumes.get(host)
                if held is None or not held.same(volume):
                    self._volumes[host] = volume

    def _wanted_image(self, image: Optional[str]) -> str:
        return self.image if image in (None, policy.DEFAULT_IMAGE) else str(image)

    def _open(self, image: Optional[str] = None) -> Box:
        with self._lock:
            if self._box is None:
                wanted = self._wanted_image(image)
                self._box = Box(wanted)
                self.image = wanted  # a rejected one has no effect on later calls
                self._on_box()
            return self._box

    def _on_box(self) -> None:
        """Called when a box is created."""

    def _failed(self, error: Exception, execution_id: str) -> ExecutionError:
        if isinstance(error, SandboxLostError):
            with self._lock:
                # A new box does not have the files of the host, so copy them again.
                self._volumes = {}
                if isinstance(error, SessionEndedError):
                    self._box = None  # the next run starts with a new one
        return failure(error, execution_id)

    # ---- files, figures, the end ----

    def upload_file(self, path: str, content: bytes) -> Upload:
        """Writes a file: below `/workspace`, or relative to it, or where the code can write."""
        with self._lock:
            self._running += 1
        try:
            policy.check(*self._refused)
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise InvalidParameterError(f"content must be bytes, not {type(content).__name__}")
            data = bytes(content)
            _upload(self._open(), path, data)
        except Exception as error:
            failed = self._failed(error, "")
            return UploadError("error", failed.error, failed.error_type)
        finally:
            self._end()
        return UploadResult("success", path, len(data))

    def get_session_stats(self) -> SessionStats:
        """Returns the statistics of the session."""
        with self._lock:
            box, count = self._box, self._count
        status, metrics = "none", dict[str, Any]()
        if box is not None:
            try:
                status, metrics = box.status()
            except SandboxLostError:
                status = "lost"
        return SessionStats(
            session_id=self.session_id,
            execution_count=count,
            created_at=self.created_at,
            uptime=time.time() - self.created_at,
            container_status=status,
            metrics=metrics,
        )

    def cleanup_session(self) -> Cleanup:
        """Ends the box with all its processes."""
        with self._lock:
            box, self._box = self._box, None
            self._volumes = {}
        if box is not None:
            try:
                box.close()
            except HuskError as error:
                return CleanupError("error", str(error), self.session_id)
        return CleanupResult("success", self.session_id)

    def idle_seconds(self) -> float:
        """Returns the idle time in seconds."""
        with self._lock:
            return 0.0 if self._running else time.monotonic() - self._last_use


def failure(error: BaseException, execution_id: str) -> ExecutionError:
    """Returns the result for an exception."""
    return ExecutionError(
        status="error",
        error=str(error) or type(error).__name__,
        error_type=type(error).__name__,
        execution_id=execution_id,
    )


def _variables(given: dict[str, str]) -> dict[str, str]:
    """Returns checked environment variables."""
    for name, value in given.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise InvalidParameterError(f"environment: {name!r} is not a valid variable name")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidParameterError(
                f"environment: {name} must be text of at most 32768 characters without NUL"
            )
    if len(given) > 256:
        raise InvalidParameterError("environment: a session has at most 256 variables")
    return given


def _seconds(timeout: float) -> int:
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, (int, float))
        or not 0 < timeout <= 3600
    ):
        raise InvalidParameterError(
            f"timeout must be more than 0 and at most 3600 seconds: {timeout!r}"
        )
    return math.ceil(timeout)


def _answer(result: Result, execution_id: str, seconds: int) -> Execution:
    """Returns a result of the server in the form of the rayai API."""
    data = result.data
    traceback = (
        str((result.error or {}).get("traceback") or "") if data.get("kind") == "code" else ""
    )
    metrics = dict(data.get("metrics") or {})
    if result.is_truncated:
        metrics["output_truncated"] = True
    receipt = dict(data.get("receipt") or {})
    if result.status not in _ENDED:
        return ExecutionResult(
            status="success" if result.ok else "error",
            stdout=result.stdout,
            stderr=result.stderr + traceback,
            exit_code=1 if result.exit_code is None else result.exit_code,
            execution_id=execution_id,
            metrics=metrics,
            receipt=receipt,
        )
    ended = result.termination or {}
    why = f"Execution ended as {result.status}: {ended.get('limit') or ended.get('detail') or 'no reason given'}"
    if result.status == "timeout":
        why = f"Execution timed out after {seconds} seconds; all its processes were killed"
    return ExecutionError(
        status="error",
        error=why,
        error_type=_ENDED[result.status],
        execution_id=execution_id,
        partial_stdout=result.stdout,
        partial_stderr=result.stderr,
        metrics=metrics,
        receipt=receipt,
    )


def _upload(box: Box, path: str, data: bytes) -> None:
    if not path or "\0" in path:
        raise InvalidParameterError(f"path must name a file, not {path!r}")
    plain = posixpath.normpath(posixpath.join(ROOT, path))
    if plain.startswith(ROOT + "/"):
        box.put_file(plain[len(ROOT) + 1 :], data)
        return
    # Only the workspace can be written from outside; a command in the box moves the file elsewhere.
    staged = f".upload-{secrets.token_hex(8)}"
    box.put_file(staged, data)
    folder, source = shlex.quote(posixpath.dirname(plain)), shlex.quote(f"{ROOT}/{staged}")
    moved = box.run(
        "shell",
        f"mkdir -p {folder} && mv -fT {source} {shlex.quote(plain)} || {{ rm -f {source}; exit 1; }}",
        30,
        {},
    )
    if not moved.ok:
        raise InvalidParameterError(
            f"cannot write {path!r} in the sandbox", detail=moved.stderr.strip()
        )
