# SPDX-License-Identifier: Apache-2.0
"""Typed records of sessions, executions, files and the server.

The fields have the names of the API; docs/api.md describes them. Fields that a newer server adds are
ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R", bound="Record")
_names: dict[type, frozenset[str]] = {}


class Record:
    """Base of all records."""

    @classmethod
    def parse(cls: type[R], data: Mapping[str, Any]) -> R:
        """Create a record from the decoded JSON of an answer."""
        names = _names.get(cls)
        if names is None:
            names = frozenset(f.name for f in dataclasses.fields(cls))  # type: ignore[arg-type]
            _names[cls] = names
        return cls(**{name: value for name, value in data.items() if name in names})


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: the records of this page.
        total: number of records in all pages.
        has_more: whether another page follows.
        next_cursor: `cursor` of the next page, in lists of sessions and executions; None: this is
            the last page, or the list has no cursors.
    """

    items: list[T]
    total: int
    limit: int
    offset: int
    has_more: bool
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Session(Record):
    """A session: many executions if it is persistent, one if it is ephemeral."""

    id: str
    template_id: str = ""
    status: str = ""
    mode: str = ""
    agent_id: str | None = None
    reused: bool = False
    timeout: int = 0
    on_idle: str = "end"
    idle_state: str | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    env_vars: dict[str, str] = field(default_factory=dict)
    min_isolation: str = "full"
    isolation: str | None = None
    runtime_type: str = ""
    runtime_node: str | None = None
    language_runtime: str = ""
    container_id: str | None = None
    pod_name: str | None = None
    workspace_path: str = "/workspace"
    workspace: dict[str, Any] | None = None
    queue_position: int | None = None
    reason: str | None = None
    created_at: str = ""
    updated_at: str = ""
    last_activity_at: str | None = None
    expires_at: str | None = None
    completed_at: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in ("completed", "failed", "timeout", "terminated")


@dataclass(frozen=True)
class SessionStats(Record):
    """Current and total resource usage of a session, as measured by the kernel."""

    session_id: str
    memory_bytes: int = 0
    peak_memory_mb: float = 0.0
    cpu_time_ms: float = 0.0
    processes: int = 0
    disk_bytes: int = 0
    io_read_bytes: int = 0
    io_write_bytes: int = 0
    executions: int = 0
    uptime_ms: int = 0


@dataclass(frozen=True)
class Receipt(Record):
    """The isolation and limits that are in force for a sandbox."""

    backend: str = ""
    isolation: str = ""
    missing: str = ""
    namespaces: str = ""
    seccomp: str = ""
    cgroup: str = ""
    landlock_abi: int = 0
    id_block_start: int = 0
    id_block_size: int = 0
    network: str = ""
    warm: bool = False
    template: str = ""
    imports: bool = False
    boxes_checked: int = 0
    zygote_age_ms: int = 0
    limits: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lacking = f", without {self.missing}" if self.missing else ""
        memory = self.limits.get("memory_bytes", 0) >> 20
        return (
            f"isolation {self.isolation}{lacking}, {self.backend} backend, namespaces {self.namespaces}, "
            f"network {self.network}, seccomp {self.seccomp}, Landlock ABI {self.landlock_abi}, cgroup {self.cgroup}; "
            f"limits: {memory} MiB memory, {self.limits.get('cpus', 0):g} CPU, {self.limits.get('pids', 0)} processes"
        )


@dataclass(frozen=True)
class Cost(Record):
    """The resources that an execution used."""

    duration_ms: float = 0.0
    queue_ms: float = 0.0
    cpu_time_ms: float = 0.0
    peak_memory_mb: float | None = 0.0
    """Most memory of the sandbox while it ran; None if the kernel cannot tell."""
    io_read_bytes: int = 0
    io_write_bytes: int = 0
    processes: int = 0
    """Processes and threads in the sandbox when it ended."""

    def __str__(self) -> str:
        peak = "" if self.peak_memory_mb is None else f"{self.peak_memory_mb:.1f} MB peak memory, "
        return f"{self.duration_ms:.2f} ms, {self.cpu_time_ms:.2f} ms CPU, {peak}{self.processes} processes"


