# SPDX-License-Identifier: Apache-2.0
"""What the sandbox functions return: plain dicts, typed for checkers.

Every answer has `status`. The fields of the rayai API are all there; `metrics`, `receipt` and the
partial output of a run that was ended come on top of them.
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
    """The code ran to its end, well (`success`, exit code 0) or badly (`error`)."""

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
    """The code was ended (time limit, memory limit, crash), or could not be run at all.

    `error_type` is `"TimeoutError"`, `"MemoryError"` or the name of a class of `husk.errors`. When
    the code had begun, `partial_stdout` and `partial_stderr` are what it wrote until then, and
    `metrics` and `receipt` are there as well.
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
    """The file is in the box, `size` bytes of it."""

    status: Literal["success"]
    path: str
    size: int


class UploadError(TypedDict):
    """The file is not in the box."""

    status: Literal["error"]
    error: str
    error_type: str


class SessionStats(TypedDict):
    """One session. `container_status` is `"none"` before its first use; `metrics` are the server's
    own figures.
    """

    session_id: str
    execution_count: int
    created_at: float
    uptime: float
    container_status: str
    metrics: dict[str, Any]


class CleanupResult(TypedDict):
    """The session is gone, with its box."""

    status: Literal["success"]
    session_id: str


class CleanupError(TypedDict):
    """The session could not be ended, or was never there."""

    status: Literal["error"]
    error: str
    session_id: str


class _VolumeBase(TypedDict):
    bind: str


class VolumeSpec(_VolumeBase, total=False):
    """Where a path of the host appears in the box, and whether changes come back (`"rw"`, the
    default) or not (`"ro"`).
    """

    mode: str


Execution = Union[ExecutionResult, ExecutionError]
Upload = Union[UploadResult, UploadError]
Cleanup = Union[CleanupResult, CleanupError]
