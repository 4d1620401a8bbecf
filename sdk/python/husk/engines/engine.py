# SPDX-License-Identifier: Apache-2.0
"""The interface between tools and engines, and the choice of the engine.

There are two engines: `local` (worker processes on this machine) and `ray` (Ray tasks). An engine
starts on its first call. This file never imports Ray.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Protocol

from husk.errors import HuskError

__all__ = ["Engine", "ToolSpec", "current", "shutdown"]


@dataclass(frozen=True, eq=False)
class ToolSpec:
    """The description of a tool for engines; created once per tool, so it can be a cache key."""

    name: str
    func: Callable[..., Any]
    num_cpus: float = 1
    num_gpus: float = 0
    memory_bytes: Optional[int] = None
    timeout: Optional[float] = None
    sandbox: bool = False
    retries: int = 0
    # Data of each engine about this tool: its pickled form, a Ray remote function.
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A tool may be pickled as part of another one; the cache is valid in this process only.
        fields = (self.name, self.func, self.num_cpus, self.num_gpus, self.memory_bytes)
        return ToolSpec, (*fields, self.timeout, self.sandbox, self.retries)


class Engine(Protocol):
    """Runs tools outside the caller's process.

    All methods may be called from any thread. An exception of the tool is raised with its own type
    if it can be unpickled, with the traceback of the worker as its cause. Every other failure is a
    `ToolError`.
    """

    @property
    def name(self) -> str:
        """`"local"` or `"ray"`."""

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool and returns its result; cancelling the await ends the call."""

    def call_sync(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for code without an event loop."""

    def remote_function(self, spec: ToolSpec) -> Any:
        """Returns an object whose `.remote(*args, **kwargs)` starts a call without waiting.

        Under Ray this is the real remote function and `.remote` returns an ObjectRef; on the local
        engine `.remote` returns a `concurrent.futures.Future`.
        """

    def close(self) -> None:
        """Ends all workers; running calls fail. A later call starts new workers."""


_lock = threading.Lock()
_engines: dict[str, Engine] = {}


def _make(name: str) -> Engine:
    with _lock:
        engine = _engines.get(name)
        if engine is not None:
            return engine
        if name == "local":
            from husk.engines.local.engine import LocalEngine

            engine = LocalEngine()
        elif name == "ray":
            from husk.engines.ray.engine import RayEngine

            engine = RayEngine()
        else:
            raise HuskError(f"HUSK_ENGINE must be 'local' or 'ray', not {name!r}")
        _engines[name] = engine
        return engine


def _chosen() -> str:
    asked = os.environ.get("HUSK_ENGINE")
    if asked:
        return asked
    ray = sys.modules.get("ray")
    # A partially imported module has no is_initialized yet.
    is_initialized = getattr(ray, "is_initialized", None)
    return "ray" if is_initialized is not None and is_initialized() else "local"


def current() -> Engine:
    """Returns the current engine: that of `HUSK_ENGINE`, else Ray if it is initialised, else the
    local one.
    """
    name = _chosen()
    return _engines.get(name) or _make(name)


def shutdown() -> None:
    """Closes the engines of this process. A later call of a tool starts a new one."""
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()


def _forget_after_fork() -> None:
    # Sockets, threads and locks of the parent's engines do not work in the child, which starts its
    # own on its first call.
    global _lock
    _lock = threading.Lock()
    _engines.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
