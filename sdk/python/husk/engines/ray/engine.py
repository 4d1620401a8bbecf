# SPDX-License-Identifier: Apache-2.0
"""The engine that runs tools as Ray tasks.

CPUs, GPUs and memory of a tool become the options of its remote function: Ray places tasks by them,
on any node of the cluster. A task whose worker or node dies is retried by Ray's own rules (three
times unless Ray is told otherwise); what Ray gives up on is reported as a `ToolError`.
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
    """Runs tools as Ray tasks. Ray is started at the first call when it is not running yet."""

    name = "ray"

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool and returns its result; cancelling the await ends the task."""
        # Starting Ray takes seconds, and a large argument takes time to serialise.
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
            }
            if spec.memory_bytes is not None:
                options["memory"] = spec.memory_bytes
            function = ray.remote(**options)(_awaited(spec.func, spec.name))
            spec.cache[self.name] = function
        return function

    def close(self) -> None:
        """Leaves Ray as it is: it may belong to the user, and Ray ends its own at exit."""

    def _submit(
        self,
        spec: ToolSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        left: Optional[threading.Event] = None,
    ) -> Any:
        """Sends a task, unless whoever asked for it has left by then."""
        function = self.remote_function(spec)
        if left is not None and left.is_set():
            return None
        try:
            return function.remote(*args, **kwargs)
        except Exception as error:
            _raise_unsent(spec, args, kwargs, error)


def _awaited(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Ray tasks are plain functions; a coroutine is run to its end in the task."""

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
            # Ray would take the first item of a generator for the result.
            raise ToolResultError(
                f"what the tool {name} returned cannot be sent back: "
                f"cannot pickle '{type(result).__name__}' object"
            )
        return result

    return run


def _can_travel(error: Exception) -> bool:
    """Whether the caller can be given this exception itself: it can be rebuilt, and means the same
    there.
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

# A task that waits lends its CPUs to others, without which tasks that wait for tasks would fill a
# cluster and stand still. Ray sees that it waits only in a blocking call on the main thread; a
# short one is enough to place a task.
LEND_SECONDS = 0.02
LEND_EVERY = 0.2
_lent = 0.0


def _is_in_task() -> bool:
    """Whether this is a task of Ray's, whose CPUs can be lent; those of an actor are its own for
    life.
    """
    ray = ray_start.module()
    context = ray.get_runtime_context()
    return context.worker.mode == ray.WORKER_MODE and context.get_actor_id() is None


async def _lend(ref: Any) -> None:
    """Lends the CPUs now and then, so that the event loop goes on in between."""
    global _lent
    while True:
        if time.monotonic() - _lent >= LEND_EVERY:  # however many calls wait at once
            ray_start.module().wait([ref], timeout=LEND_SECONDS)
            _lent = time.monotonic()
        await asyncio.sleep(LEND_EVERY)


def _end(ref: Any) -> None:
    """Ends a task with its process: a thread of its own may hold it otherwise."""
    ray_start.module().cancel(ref, force=True)


def _end_sent(sending: asyncio.Future[Any]) -> None:
    """Ends a task whose caller left while it was being sent."""
    if not sending.cancelled() and sending.exception() is None and sending.result() is not None:
        _end(sending.result())


# ---- errors ----


def _raise(spec: ToolSpec, error: BaseException, ref: Any, timed_out: bool) -> NoReturn:
    """Raises what the tool raised, or a `ToolError` for what Ray says."""
    if timed_out:
        _end(ref)
        raise ToolTimeout(
            f"the tool {spec.name} was not done within {spec.timeout:g} s and was ended",
            detail="the time until Ray placed it on a free worker is part of that",
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
            f"Ray cannot place the tool {spec.name}", detail=_line(error)
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
        # What we cancel is not waited for any more; Ray says the same of a KeyboardInterrupt in the
        # task.
        raise ToolRaised(
            f"the tool {spec.name} raised KeyboardInterrupt", type_name="KeyboardInterrupt"
        ) from told
    # Ray puts a bare RayError in the place of an exception that cannot be pickled.
    if not isinstance(cause, Exception) or type(cause) is found.RayError:
        raise ToolRaised(
            f"the tool {spec.name} raised: {_line(cause)}", type_name=_type_in(_line(cause))
        ) from told
    # What the tool itself raises comes through run() above; the rest is Ray at work on arguments
    # and results.
    is_rays = __file__ not in told.message
    if is_rays and "failed to import on the worker" in str(cause):
        raise ToolFunctionError(
            f"the tool {spec.name} cannot be loaded in its worker: {_last_line(cause)}",
            solution="Put the module where workers find it, for example into a runtime_env of ray.init().",
        ) from told
    if is_rays and "pickle" in str(cause):
        raise ToolResultError(
            f"what the tool {spec.name} returned cannot be sent back: {_line(cause)}"
        ) from told
    raise cause from told


def _raise_unsent(
    spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> NoReturn:
    """Ray could not send a call: names the argument that is to blame, else the function."""
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
            solution="Make what it uses inside of it, or in a module that workers can import.",
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
    """Returns the first line of a message; Ray's are pages long."""
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
