# SPDX-License-Identifier: Apache-2.0
"""The interface between a tool and whatever runs it, and the choice of the engine in force.

Two engines exist: `engine_local` (worker processes on this machine) and `engine_ray` (Ray tasks).
This file starts neither before the first call and imports Ray never by itself.
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
    """All that an engine needs to know about one tool; made once per tool, so engines may use it as
    a cache key.
    """

    name: str
    func: Callable[..., Any]
    num_cpus: float = 1
    num_gpus: float = 0
    memory_bytes: Optional[int] = None
    timeout: Optional[float] = None
    sandbox: bool = False
    # What an engine remembers about this tool, by engine name: its pickled form, a Ray remote
    # function.
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A tool may travel to a worker inside another one; what an engine remembers is of use in
        # this process only.
        fields = (self.name, self.func, self.num_cpus, self.num_gpus, self.memory_bytes)
        return ToolSpec, (*fields, self.timeout, self.sandbox)


class Engine(Protocol):
    """Runs tools somewhere else than in the caller's process.

    All methods may be called from any thread. Errors: what the tool raised comes back as the same
    type when it can be unpickled, with the traceback of the worker as its cause; everything else is
    a `ToolError`.
    """

    @property
    def name(self) -> str:
        """`"local"` or `"ray"`."""

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool and returns its result; cancelling the await ends the call."""

    def call_sync(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for code without an event loop."""

    def remote_function(self, spec: ToolSpec) -> Any:
        """Returns an object with `.remote(*args, **kwargs)`, which starts a call and returns at
        once.

        Under Ray this is the real remote function and `.remote` returns an ObjectRef; on the local
        engine `.remote` returns a `concurrent.futures.Future`.
        """

    def close(self) -> None:
        """Ends all workers; calls that still run fail. A later call starts afresh."""


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
    # A half imported module has no is_initialized yet.
    is_initialized = getattr(ray, "is_initialized", None)
    return "ray" if is_initialized is not None and is_initialized() else "local"


def current() -> Engine:
    """Returns the engine in force: what `HUSK_ENGINE` says, else Ray where Ray is initialised, else
    the local one.
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
    # Sockets, threads and locks of the parent's engines are useless here; the child starts its own
    # at its first call.
    global _lock
    _lock = threading.Lock()
    _engines.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
