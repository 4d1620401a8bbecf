# SPDX-License-Identifier: Apache-2.0
"""One call of a tool on one worker: the frames that are exchanged, and how they are waited for.

The protocol is the same with and without an event loop; `run` and `run_sync` differ only in how
they wait. The engine chooses the worker and ends it.
"""

from __future__ import annotations

import asyncio
import pickle
import select
import signal
import time
from typing import Any, Optional

from husk.engines.engine import ToolSpec
from husk.engines.local import wire
from husk.engines.local.function import FunctionForm, form_of, pack, pack_split
from husk.engines.local.process import OUTPUT_LIMIT, Ending, WorkerProcess
from husk.tool_errors import (
    ToolArgumentError,
    ToolCrashed,
    ToolError,
    ToolOutOfMemory,
    ToolOutputTooLarge,
    ToolRaised,
    ToolResultError,
    ToolTimeout,
    ToolTraceback,
)

# For starting the interpreter and importing the tool's modules; the tool's timeout starts after it.
START_SECONDS = 120.0


class Exchange:
    """The exchange of one call.

    Attributes:
        reusable: the worker has answered and can take another call.
        lost: the worker is gone or must be killed; there is no answer.
        timed_out: it must be killed because of the timeout.
        unsent: the worker was gone before the call reached it, so another one can take the call.
    """

    def __init__(
        self, worker: WorkerProcess, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.worker = worker
        self.spec = spec
        self.args = args
        self.kwargs = kwargs
        self.form: FunctionForm = form_of(spec)
        self.reusable = False
        self.lost = False
        self.timed_out = False
        self.unsent = False
        self._loading = False
        self._split = False
        self._function_id = 0
        self._writing = False
        self._answer: tuple[bytes, bytes] = (b"", b"")
        self._error: Optional[ToolError] = None
        self._done: Optional[asyncio.Future[None]] = None
        self._timer: Optional[asyncio.TimerHandle] = None

    # ---- the conversation ----

    def begin(self, payload: bytes) -> None:
        """Sends the call, after the function if the worker does not have it yet."""
        self.worker.output_bytes = 0
        try:
            self._send(wire.CALL, payload)
        except OSError:
            self.lost = self.unsent = True

    def _send(self, kind: bytes, payload: bytes) -> None:
        channel = self.worker.channel
        # Another call may change the form at any time.
        self._function_id, definition = self.form.current
        if self._function_id not in self.worker.defined:
            self._loading = True
            channel.send(wire.DEFINE, self._function_id, definition())
        channel.send(kind, self._function_id, payload)

    def _send_again(self) -> None:
        if self._split:
            self._send(wire.CALL_SPLIT, pack_split(self.form, self.args, self.kwargs))
        else:
            self._send(wire.CALL, pack(self.form, self.args, self.kwargs))

    def take(self, kind: bytes, payload: bytes) -> bool:
        """Takes a frame of the worker; returns True for the last one."""
        if kind == wire.RESULT or kind == wire.RESULT_AFTER_OUTPUT or kind == wire.RAISED:
            self._answer = (kind, payload)
            self.reusable = True
            return True
        try:
            return self._take_rare(kind, payload)
        except ToolError as error:
            self._error = error
        except OSError:
            self.lost = True
            return True
        # The worker has rejected the function and skips the call that came with it.
        self.reusable = True
        return True

    def _take_rare(self, kind: bytes, payload: bytes) -> bool:
        name = self.spec.name
        if kind == wire.LOADED:
            self.worker.defined.add(self._function_id)
            self._loading = False
            return False
        if kind in (wire.NOT_IMPORTABLE, wire.ANOTHER, wire.LOAD_FAILED):
            self.form.weaken(self._function_id, payload.decode(), kind == wire.ANOTHER)
            self._send_again()
            return False
        if kind == wire.BAD_ARGUMENTS and not self._split:
            self._split = True
            self._send_again()
            return False
        if kind == wire.BAD_ARGUMENTS:
            label, text = pickle.loads(payload)
            raise ToolArgumentError(
                f"Argument '{label}' of tool '{name}' cannot be rebuilt in its worker: {text}.",
                argument=str(label),
            )
        if kind == wire.BAD_RESULT:
            raise ToolResultError(
                f"The result of tool '{name}' cannot be sent: {payload.decode()}."
            )
        self.lost = True
        return True

    def outcome(self) -> Any:
        """Returns the result of the tool, or raises its exception."""
        kind, payload = self._answer
        if self._error is not None:
            raise self._error
        if kind != wire.RESULT:
            self.worker.drain_output()
        if kind == wire.RAISED:
            _raise(self.spec, payload)
        try:
            return pickle.loads(payload)
        except Exception as error:
            raise ToolResultError(
                f"The result of tool '{self.spec.name}' cannot be rebuilt here: "
                f"{type(error).__name__}: {error}."
            ) from error

    # ---- waiting with an event loop ----

    async def run(self, payload: bytes) -> None:
        """Makes the call and awaits its end."""
        self.begin(payload)
        if self.lost:
            return
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        fd = self.worker.channel.fd
        loop.add_reader(fd, self._readable, loop)
        self._after_send(loop)
        if self._loading or self.spec.timeout is not None:
            self._arm(loop)
        try:
            await self._done
        finally:
            loop.remove_reader(fd)
            if self._writing:
                loop.remove_writer(fd)
            if self._timer is not None:
                self._timer.cancel()

    def _readable(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (frame := self.worker.channel.receive()) is not None:
                loading = self._loading
                if self.take(*frame):
                    self._finish()
                    return
                self._after_send(loop)
                if loading and not self._loading:
                    self._arm(loop)
        except EOFError:
            self.lost = True
            self._finish()

    def _writable(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            if self.worker.channel.flush():
                loop.remove_writer(self.worker.channel.fd)
        except OSError:
            self.lost = True
            self._finish()

    def _after_send(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.worker.channel.unsent:
            self._writing = True
            loop.add_writer(self.worker.channel.fd, self._writable, loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        seconds = self._seconds()
        if seconds is not None:
            self._timer = loop.call_later(seconds, self._expired)

    def _seconds(self) -> Optional[float]:
        return START_SECONDS if self._loading else self.spec.timeout

    def _expired(self) -> None:
        self.lost = self.timed_out = True
        self._finish()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    # ---- waiting without one ----

    def run_sync(self, payload: bytes) -> None:
        """Makes the call and blocks until its end."""
        self.begin(payload)
        channel = self.worker.channel
        poll = select.poll()
        deadline = self._deadline()
        try:
            while not self.lost:
                poll.register(channel.fd, select.POLLIN | (select.POLLOUT if channel.unsent else 0))
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not poll.poll(None if left is None else left * 1000 + 1):
                    self.lost = self.timed_out = True
                    return
                channel.flush()
                loading = self._loading
                while (frame := channel.receive()) is not None:
                    if self.take(*frame):
                        return
                if loading and not self._loading:
                    deadline = self._deadline()
        except (EOFError, OSError):
            self.lost = True

    def _deadline(self) -> Optional[float]:
        seconds = self._seconds()
        return None if seconds is None else time.monotonic() + seconds


def _raise(spec: ToolSpec, payload: bytes) -> None:
    name, message, text, data = pickle.loads(payload)
    error: BaseException
    try:
        error = pickle.loads(data) if data is not None else _wrapped(spec, name, message)
    except Exception:
        error = _wrapped(spec, name, message)
    if not isinstance(error, Exception):
        error = _wrapped(spec, name, message)
    error.__cause__ = ToolTraceback(text)
    raise error


def _wrapped(spec: ToolSpec, name: str, message: str) -> ToolRaised:
    return ToolRaised(f"Tool '{spec.name}' raised {name}: {message}", type_name=name)


def died(spec: ToolSpec, worker: WorkerProcess, ending: Ending, timed_out: bool) -> Exception:
    """Returns the error for a call whose worker did not answer."""
    name = spec.name
    if worker.failure is not None:
        return worker.failure
    if timed_out and (spec.timeout is None or not worker.defined):
        return ToolTimeout(f"Tool '{name}' was not loaded within {START_SECONDS:g} s.")
    if timed_out:
        return ToolTimeout(f"Tool '{name}' took longer than {spec.timeout:g} s and was killed.")
    if worker.flooded:
        return ToolOutputTooLarge(
            f"Tool '{name}' wrote more than {OUTPUT_LIMIT} bytes of output and was killed.",
            solution="HUSK_TOOL_OUTPUT_LIMIT sets the limit in bytes.",
        )
    # If only a child of the tool was killed for memory, the worker ended for its own reason.
    if ending.oom and ending.signal == signal.SIGKILL:
        return ToolOutOfMemory(
            f"Tool '{name}' exceeded its memory of {spec.memory_bytes} bytes and was killed.",
            signal=ending.signal,
            oom=True,
            solution="Raise the limit, for example tool(memory='2GB').",
        )
    if not ending.started:
        said = " ".join(stream.tail for stream in worker.streams).strip()
        return ToolCrashed(
            f"The worker of tool '{name}' could not be started: {said or 'husk limited said nothing'}",
            exit_code=ending.exit_code,
            signal=ending.signal,
        )
    if ending.signal is not None:
        how = f"was killed by {_signal_name(ending.signal)}"
    else:
        how = f"exited with code {ending.exit_code}"
    return ToolCrashed(
        f"The worker of tool '{name}' {how} during the call.",
        exit_code=ending.exit_code,
        signal=ending.signal,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
