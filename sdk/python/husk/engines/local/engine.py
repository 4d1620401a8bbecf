# SPDX-License-Identifier: Apache-2.0
"""Runs tools in worker processes on this machine, whose CPU and memory limits the kernel enforces.

Tools with the same limits share workers; a worker runs one call at a time. At most
`HUSK_TOOL_WORKERS` workers exist; further calls queue in order. Workers start on demand and end
after a minute without calls. This file assigns calls to workers; `exchange` talks to a worker, and
`process` owns the processes.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import time
import weakref
from collections import deque
from typing import Any, Optional, Sequence, Union, cast

from husk.engines.engine import ToolSpec
from husk.engines.future import Background, RemoteFunction
from husk.engines.local.exchange import Exchange, died
from husk.engines.local.function import form_of, pack
from husk.engines.local.gpus import GpuLedger
from husk.engines.local.process import Ending, Keeper, Limits, WorkerProcess
from husk.tool_errors import ToolCrashed, ToolError, ToolResourceError

Place = concurrent.futures.Future[WorkerProcess]

IDLE_SECONDS = float(os.environ.get("HUSK_TOOL_IDLE_SECONDS", 60))
KILL_SECONDS = 10.0
# A worker may end between two calls; a call that has not reached one is sent to the next.
TRIES = 3


def _default_workers() -> int:
    # More than the number of cores, because most tools wait for I/O.
    return int(os.environ.get("HUSK_TOOL_WORKERS", 0)) or max(8, 2 * (os.cpu_count() or 1))


class LocalEngine:
    """The local engine; see `husk.engines.engine.Engine` for its methods."""

    name = "local"

    def __init__(
        self, max_workers: Optional[int] = None, gpus: Optional[Sequence[str]] = None
    ) -> None:
        """Starts nothing yet.

        Args:
            max_workers: maximum number of worker processes; by default HUSK_TOOL_WORKERS, else
                twice the number of CPUs but at least 8.
            gpus: names of the GPUs to assign; by default all of this machine.
        """
        self._max_workers = max_workers or _default_workers()
        self._lock = threading.Lock()
        self._gpus = GpuLedger(gpus)
        self._keeper: Optional[Keeper] = None
        self._workers: set[WorkerProcess] = set()
        self._idle: dict[Limits, list[WorkerProcess]] = {}
        self._waiting: dict[Limits, deque[Place]] = {}
        self._background: Optional[Background] = None
        _alive.add(self)

    # ---- calls ----

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool in a worker. Cancelling the await ends the worker."""
        for _ in range(spec.retries):
            try:
                return await self._call_once(spec, args, kwargs)
            except ToolCrashed:
                pass
        return await self._call_once(spec, args, kwargs)

    def call_sync(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the tool in a worker and waits for it, for code without an event loop."""
        for _ in range(spec.retries):
            try:
                return self._call_sync_once(spec, args, kwargs)
            except ToolCrashed:
                pass
        return self._call_sync_once(spec, args, kwargs)

    async def _call_once(
        self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        limits = _limits(spec)
        payload = pack(form_of(spec), args, kwargs)
        for _ in range(TRIES):
            worker = self._take(limits)
            if not isinstance(worker, WorkerProcess):
                worker = await self._wait_for(worker)
            exchange = Exchange(worker, spec, args, kwargs)
            try:
                await exchange.run(payload)
            finally:
                self._after(worker, exchange)
            if not exchange.lost:
                return exchange.outcome()
            ending = await _ending(worker)
            if not exchange.unsent or worker.failure is not None:
                raise died(spec, worker, ending, exchange.timed_out)
        raise ToolCrashed(f"Tool '{spec.name}': {TRIES} workers were gone before the call began.")

    def _call_sync_once(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        limits = _limits(spec)
        payload = pack(form_of(spec), args, kwargs)
        for _ in range(TRIES):
            worker = self._take(limits)
            if not isinstance(worker, WorkerProcess):
                worker = self._wait_for_sync(worker)
            exchange = Exchange(worker, spec, args, kwargs)
            try:
                exchange.run_sync(payload)
            finally:
                self._after(worker, exchange)
            if not exchange.lost:
                return exchange.outcome()
            ending = _ending_sync(worker)
            if not exchange.unsent or worker.failure is not None:
                raise died(spec, worker, ending, exchange.timed_out)
        raise ToolCrashed(f"Tool '{spec.name}': {TRIES} workers were gone before the call began.")

    def remote_function(self, spec: ToolSpec) -> RemoteFunction:
        """Returns an object whose `.remote(...)` starts a call and returns a ToolFuture."""
        with self._lock:
            if self._background is None:
                self._background = Background()
            return RemoteFunction(self, self._background, spec)

    async def _wait_for(self, place: Place) -> WorkerProcess:
        try:
            return await asyncio.wrap_future(place)
        except BaseException:
            self._give_up(place)
            raise

    def _wait_for_sync(self, place: Place) -> WorkerProcess:
        try:
            return place.result()
        except BaseException:
            self._give_up(place)
            raise

    def _give_up(self, place: Place) -> None:
        # The worker may have been assigned just as the caller was cancelled.
        if not place.cancel() and place.exception() is None:
            self._give_back(place.result())

    def _after(self, worker: WorkerProcess, exchange: Exchange) -> None:
        if exchange.reusable:
            self._give_back(worker)
            return
        # Timed out, cancelled or lost: its state is unknown, and the tool may still be running.
        worker.channel.close()
        keeper = self._keeper
        if keeper is not None:
            keeper.kill(worker)

    # ---- assigning workers; always under the lock ----

    def _take(self, limits: Limits) -> Union[WorkerProcess, Place]:
        """Returns a worker, or a place in the queue if all are busy."""
        with self._lock:
            idle = self._idle.get(limits)
            if idle:
                return idle.pop()
            worker = self._start(limits)
            if worker is not None:
                return worker
            place: Place = concurrent.futures.Future()
            self._waiting.setdefault(limits, deque()).append(place)
            return place

    def _start(self, limits: Limits) -> Optional[WorkerProcess]:
        if limits.num_gpus > len(self._gpus):
            raise ToolResourceError(
                f"The tool requires {limits.num_gpus:g} GPUs and this machine has {len(self._gpus)}.",
                solution="Run it on Ray (HUSK_ENGINE=ray) in a cluster that has them.",
            )
        if len(self._workers) >= self._max_workers and not self._retire_one(limits):
            return None
        gpus = self._gpus.take(limits.num_gpus)
        while gpus is None and self._retire_one(limits, with_gpus=True):
            gpus = self._gpus.take(limits.num_gpus)
        if gpus is None:
            return None
        if self._keeper is None:
            self._keeper = Keeper(self._ended, self._retire_idle)
        worker = WorkerProcess(limits, gpus)
        self._workers.add(worker)
        self._keeper.start(worker)
        return worker

    def _retire_one(self, limits: Limits, with_gpus: bool = False) -> bool:
        """Ends an idle worker of other limits, so that a new one can start."""
        for other, idle in self._idle.items():
            if other != limits and idle and (other.num_gpus > 0 or not with_gpus):
                self._retire(idle.pop(0))
                return True
        return False

    def _retire(self, worker: WorkerProcess) -> None:
        # It ends at the end of its input; from now on it does not count and holds no GPUs.
        worker.channel.close()
        self._drop(worker)

    def _drop(self, worker: WorkerProcess) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            self._gpus.give_back(worker.gpus, worker.limits.num_gpus)

    def _give_back(self, worker: WorkerProcess) -> None:
        with self._lock:
            if worker.ended.done() or worker not in self._workers:
                worker.channel.close()
                return
            waiting = self._waiting.get(worker.limits)
            while waiting:
                place = waiting.popleft()
                if place.set_running_or_notify_cancel():
                    place.set_result(worker)
                    return
            worker.idle_since = time.monotonic()
            self._idle.setdefault(worker.limits, []).append(worker)
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Starts workers for queued calls as far as the limits allow."""
        for limits, waiting in self._waiting.items():
            while waiting:
                if waiting[0].cancelled():
                    waiting.popleft()
                    continue
                worker = self._start(limits)
                if worker is None:
                    break
                place = waiting.popleft()
                if place.set_running_or_notify_cancel():
                    place.set_result(worker)
                else:
                    self._idle.setdefault(limits, []).append(worker)

    # ---- called by the keeper ----

    def _ended(self, worker: WorkerProcess) -> None:
        with self._lock:
            idle = self._idle.get(worker.limits, [])
            if worker in idle:
                idle.remove(worker)
                worker.channel.close()
            self._drop(worker)
            self._serve_waiting()

    def _retire_idle(self) -> None:
        oldest = time.monotonic() - IDLE_SECONDS
        with self._lock:
            for idle in self._idle.values():
                while idle and idle[0].idle_since < oldest:
                    self._retire(idle.pop(0))

    # ---- the end ----

    def close(self) -> None:
        """Ends all workers and waits for them. Running and queued calls fail; a later call starts
        new workers.
        """
        with self._lock:
            keeper, self._keeper = self._keeper, None
            background, self._background = self._background, None
            workers = list(self._workers)
            places = [place for waiting in self._waiting.values() for place in waiting]
            for idle in self._idle.values():
                for worker in idle:
                    worker.channel.close()
            self._idle.clear()
            self._waiting.clear()
        for place in places:
            if place.set_running_or_notify_cancel():
                place.set_exception(ToolError("The engine was closed while this call waited."))
        if keeper is not None:
            for worker in workers:
                keeper.kill(worker)
            concurrent.futures.wait([worker.ended for worker in workers], KILL_SECONDS)
            keeper.stop(KILL_SECONDS)
        if background is not None:
            background.stop()

    def forget_after_fork(self) -> None:
        """Resets this engine in a forked child: the workers belong to the parent."""
        for worker in self._workers:
            # Closes only this copy of the socket; the worker does not notice.
            worker.channel.close()
        # The lock may be held by a thread that does not exist here.
        self._lock = threading.Lock()
        self._gpus = GpuLedger(self._gpus.names)
        self._keeper = None
        self._background = None
        self._workers, self._idle, self._waiting = set(), {}, {}


async def _ending(worker: WorkerProcess) -> Ending:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(worker.ended), KILL_SECONDS)
    except asyncio.TimeoutError:
        return Ending()


def _ending_sync(worker: WorkerProcess) -> Ending:
    try:
        return worker.ended.result(KILL_SECONDS)
    except concurrent.futures.TimeoutError:
        return Ending()


def _limits(spec: ToolSpec) -> Limits:
    limits = spec.cache.get("local.limits")
    if limits is None:
        limits = Limits(float(spec.num_cpus), spec.memory_bytes, float(spec.num_gpus))
        spec.cache["local.limits"] = limits
    return cast(Limits, limits)


_alive: weakref.WeakSet[LocalEngine] = weakref.WeakSet()


def _close_all() -> None:
    for engine in list(_alive):
        engine.close()


def _forget_all() -> None:
    for engine in list(_alive):
        engine.forget_after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
