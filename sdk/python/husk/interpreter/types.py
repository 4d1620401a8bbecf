# SPDX-License-Identifier: Apache-2.0
"""Results of the sandbox functions: data classes that are also dicts.

Each field is an attribute and a key: `result.stdout`, `result["stdout"]`. They compare, print as
JSON and pickle as dicts do. Every result has `status`. In addition to the fields of the rayai API
there are `metrics`, `receipt` and the partial output of a run that was killed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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


class Fields(dict[str, Any]):
    """The base: keeps the fields of a data class as the items of a dict."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None


# Below, equality and text are those of dicts. A default needs a factory: a plain one would be an
# attribute of the class, which hides the item.


@dataclass(eq=False, repr=False)
class ExecutionResult(Fields):
    """The code ran to its end, with exit code 0 (`success`) or another (`error`)."""

    status: Literal["success", "error"]
    stdout: str
    stderr: str
    exit_code: int
    execution_id: str
    metrics: dict[str, Any] = field(default_factory=dict)
    receipt: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class ExecutionError(Fields):
    """The code was killed (time limit, memory limit, crash), or could not run.

    `error_type` is `"TimeoutError"`, `"MemoryError"` or the name of a class of `husk.errors`. If the
    code had started, `partial_stdout` and `partial_stderr` have its output so far, and `metrics` and
    `receipt` are set.
    """

    status: Literal["error"]
    error: str
    error_type: str
    execution_id: str
    partial_stdout: str = field(default_factory=str)
    partial_stderr: str = field(default_factory=str)
    metrics: dict[str, Any] = field(default_factory=dict)
    receipt: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class InstallResult(Fields):
    """The packages were installed. No function returns it yet: boxes have no network."""

    status: Literal["success"]
    stdout: str
    packages: list[str]


@dataclass(eq=False, repr=False)
class InstallError(Fields):
    """The packages were not installed."""

    status: Literal["error"]
    error: str
    error_type: str


@dataclass(eq=False, repr=False)
class UploadResult(Fields):
    """The file was written, with `size` bytes."""

    status: Literal["success"]
    path: str
    size: int


@dataclass(eq=False, repr=False)
class UploadError(Fields):
    """The file was not written."""

    status: Literal["error"]
    error: str
    error_type: str


@dataclass(eq=False, repr=False)
class SessionStats(Fields):
    """One session. `container_status` is `"none"` before the first use; `metrics` are those of the
    server.
    """

    session_id: str
    execution_count: int
    created_at: float
    uptime: float
    container_status: str
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class CleanupResult(Fields):
    """The session and its box have ended."""

    status: Literal["success"]
    session_id: str


@dataclass(eq=False, repr=False)
class CleanupError(Fields):
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
