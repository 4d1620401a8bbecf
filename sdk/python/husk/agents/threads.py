# SPDX-License-Identifier: Apache-2.0
"""Runs plain (not async) functions for an event loop, each call on a thread.

Unlike in the executor of asyncio, a cancelled call does not occupy a thread of the pool: an
exception is raised in its thread, and a new thread takes the next call. If too many such threads do
not stop, `on_stuck` is called and the process must be replaced. Threads are daemons, so a call that
never ends cannot block the exit.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import ctypes
import queue
import threading
from typing import Any, Callable, Optional

MAX_THREADS = 256
MAX_STUCK = 64


class CallCancelled(BaseException):
    """Raised inside a plain function whose call was cancelled."""


class _Closed(Exception):
    """The event loop is closed."""


class _Job:
    __slots__ = ("function", "args", "context", "future", "thread", "abandoned")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context,
        future: Any,
    ):
        self.function = function
        self.args = args
        self.context = context
        self.future: asyncio.Future[Any] = future
        self.thread: Optional[int] = None  # set while it runs
        self.abandoned = False


class Threads:
    """The threads of one event loop. Create and use it on that loop only."""

    def __init__(self, on_stuck: Optional[Callable[[int], None]] = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Optional[_Job]] = queue.SimpleQueue()
        self._finished: collections.deque[tuple[_Job, Any, Optional[BaseException]]] = (
            collections.deque()
        )
        self._lock = threading.Lock()  # of a job's `thread` and `abandoned`, and of the counters
        self._idle = 0
        self._threads = 0
        self._stuck = 0
        self._woken = False
        self._on_stuck = on_stuck

    async def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        context: Optional[contextvars.Context] = None,
    ) -> Any:
        """Calls a function on a thread and awaits its result."""
        job = _Job(function, args, context or contextvars.copy_context(), self.loop.create_future())
        with self._lock:
            spawn = self._idle <= self._jobs.qsize() and self._threads < MAX_THREADS
            self._threads += spawn
        self._jobs.put(job)
        if spawn:
            threading.Thread(target=self._work, name="husk-call", daemon=True).start()
        try:
            return await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def close(self) -> None:
        """Ends the idle threads; the others end with their calls."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _abandon(self, job: _Job) -> None:
        with self._lock:
            job.abandoned = True
            if job.thread is None:
                return  # it has not started, or has ended
            self._threads -= 1
            self._stuck += 1
            stuck = self._stuck
            # Under the lock, so that the thread cannot start another job.
            _interrupt(job.thread, CallCancelled)
        if stuck > MAX_STUCK and self._on_stuck is not None:
            self._on_stuck(stuck)

    def _work(self) -> None:
        try:
            while self._one():
                pass
        except _Closed:
            return
        except CallCancelled:
            pass  # raised just after the end of the function
        with self._lock:
            self._stuck -= 1

    def _one(self) -> bool:
        """Runs the next job; returns False if this thread was abandoned."""
        with self._lock:
            self._idle += 1
        job = self._jobs.get()
        with self._lock:
            self._idle -= 1
            if job is None:
                raise _Closed
            if job.abandoned:
                return True
            job.thread = threading.get_ident()
        result, error = None, None
        try:
            result = job.context.run(job.function, *job.args)
        except BaseException as e:  # SystemExit too: it is the function's answer, not the worker's
            error = e
        with self._lock:
            job.thread = None
            if job.abandoned:
                _interrupt(threading.get_ident(), None)  # in case it has not been raised yet
                return False
        self._finished.append((job, result, error))
        if not self._woken:
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                raise _Closed from None  # no task waits for the result
        return True

    def _deliver(self) -> None:
        self._woken = False  # reset first, so that a later result wakes the loop again
        while self._finished:
            job, result, error = self._finished.popleft()
            if job.future.done():
                continue
            if error is None:
                job.future.set_result(result)
            elif isinstance(error, StopIteration):
                job.future.set_exception(RuntimeError("the function raised StopIteration"))
            else:
                job.future.set_exception(error)


def _interrupt(thread: int, exception: Optional[type[BaseException]]) -> None:
    """Raises an exception in a thread at its next bytecode; None withdraws it."""
    value = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)
