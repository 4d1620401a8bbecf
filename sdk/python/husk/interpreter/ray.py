# SPDX-License-Identifier: Apache-2.0
"""The sandbox functions under Ray: one detached actor per session, with a husk server on its node.

All processes of the cluster find a session by the name of its actor. Sessions are recorded in Ray's
key-value store, so that the next use of a session that was lost with its node raises an error
instead of starting an empty one. Importing this file does not import Ray.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Optional, ParamSpec, cast

from husk.engines.ray import start as ray_start
from husk.errors import NodeLostError, UnavailableError
from husk.interpreter import policy
from husk.interpreter.session import CodeInterpreter, Executor
from husk.interpreter.types import Cleanup, Execution, SessionStats, Upload

__all__ = ["RayDirectory", "RemoteClass", "RemoteFunction", "in_ray_task"]

NAMESPACE = "sandbox"
ACTOR_CPUS = 1
ACTOR_MEMORY = 1 << 30
START_SECONDS = 120.0
GRACE_SECONDS = 60.0  # after the time limit of a run, before its actor counts as unresponsive
_STATS_SECONDS = 60.0
_KV_NAMESPACE = b"husk"

P = ParamSpec("P")

_task = threading.local()


def in_ray_task() -> bool:
    """Returns whether this thread runs a function that was called with `.remote()`."""
    return bool(getattr(_task, "is_remote", False))


# ---- .remote() ----


class _Remote:
    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Starts a Ray task and returns its ObjectRef, or an actor and returns its handle."""
        return self._remote({}, args, kwargs)

    def options(self, **options: Any) -> Any:
        """Returns an object whose `.remote` passes these options to Ray."""
        return _WithOptions(functools.partial(self._remote, options))

    def _remote(
        self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        raise NotImplementedError


class RemoteFunction(_Remote, Generic[P]):
    """A function that can also be called as a Ray task: `f(...)`, or `ray.get(f.remote(...))`.

    `.remote` always uses Ray and starts it if needed, by Ray's own rules; if Ray is not installed,
    it raises `RayMissingError`. The task only waits for the actor, so it requests no CPU. It is
    never retried.
    """

    __name__: str

    def __init__(self, function: Callable[P, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._function(*args, **kwargs)

    def _remote(
        self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        ray = ray_start.started()
        name = self.__name__
        given = {"num_cpus": 0, "max_retries": 0, "name": name, **options}
        task = ray.remote(_run_task).options(**given)
        return task.remote(str(self.__module__), name, policy.wishes(), *args, **kwargs)

    def __reduce__(self) -> str:
        # This object is the attribute of its module with this name.
        return self.__name__

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__name__}, also by .remote()>"


class RemoteClass(_Remote):
    """A class that can also be a Ray actor: `C(...)` in this process, `C.remote(...)` in its own."""

    def __init__(self, cls: type, actor: type, name: str, **options: Any) -> None:
        self._cls = cls
        self._actor = actor
        self._options = options
        self.__name__ = name
        self.__doc__ = cls.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._cls(*args, **kwargs)

    def _remote(
        self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        ray = ray_start.started()
        return (
            ray.remote(self._actor).options(**{**self._options, **options}).remote(*args, **kwargs)
        )


class _WithOptions:
    def __init__(self, start: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> None:
        self._start = start

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Starts it with these options."""
        return self._start(args, kwargs)


def _run_task(module: str, name: str, wishes: dict[str, str], *args: Any, **kwargs: Any) -> Any:
    """The body of the Ray task: calls the function with the caller's isolation settings."""
    _task.is_remote = True
    try:
        with policy.asked(wishes):
            return getattr(importlib.import_module(module), name)(*args, **kwargs)
    finally:
        _task.is_remote = False


# ---- the actor ----


class CodeInterpreterActor(CodeInterpreter):
    """One session as a Ray actor, which ends itself after its idle timeout."""

    def __init__(self, session_id: str, actor_name: str = "", **options: Any) -> None:
        super().__init__(session_id, **options)
        self._actor_name = actor_name
        threading.Thread(target=self._watch, name="husk-idle", daemon=True).start()

    def ready(self) -> str:
        """Returns the id of this actor's node."""
        return str(ray_start.module().get_runtime_context().get_node_id())

    def _watch(self) -> None:
        while self.idle_seconds() < policy.SESSION_TIMEOUT:
            time.sleep(min(30.0, max(1.0, policy.SESSION_TIMEOUT - self.idle_seconds())))
        self.cleanup_session()
        ray = ray_start.module()
        if self._actor_name:
            _forget(self._actor_name)
        ray.kill(ray.get_runtime_context().current_actor)


class ActorExecutor:
    """Calls the methods of a session on its actor. Raises `NodeLostError` if the actor is gone."""

    def __init__(self, handle: Any, name: str, session_id: str) -> None:
        self.handle = handle
        self._name = name
        self._session_id = session_id

    def execute_code(self, code: str, timeout: float, **options: Any) -> Execution:
        """Runs Python code."""
        call = self.handle.execute_code.remote(code, timeout, **options)
        return cast(Execution, self._get(call, timeout + GRACE_SECONDS))

    def execute_shell(self, command: str, timeout: float, **options: Any) -> Execution:
        """Runs a shell command."""
        call = self.handle.execute_shell.remote(command, timeout, **options)
        return cast(Execution, self._get(call, timeout + GRACE_SECONDS))

    def upload_file(self, path: str, content: bytes) -> Upload:
        """Writes a file."""
        return cast(Upload, self._get(self.handle.upload_file.remote(path, content), START_SECONDS))

    def get_session_stats(self) -> SessionStats:
        """Returns the statistics of the session."""
        return cast(SessionStats, self._get(self.handle.get_session_stats.remote(), _STATS_SECONDS))

    def cleanup_session(self) -> Cleanup:
        """Ends the box."""
        return cast(Cleanup, self._get(self.handle.cleanup_session.remote(), _STATS_SECONDS))

    def _get(self, ref: Any, seconds: float) -> Any:
        ray = ray_start.module()
        try:
            return ray.get(ref, timeout=seconds)
        except ray.exceptions.RayActorError as error:
            _forget(self._name)  # reported once; the next use starts a new session
            raise _lost(self._session_id, str(error).strip().splitlines()[0]) from error
        except ray.exceptions.GetTimeoutError as error:
            raise UnavailableError(
                f"the actor of session {self._session_id} did not answer within {seconds:g} s",
                solution="cleanup_session() ends the session with all its processes.",
            ) from error


def _lost(session_id: str, why: str) -> NodeLostError:
    error = NodeLostError(
        f"session {session_id} was lost: its Ray node or process is gone, with variables and files",
        detail=why,
        solution="Run your code again; the next call starts with an empty sandbox.",
    )
    error.session_id = session_id
    return error


# ---- all sessions of the cluster ----


class RayDirectory:
    """Finds, starts and ends the actors of sessions, by name."""

    def __init__(self) -> None:
        self._ray = ray_start.started()

    def find(self, name: str, session_id: str) -> Optional[Executor]:
        """Returns a live session, or None. Raises `NodeLostError` once for a lost session."""
        with contextlib.suppress(ValueError):
            return ActorExecutor(self._ray.get_actor(name, namespace=NAMESPACE), name, session_id)
        if _is_recorded(name):
            _forget(name)
            raise _lost(session_id, "its actor is no longer alive")
        return None

    def open(self, name: str, session_id: str, **options: Any) -> tuple[Executor, bool]:
        """Returns a session, and whether this call created it."""
        found = self.find(name, session_id)
        if found is not None:
            return found, False
        handle = executor_class.options(
            name=name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True
        ).remote(session_id, actor_name=name, **options)
        try:
            node = self._ray.get(handle.ready.remote(), timeout=START_SECONDS)
        except self._ray.exceptions.GetTimeoutError as error:
            self._ray.kill(handle)
            raise UnavailableError(
                f"no node of the cluster has {ACTOR_CPUS} CPU and {ACTOR_MEMORY >> 30} GB free for session {session_id}",
                solution="End sessions with cleanup_session(), or add nodes.",
            ) from error
        _record(name, node)
        return ActorExecutor(handle, name, session_id), True

    def remove(self, name: str) -> None:
        """Ends the actor and waits until its name is free again."""
        _forget(name)
        with contextlib.suppress(ValueError):
            self._ray.kill(self._ray.get_actor(name, namespace=NAMESPACE))
        for _ in range(40):
            try:
                self._ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return
            time.sleep(0.05)


executor_class = RemoteClass(
    CodeInterpreter,
    CodeInterpreterActor,
    "CodeInterpreterExecutor",
    num_cpus=ACTOR_CPUS,
    memory=ACTOR_MEMORY,
    max_concurrency=8,  # statistics and cleanup do not wait for a running execution
)


# ---- which sessions exist, for when their node does not any more ----


def _kv() -> Any:
    ray_start.started()
    return importlib.import_module("ray.experimental.internal_kv")


def _record(name: str, node: str) -> None:
    _kv()._internal_kv_put(name.encode(), node.encode(), namespace=_KV_NAMESPACE)


def _is_recorded(name: str) -> bool:
    return bool(_kv()._internal_kv_exists(name.encode(), namespace=_KV_NAMESPACE))


def _forget(name: str) -> None:
    _kv()._internal_kv_del(name.encode(), namespace=_KV_NAMESPACE)
