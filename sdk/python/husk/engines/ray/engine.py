# SPDX-License-Identifier: Apache-2.0
"""The engine that runs tools as Ray tasks.

CPUs, GPUs and memory of a tool are the options of its remote function, by which Ray schedules tasks
on the nodes of the cluster. A task whose worker or node dies is repeated as often as the tool says,
by default never; then the call raises a `ToolError`. A task that no node can run would wait for
ever: it is refused.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import importlib
import inspect
import re
import threading
import time
from typing import Any, Awaitable, Callable, NoReturn, Optional

from husk.engines.engine import ToolSpec
from husk.engines.ray import pickling as ray_pickle
from husk.engines.ray import room
from husk.engines.ray import start as ray_start
from husk.errors import text_of
from husk.tool_errors import (
    ToolArgumentError,
    ToolCrashed,
    ToolError,
    ToolFunctionError,
    ToolOutOfMemory,
    ToolRaised,
    ToolResourceError,
    ToolResultError,
    ToolTimeout,
    ToolTraceback,
)

__all__ = ["RayEngine"]

_COLOUR = re.compile("\x1b\\[[0-9;]*m")


class RayEngine:
    """Runs tools as Ray tasks. The first call starts Ray if it is not running."""

    name = "ray"

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool and returns its result; cancelling the await ends the task."""
        # Starting Ray takes seconds, and serialising a large argument takes time.
        left = threading.Event()
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(None, self._submit, spec, args, kwargs, left)
        try:
            ref = await asyncio.shield(sending)
        except asyncio.CancelledError:
            left.set()
            sending.add_done_callback(_end_sent)
            raise
        future = asyncio.wrap_future(ref.future())
        lending = asyncio.ensure_future(_lend(ref)) if _is_in_task() else None
        try:
            return await asyncio.wait_for(future, spec.timeout)
        except asyncio.CancelledError:
            _end(ref)
            raise
        except asyncio.TimeoutError as error:
            _raise(spec, error, ref, future.cancelled())
        except Exception as error:
            _raise(spec, error, ref, False)
        finally:
            if lending is not None:
                lending.cancel()

    def call_sync(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for code without an event loop."""
        ref = self._submit(spec, args, kwargs)
        future: concurrent.futures.Future[Any] = ref.future()
        timeout = spec.timeout
        try:
            if _is_in_task():
                ready, _ = ray_start.module().wait([ref], timeout=timeout)
                timeout = None if ready else 0
            return future.result(timeout)
        except (KeyboardInterrupt, SystemExit):
            _end(ref)
            raise
        except concurrent.futures.TimeoutError as error:
            _raise(spec, error, ref, not future.done())
        except Exception as error:
            _raise(spec, error, ref, False)

    def remote_function(self, spec: ToolSpec) -> Any:
        """Returns the Ray remote function of a tool: `ray.get(f.remote(...))`."""
        ray = ray_start.started()
        function = spec.cache.get(self.name)
        if function is None:
            ray_pickle.share(spec.func)
            options: dict[str, Any] = {
                "num_cpus": spec.num_cpus,
                "num_gpus": spec.num_gpus,
                "name": spec.name,
                "max_retries": spec.retries,  # Ray's own default is 3
            }
            if spec.memory_bytes is not None:
                options["memory"] = spec.memory_bytes
            function = ray.remote(**options)(_awaited(spec.func, spec.name))
            spec.cache[self.name] = function
        return function

    def close(self) -> None:
        """Leaves Ray running: it may belong to the user, and Ray shuts down at exit."""

    def _submit(
        self,
        spec: ToolSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        left: Optional[threading.Event] = None,
    ) -> Any:
        """Sends a task, unless the caller has been cancelled."""
        function = self.remote_function(spec)
        room.check(spec)
        if left is not None and left.is_set():
            return None
        try:
            return function.remote(*args, **kwargs)
        except Exception as error:
            _raise_unsent(spec, args, kwargs, error)


def _awaited(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Runs a coroutine to its end in the task, because Ray tasks are plain functions."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = asyncio.run(_wait(result))
        except Exception as error:
            if _can_travel(error):
                raise
            kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
            said = f"the tool {name} raised {kind}: {text_of(error)}"
            raise ToolRaised(said, type_name=kind) from error
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            # Ray would return the first item of a generator as the result.
            raise ToolResultError(
                f"the result of the tool {name} cannot be sent back: "
                f"cannot pickle '{type(result).__name__}' object"
            )
        return result

    return run


def _can_travel(error: Exception) -> bool:
    """Returns whether the caller can raise this exception: it can be rebuilt and has the same
    meaning there.
    """
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        return False
    pickler = importlib.import_module("ray.cloudpickle")
    try:
        return isinstance(pickler.loads(pickler.dumps(error)), Exception)
    except Exception:
        return False


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


# ---- tools that call tools ----

# A waiting task lends its CPUs to others; otherwise tasks that wait for tasks could fill a cluster
# and deadlock. Ray notices the wait only in a blocking call on the main thread; a short one is
# enough to schedule a task.
LEND_SECONDS = 0.02
LEND_EVERY = 0.2
_lent = 0.0


def _is_in_task() -> bool:
    """Returns whether this is a Ray task, whose CPUs can be lent; an actor keeps its own."""
    ray = ray_start.module()
    context = ray.get_runtime_context()
    return context.worker.mode == ray.WORKER_MODE and context.get_actor_id() is None


async def _lend(ref: Any) -> None:
    """Lends the CPUs periodically, so that the event loop runs in between."""
    global _lent
    while True:
        if time.monotonic() - _lent >= LEND_EVERY:  # for all waiting calls together
            ray_start.module().wait([ref], timeout=LEND_SECONDS)
            _lent = time.monotonic()
        await asyncio.sleep(LEND_EVERY)


def _end(ref: Any) -> None:
    """Kills the process of a task, whose threads could keep it alive otherwise."""
    ray_start.module().cancel(ref, force=True)


def _end_sent(sending: asyncio.Future[Any]) -> None:
    """Ends a task whose caller was cancelled while it was being sent."""
    if not sending.cancelled() and sending.exception() is None and sending.result() is not None:
        _end(sending.result())


# ---- errors ----


def _raise(spec: ToolSpec, error: BaseException, ref: Any, timed_out: bool) -> NoReturn:
    """Raises the tool's exception, or a `ToolError` for an error of Ray."""
    if timed_out:
        _end(ref)
        raise ToolTimeout(
            f"the tool {spec.name} took longer than {spec.timeout:g} s and was killed",
            detail="this includes the time until Ray scheduled it",
        ) from None
    found = ray_start.module().exceptions
    if isinstance(error, found.RayTaskError):
        _raise_cause(spec, error, found)
    if isinstance(error, found.OutOfMemoryError):
        raise ToolOutOfMemory(
            f"the tool {spec.name} was killed: its node ran out of memory",
            oom=True,
            detail=_line(error),
        ) from error
    if isinstance(error, (found.TaskUnschedulableError, found.TaskPlacementGroupRemoved)):
        raise ToolResourceError(
            f"Ray cannot schedule the tool {spec.name}", detail=_line(error)
        ) from error
    lost = (
        found.WorkerCrashedError,
        found.NodeDiedError,
        found.LocalRayletDiedError,
        found.ObjectLostError,
    )
    if isinstance(error, lost):
        raise ToolCrashed(
            f"the worker of the tool {spec.name} ended in the middle of the call",
            detail=_line(error),
        ) from error
    if isinstance(error, found.RayError):
        raise ToolError(f"Ray could not run the tool {spec.name}", detail=_line(error)) from error
    raise error


def _raise_cause(spec: ToolSpec, error: Any, found: Any) -> NoReturn:
    cause = error.cause
    told = ToolTraceback(_COLOUR.sub("", str(error)))
    if isinstance(cause, found.TaskCancelledError):
        # Not our own cancellation, whose result is never read: Ray reports a KeyboardInterrupt in
        # the task like this.
        raise ToolRaised(
            f"the tool {spec.name} raised KeyboardInterrupt", type_name="KeyboardInterrupt"
        ) from told
    # Ray replaces an exception that cannot be pickled by a bare RayError.
    if not isinstance(cause, Exception) or type(cause) is found.RayError:
        raise ToolRaised(
            f"the tool {spec.name} raised: {_line(cause)}", type_name=_type_in(_line(cause))
        ) from told
    # Exceptions of the tool pass through run() above; others are from Ray's handling of arguments
    # and results.
    is_rays = __file__ not in told.message
    if is_rays and "failed to import on the worker" in str(cause):
        raise ToolFunctionError(
            f"the tool {spec.name} cannot be loaded in its worker: {_last_line(cause)}",
            solution="Make the module available to workers, for example with a runtime_env of ray.init().",
        ) from told
    if is_rays and "pickle" in str(cause):
        raise ToolResultError(
            f"the result of the tool {spec.name} cannot be sent back: {_line(cause)}"
        ) from told
    raise cause from told


def _raise_unsent(
    spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> NoReturn:
    """Ray could not send a call: finds the argument that caused it, else the function."""
    import cloudpickle  # type: ignore[import-untyped, unused-ignore]

    for label, value in _labelled(spec.func, args, kwargs):
        try:
            cloudpickle.dumps(value)
        except Exception as reason:
            raise ToolArgumentError(
                f"argument '{label}' of the tool {spec.name} cannot be sent to a worker: {reason}",
                argument=label,
                solution="Pass plain data and open connections, files and locks inside the tool.",
            ) from reason
    try:
        cloudpickle.dumps(spec.func)
    except Exception as reason:
        raise ToolFunctionError(
            f"the function of the tool {spec.name} cannot be sent to a worker: {reason}",
            solution="Create the objects that it uses inside it, or in a module that workers can import.",
        ) from reason
    raise error


def _labelled(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, Any]]:
    """Returns the arguments with their names in the signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [
        (places[i] if i < len(places) else f"*args[{i}]", value) for i, value in enumerate(args)
    ]
    return named + list(kwargs.items())


def _line(error: Any) -> str:
    """Returns the first line of a message, since Ray's messages are long."""
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )


def _last_line(error: Any) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _type_in(text: str) -> str:
    """Returns the class that Ray names in `Exception a.b.C isn't serializable`."""
    words = text.split()
    return words[1] if len(words) > 1 and words[0] == "Exception" else ""
