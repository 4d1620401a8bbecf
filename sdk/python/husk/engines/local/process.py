# SPDX-License-Identifier: Apache-2.0
"""Worker processes of the local tool engine: starts, watches and ends them, and forwards their
output.

One thread, the keeper, does this for all workers. `husk limited` also dies with that thread: the
kernel sends the signal when the starting *thread* ends, so a caller's short-lived thread must not
start workers. The keeper never waits for a tool and never uses the sockets of calls.
"""

from __future__ import annotations

import codecs
import concurrent.futures
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from husk import locate
from husk.engines.local.wire import CHUNK, Channel

# Limit for stdout and stderr of one call together.
OUTPUT_LIMIT = int(os.environ.get("HUSK_TOOL_OUTPUT_LIMIT", 64 << 20))

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from husk.engines.local.worker import main; main(int(sys.argv[1]))"
)


class LimitsWarning(RuntimeWarning):
    """The limits of tools are weaker than requested, because this user cannot create cgroups."""


@dataclass(frozen=True)
class Limits:
    """Limits of a class of workers; tools with the same limits share workers."""

    num_cpus: float
    memory_bytes: Optional[int]
    num_gpus: float


@dataclass(frozen=True)
class Ending:
    """How a worker ended, as `husk limited` reported it."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    oom: bool = False
    started: bool = True


class _Stream:
    """Forwards stdout or stderr of a worker to the same output of this process."""

    def __init__(self, fd: int, name: str) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.name = name
        self.lock = threading.Lock()
        self.tail = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def pump(self) -> Optional[int]:
        """Forwards the available output; returns the number of bytes, or None at the end."""
        with self.lock:
            if self.fd < 0:
                return None
            try:
                data = os.read(self.fd, CHUNK)
            except BlockingIOError:
                return 0
            text = self.decoder.decode(data, not data)
            self.tail = (self.tail + text)[-400:]
            target = getattr(sys, self.name)
            if text and target is not None:
                _write(target, text)
            return len(data) if data else None

    def close(self) -> None:
        with self.lock:
            if self.fd >= 0:
                os.close(self.fd)
            self.fd = -1


def _write(target: Any, text: str) -> None:
    # Our own output may be closed or not a file. The call must not fail because of that.
    with contextlib.suppress(Exception):
        try:
            target.write(text)
        except UnicodeEncodeError:
            target.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        target.flush()


class WorkerProcess:
    """One worker: the socket for its caller, and the keeper's state of the process."""

    def __init__(self, limits: Limits, gpus: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair()
        self.limits = limits
        self.gpus = gpus
        self.channel = Channel(ours)
        self.theirs: Optional[socket.socket] = theirs
        self.defined: set[int] = set()
        self.idle_since = 0.0
        self.output_bytes = 0
        self.streams: list[_Stream] = []
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.pid: Optional[int] = None
        self.report = bytearray()
        self.report_fd = -1
        self.failure: Optional[Exception] = None
        self.kill_wanted = False
        self.flooded = False
        self.ended: concurrent.futures.Future[Ending] = concurrent.futures.Future()
        # A waiting task may be cancelled, but not the future itself.
        self.ended.set_running_or_notify_cancel()

    def drain_output(self) -> None:
        """Forwards the output of the tool before its result is returned."""
        for stream in self.streams:
            while stream.pump():
                pass


class Keeper:
    """The thread that owns all worker processes of one engine."""

    def __init__(self, on_ended: Callable[[WorkerProcess], None], tick: Callable[[], None]) -> None:
        self._on_ended = on_ended
        self._tick = tick
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._jobs: deque[Callable[[], None]] = deque()
        self._stopping = False
        self._warned = False
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self._run, name="husk-tools", daemon=True)
        self.thread.start()

    # ---- for any thread ----

    def start(self, worker: WorkerProcess) -> None:
        """Starts the process of a worker; calls can be sent to its socket immediately."""
        self._submit(lambda: self._start(worker))

    def kill(self, worker: WorkerProcess) -> None:
        """Kills a worker; `worker.ended` is set when it is gone."""
        self._submit(lambda: self._kill(worker))

    def stop(self, timeout: float) -> None:
        """Ends the thread. The workers must have been ended before."""
        self._stopping = True
        self._submit(lambda: None)
        self.thread.join(timeout)

    def _submit(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            # The keeper wakes up even if the pipe is full.
            pass

    # ---- in the thread ----

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(1.0):
                if key.data is None:
                    os.read(self._wake_read, CHUNK)
                else:
                    _guarded(key.data)
            while self._jobs:
                _guarded(self._jobs.popleft())
            _guarded(self._tick)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _start(self, worker: WorkerProcess) -> None:
        assert worker.theirs is not None
        report_read = report_write = -1
        try:
            report_read, report_write = os.pipe2(os.O_CLOEXEC)
            worker.process = subprocess.Popen(
                _command(worker.limits, worker.theirs.fileno(), report_write),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(worker.theirs.fileno(), report_write),
                env=_environment(worker),
                start_new_session=True,  # Ctrl-C in the terminal is only for the caller
            )
        except Exception as error:
            _close(report_read)
            worker.failure = error
            self._finish(worker, Ending(started=False))
            return
        finally:
            _close(report_write)
            worker.theirs.close()
            worker.theirs = None
        os.set_blocking(report_read, False)
        worker.report_fd = report_read
        self._selector.register(
            report_read, selectors.EVENT_READ, lambda: self._read_report(worker)
        )
        assert worker.process.stdout is not None and worker.process.stderr is not None
        for pipe, name in ((worker.process.stdout, "stdout"), (worker.process.stderr, "stderr")):
            stream = _Stream(os.dup(pipe.fileno()), name)
            pipe.close()
            worker.streams.append(stream)
            self._selector.register(
                stream.fd, selectors.EVENT_READ, lambda s=stream: self._pump(worker, s)
            )

    def _pump(self, worker: WorkerProcess, stream: _Stream) -> None:
        count = stream.pump()
        if count is None:
            self._forget(stream)
            return
        worker.output_bytes += count
        if worker.output_bytes > OUTPUT_LIMIT and not worker.flooded:
            worker.flooded = True
            self._kill(worker)

    def _forget(self, stream: _Stream) -> None:
        if stream.fd >= 0:
            self._selector.unregister(stream.fd)
            stream.close()

    def _read_report(self, worker: WorkerProcess) -> None:
        try:
            data = os.read(worker.report_fd, CHUNK)
        except BlockingIOError:
            return
        worker.report += data
        ended = None
        while (end := worker.report.find(b"\n")) >= 0:
            event = json.loads(worker.report[:end])
            del worker.report[: end + 1]
            if event["event"] == "started":
                worker.pid = event["pid"]
                self._check_limits(event["limits"])
            elif event["event"] == "ended":
                ended = event
        if worker.kill_wanted and worker.pid is not None and ended is None:
            self._kill(worker)
        if ended is not None or not data:
            self._reap(worker, ended)

    def _check_limits(self, kind: str) -> None:
        if kind != "cgroup" and not self._warned:
            self._warned = True
            warnings.warn(
                "This user may not make cgroups: memory limits of tools bound the address space of each process, "
                "CPU limits whole cores. Run as root or with a delegated cgroup for exact limits.",
                LimitsWarning,
                stacklevel=2,
            )

    def _reap(self, worker: WorkerProcess, ended: Optional[dict[str, Any]]) -> None:
        assert worker.process is not None
        self._selector.unregister(worker.report_fd)
        os.close(worker.report_fd)
        try:
            code = worker.process.wait(5.0)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        for stream in worker.streams:
            while stream.pump():
                pass
            self._forget(stream)
        if ended is None:
            ending = Ending(
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                started=worker.pid is not None,
            )
        else:
            number = ended["signal"] or None
            ending = Ending(
                exit_code=None if number else ended["exit_code"],
                signal=number,
                oom=ended["oom_kills"] > 0,
            )
        self._finish(worker, ending)

    def _finish(self, worker: WorkerProcess, ending: Ending) -> None:
        self._on_ended(worker)
        worker.ended.set_result(ending)

    def _kill(self, worker: WorkerProcess) -> None:
        worker.kill_wanted = True
        if worker.ended.done() or worker.process is None:
            return
        # When its program ends, `husk limited` kills the remaining processes and reports. Before it
        # has reported the program's pid, it forwards SIGTERM; _read_report calls this again.
        if worker.pid is not None:
            _signal(worker.pid, signal.SIGKILL)
        else:
            _signal(worker.process.pid, signal.SIGTERM)


def _guarded(job: Callable[[], None]) -> None:
    """Runs a job; an error of one worker (or a warning turned into an error) must not end the
    thread.
    """
    try:
        job()
    except Exception:
        traceback.print_exc()


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _command(limits: Limits, socket_fd: int, report_fd: int) -> list[str]:
    command = [locate.program("husk"), "limited", "--name", "tool", "--report-fd", str(report_fd)]
    if limits.num_cpus > 0:
        command += ["--cpus", f"{limits.num_cpus:g}"]
    if limits.memory_bytes is not None:
        command += ["--memory", str(limits.memory_bytes)]
    if os.geteuid() != 0:
        command.append("--best-effort")
    package = str(Path(__file__).resolve().parents[3])
    return [*command, "--", sys.executable, "-c", _BOOT, str(socket_fd), package]


def _environment(worker: WorkerProcess) -> dict[str, str]:
    environment = dict(os.environ, HUSK_TOOL_WORKER="1")
    if worker.gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(worker.gpus)
    return environment
