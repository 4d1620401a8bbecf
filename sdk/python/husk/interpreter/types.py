# SPDX-License-Identifier: Apache-2.0
"""Results of the sandbox functions: plain dicts, typed for checkers.

Every result has `status`. In addition to the fields of the rayai API there are `metrics`, `receipt`
and the partial output of a run that was killed.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

__all__ = [
    "CleanupError",
    "CleanupResult",
    "ExecutionError",
    "ExecutionResult",
    "InstallError",
    "InstallResult",
    "SessionStats",
    "UploadError",
    "UploadResult",
    "VolumeSpec",
]


class ExecutionResult(TypedDict):
    """The code ran to its end, with exit code 0 (`success`) or another (`error`)."""

    status: Literal["success", "error"]
    stdout: str
    stderr: str
    exit_code: int
    execution_id: str
    metrics: dict[str, Any]
    receipt: dict[str, Any]


class _ExecutionErrorBase(TypedDict):
    status: Literal["error"]
    error: str
    error_type: str
    execution_id: str


class ExecutionError(_ExecutionErrorBase, total=False):
    """The code was killed (time limit, memory limit, crash), or could not run.

    `error_type` is `"TimeoutError"`, `"MemoryError"` or the name of a class of `husk.errors`. If the
    code had started, `partial_stdout` and `partial_stderr` have its output so far, and `metrics` and
    `receipt` are set.
    """

    partial_stdout: str
    partial_stderr: str
    metrics: dict[str, Any]
    receipt: dict[str, Any]


class InstallResult(TypedDict):
    """The packages were installed. No function returns it yet: boxes have no network."""

    status: Literal["success"]
    stdout: str
    packages: list[str]


class InstallError(TypedDict):
    """The packages were not installed."""

    status: Literal["error"]
    error: str
    error_type: str


class UploadResult(TypedDict):
    """The file was written, with `size` bytes."""

    status: Literal["success"]
    path: str
    size: int


class UploadError(TypedDict):
    """The file was not written."""

    status: Literal["error"]
    error: str
    error_type: str


class SessionStats(TypedDict):
    """One session. `container_status` is `"none"` before the first use; `metrics` are those of the
    server.
    """

    session_id: str
    execution_count: int
    created_at: float
    uptime: float
    container_status: str
    metrics: dict[str, Any]


class CleanupResult(TypedDict):
    """The session and its box have ended."""

    status: Literal["success"]
    session_id: str


class CleanupError(TypedDict):
    """The session could not be ended, or did not exist."""

    status: Literal["error"]
    error: str
    session_id: str


class _VolumeBase(TypedDict):
    bind: str


class VolumeSpec(_VolumeBase, total=False):
    """Where a host path appears in the box, and whether changes are copied back (`"rw"`, the default)
    or not (`"ro"`).
    """

    mode: str


Execution = Union[ExecutionResult, ExecutionError]
Upload = Union[UploadResult, UploadError]
Cleanup = Union[CleanupResult, CleanupError]