@dataclass(frozen=True)
class Context(Record):
    """One live interpreter of a persistent session."""

    session_id: str
    context_id: int
    language: str = ""
    state: str = "idle"
    parent_id: int | None = None
    execution_id: str | None = None
    created_at: str = ""


@dataclass(frozen=True)
class Checkpoint(Record):
    """A saved copy of a context, with all its variables."""

    session_id: str
    checkpoint_id: int
    context_id: int | None = None
    created_at: str = ""


@dataclass(frozen=True)
class Contexts:
    """The contexts and checkpoints of a session."""

    items: list[Context]
    checkpoints: list[Checkpoint]


@dataclass(frozen=True)
class Interrupted(Record):
    """The effect of an interrupt; `interrupted` is False if nothing was running."""

    session_id: str
    context_id: int
    interrupted: bool
    execution_id: str | None = None


@dataclass(frozen=True)
class Withdrawn(Record):
    """The effect of withdrawing a request; without an execution_id, it never starts."""

    session_id: str
    execution_id: str | None = None
    status: str | None = None


@dataclass(frozen=True)
class ExecutionState(Record):
    """The state of an execution, without its output."""

    id: str
    session_id: str
    status: str
    queue_position: int | None = None
    exit_code: int | None = None
    created_at: str = ""
    started_at: str | None = None
    completed_at: str | None = None


@dataclass(frozen=True)
class FileEntry(Record):
    """A file, directory or link of a workspace."""

    name: str
    path: str
    type: str
    size: int
    container_path: str = ""
    mode: str = ""
    modified_time: str = ""
    etag: str | None = None
    target: str | None = None

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.type == "directory"


@dataclass(frozen=True)
class FileWritten(Record):
    """A file that was written."""

    session_id: str
    file_path: str
    size: int
    etag: str = ""


@dataclass(frozen=True)
class Unpacked(Record):
    """The effect of unpacking an archive."""

    session_id: str
    path: str
    entries: int
    bytes: int


@dataclass(frozen=True)
class Template(Record):
    """A template of sandboxes."""

    id: str
    name: str = ""
    description: str = ""
    base: str | None = None
    language: str = ""
    runtime_type: str = ""
    preload: list[str] = field(default_factory=list)
    image_url: str | None = None
    origin: str = ""
    default_cpu_cores: float = 0.0
    default_memory_mb: int = 0
    default_disk_mb: int = 0
    default_timeout: int = 0
    default_env_vars: dict[str, str] = field(default_factory=dict)
    is_active: bool = False
    missing: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(frozen=True)
class Container(Record):
    """A live sandbox of the server, in use or parked in a pool."""

    id: str
    session_id: str | None = None
    template_id: str = ""
    runtime_type: str = ""
    node_id: str | None = None
    container_name: str = ""
    image_url: str | None = None
    status: str = ""
    ip_address: str | None = None
    cpu_cores: float = 0.0
    memory_mb: int = 0
    disk_mb: int = 0
    created_at: str | None = None
    started_at: str | None = None
    exited_at: str | None = None
    receipt: dict[str, Any] | None = None


@dataclass(frozen=True)
class PoolState(Record):
    """A pool of parked sandboxes."""

    template_id: str
    mode: str = ""
    memory_mb: int = 0
    size: int = 0
    min: int = 0
    max: int = 0
    starting: int = 0
    hits: int = 0
    misses: int = 0
    dead: int = 0


@dataclass(frozen=True)
class Pools:
    """All pools, and the number of requests that wait for admission."""

    pools: list[PoolState]
    queue: int


@dataclass(frozen=True)
class Health(Record):
    """The health of the server; `components` is set only in the detailed form."""

    status: str
    version: str = ""
    uptime: float = 0.0
    reason: str | None = None
    components: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Version(Record):
    """The version of the server and of its libraries."""

    name: str
    version: str
    api: str
    libraries: dict[str, str] = field(default_factory=dict)
