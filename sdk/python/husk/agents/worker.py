# SPDX-License-Identifier: Apache-2.0
"""The process that runs one agent for huskd:
`python -m husk.agents.worker --file FILE --name NAME [--main]`.

Descriptor 3 is a socket to huskd, with frames in both directions (frames.py). Requests run
concurrently: async agents as tasks on the event loop, plain ones on threads. Every request, even a
cancelled one, ends with exactly one DONE, ERROR or HTTP_END, so that huskd knows what still runs.
The process ends when huskd closes the socket.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
from typing import Any, AsyncGenerator, Coroutine, Optional, Sequence

from husk.agents import asgi, frames, kinds, load
from husk.agents.frames import FrameError, Parser, json_frame, plain
from husk.agents.kinds.plain import use_threads
from husk.agents.threads import Threads
from husk.errors import AgentLoadError, text_of

SOCKET_FD = 3
EXIT_SECONDS = 5.0
STUCK_EXIT_CODE = 70
TEXT_PIECE = 256 << 10
BODY_PIECE = 1 << 20
ERROR_TEXT = 8192


class RequestError(Exception):
    """An invalid request, as opposed to an exception of the agent."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Link(asyncio.Protocol):
    """The socket: parses incoming frames, and collects outgoing ones until the end of a loop
    iteration.
    """

    def __init__(self, worker: "Worker", sock: socket.socket) -> None:
        self._worker = worker
        self._parser = Parser(worker.on_frame)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._is_scheduled = False
        self._sock = sock
        self._transport: Optional[asyncio.WriteTransport] = None
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(high=1 << 20)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except FrameError as e:
            self._worker.finish(1, f"huskd broke the protocol: {e}")

    def eof_received(self) -> None:
        self._worker.finish(0)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._transport = None
        self._room.set()
        self._worker.finish(0)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def send(self, data: bytes) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._on_turn)
        self._out.append(data)

    def _on_turn(self) -> None:
        self._is_scheduled = False
        self.flush()

    def flush(self) -> bool:
        """Writes what was collected; returns whether huskd can read all of it."""
        data, self._out = b"".join(self._out), []
        transport = self._transport
        if transport is None:
            return True
        if transport.get_write_buffer_size() == 0:  # a transport's own way takes twice the time
            try:
                data = data[self._sock.send(data) :] if data else data
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass  # the transport waits, or reports the end
            if not data:
                return True
        transport.write(data)
        return False

    def begin(self, request: int) -> bool:
        """Tells huskd that the agent begins a request, before it does: if this process dies, huskd
        gives only those to another worker that had not begun. Finished answers leave first.

        Returns:
            Whether that was written; else the caller awaits `written()` first.
        """
        self._out.append(frames.HEAD.pack(0, frames.BEGUN, request))
        return self.flush()

    async def written(self) -> None:
        """Waits until everything is written."""
        while self._transport is not None and self._transport.get_write_buffer_size() > 0:
            await asyncio.sleep(0.001)

    async def breathe(self) -> None:
        """Called by senders of many frames: yields to the loop, and waits while huskd does not
        read.
        """
        await asyncio.sleep(0)
        if not self._room.is_set():
            await self._room.wait()


class Worker:
    """One agent's requests."""

    def __init__(self, deployment: Any, sock: socket.socket) -> None:
        self._deployment = deployment
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._link = Link(self, sock)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._exchanges: dict[int, asgi.Exchange] = {}
        self._draining = False
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._adapter: Optional[kinds.Adapter] = None
        self._app: Optional[asgi.App] = None
        self._lifespan: Optional[asgi.Lifespan] = None

    # ---- life ----

    async def prepare(self) -> None:
        """Prepares the agent: calls factories, starts applications."""
        use_threads(Threads(on_stuck=_give_up))
        if self._deployment.kind == "mcp":
            self._app = asgi.application(self._deployment.agent)
            self._lifespan = asgi.Lifespan(self._app)
            await self._lifespan.startup()
        else:
            self._adapter = await kinds.resolve(self._deployment.agent)
        gc.collect()
        gc.freeze()  # objects created so far stay, so keep the collector from scanning them

    async def run(self) -> int:
        """Serves until huskd closes the socket or drains the worker; returns the exit code."""
        streams = self._adapter.streams if self._adapter is not None else []
        await self._loop.create_connection(lambda: self._link, sock=self._sock)
        self._loop.add_signal_handler(signal.SIGTERM, self.drain)
        self._link.send(json_frame(frames.READY, 0, {"pid": os.getpid(), "streams": streams}))
        code = await self._ended
        self._link.flush()
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=1.0)
        if self._lifespan is not None:
            await self._lifespan.shutdown()
        return code

    def finish(self, code: int, reason: str = "") -> None:
        if reason:
            print(f"husk worker {self._deployment.name}: {reason}", file=sys.stderr, flush=True)
        if not self._ended.done():
            self._ended.set_result(code)
            # threads of the agent must not keep the process alive
            last = threading.Timer(EXIT_SECONDS, os._exit, (code,))
            last.daemon = True
            last.start()

    def drain(self) -> None:
        self._draining = True
        if not self._tasks:
            self.finish(0)

    # ---- requests ----

    def on_frame(self, kind: int, request: int, payload: bytes) -> None:
        if kind == frames.CALL or kind == frames.CHAT:
            self._start(request, self._call(request, payload, kind == frames.CHAT))
        elif kind == frames.PING:
            self._link.send(frames.frame(frames.PONG, 0))
        elif kind == frames.CANCEL:
            self._cancel(request)
        elif kind == frames.HTTP:
            # Created here and not in the task: parts of the body may follow in the same loop
            # iteration.
            exchange = asgi.Exchange(self._deployment.route_prefix, json.loads(payload))
            self._start(request, self._http(request, exchange))
            self._exchanges[request] = exchange
        elif kind == frames.BODY or kind == frames.END:
            self._on_body(request, payload if kind == frames.BODY else None)
        elif kind == frames.DRAIN:
            self.drain()
        else:
            raise FrameError(f"a frame of type {kind}")

    def _on_body(self, request: int, chunk: Optional[bytes]) -> None:
        exchange = self._exchanges.get(request)
        if exchange is None:
            return  # it has ended: an application may answer before it has read the whole body
        if chunk is None:
            exchange.end()
        else:
            exchange.feed(chunk)

    def _start(self, request: int, coroutine: Coroutine[Any, Any, None]) -> None:
        if request in self._tasks:
            coroutine.close()
            raise FrameError(f"the request {request} began twice")
        self._tasks[request] = self._loop.create_task(coroutine)

    def _cancel(self, request: int) -> None:
        task = self._tasks.get(request)
        if task is None:
            return  # its last frame is already sent
        exchange = self._exchanges.get(request)
        if exchange is not None:
            exchange.disconnect()
        # Not before the task has started: a coroutine that never ran could not send its last frame.
        self._loop.call_soon(task.cancel)

    async def _call(self, request: int, payload: bytes, chat: bool) -> None:
        try:
            call = json.loads(payload)
            given, session, stream = (
                call["data" if chat else "query"],
                call["session_id"],
                call["stream"],
            )
            run, text, events = self._modes(chat)
            if run is None:
                raise RequestError(
                    501, self._lacks("take data at /chat" if chat else "take a query")
                )
            if not stream:
                if not self._link.begin(request):
                    await self._link.written()
                answer = await run(given, session)
                done = {"result": plain(answer)} if chat else {"response": answer}
                self._link.send(json_frame(frames.DONE, request, done))
            elif stream == "text":
                if text is None:
                    raise RequestError(400, self._lacks('stream text (stream="text")'))
                if not self._link.begin(request):
                    await self._link.written()
                await self._send_text(request, text(given, session))
            elif stream == "events":
                if events is None:
                    raise RequestError(400, self._lacks('stream events (stream="events")'))
                if not self._link.begin(request):
                    await self._link.written()
                await self._send_events(request, events(given, session))
            else:
                raise RequestError(422, f"stream must be false, 'text' or 'events', not {stream!r}")
        except BaseException as e:
            self._fail(request, e)
        finally:
            self._over(request)

    def _modes(self, chat: bool) -> tuple[Any, Any, Any]:
        a = self._adapter
        if a is None:
            return None, None, None
        return (
            (a.chat, a.chat_text, a.chat_events)
            if chat
            else (a.run, a.stream_text, a.stream_events)
        )

    def _lacks(self, what: str) -> str:
        return f"the agent '{self._deployment.name}' does not {what}"

    async def _send_text(self, request: int, texts: AsyncGenerator[str, None]) -> None:
        async with contextlib.aclosing(texts):
            async for text in texts:
                for at in range(0, len(text), TEXT_PIECE):
                    piece = {"content": text[at : at + TEXT_PIECE]}
                    self._link.send(json_frame(frames.TEXT, request, piece))
                await self._link.breathe()
        self._link.send(json_frame(frames.DONE, request, {"response": ""}))

    async def _send_events(
        self, request: int, events: AsyncGenerator[dict[str, Any], None]
    ) -> None:
        async with contextlib.aclosing(events):
            async for event in events:
                self._link.send(json_frame(frames.EVENT, request, plain(event)))
                await self._link.breathe()
        self._link.send(json_frame(frames.DONE, request, {"response": ""}))

    async def _http(self, request: int, exchange: asgi.Exchange) -> None:
        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                pairs = [
                    [n.decode("latin-1"), v.decode("latin-1")]
                    for n, v in message.get("headers", [])
                ]
                head = {"status": message["status"], "headers": pairs}
                self._link.send(json_frame(frames.HTTP_HEAD, request, head))
                return
            body = bytes(message.get("body", b""))
            for at in range(0, len(body), BODY_PIECE):
                self._link.send(frames.frame(frames.HTTP_BODY, request, body[at : at + BODY_PIECE]))
            if message.get("more_body", False):
                await self._link.breathe()

        try:
            if self._app is None or self._lifespan is None:
                raise RequestError(501, self._lacks("answer HTTP by itself"))
            await exchange.run(self._app, self._lifespan.state, send)
            self._link.send(frames.frame(frames.HTTP_END, request))
        except BaseException as e:
            self._fail(request, e)
        finally:
            self._exchanges.pop(request, None)
            self._over(request)

    def _over(self, request: int) -> None:
        del self._tasks[request]
        if self._draining and not self._tasks:
            self.finish(0)

    def _fail(self, request: int, e: BaseException) -> None:
        """Ends a request with an ERROR. Exceptions of the agent do not affect other requests."""
        status = e.status if isinstance(e, RequestError) else 500
        name = type(e).__name__
        message = text_of(e) or f"{name}()"
        if isinstance(e, asyncio.CancelledError):
            name, message = "Cancelled", "the request was cancelled"
        elif not isinstance(e, RequestError):
            print(f"husk worker {self._deployment.name}: a request failed", file=sys.stderr)
            traceback.print_exception(type(e), e, e.__traceback__)
            sys.stderr.flush()
        said = {"type": name, "message": message[:ERROR_TEXT], "status": status}
        self._link.send(json_frame(frames.ERROR, request, said))


# ---- the process ----


def _give_up(stuck: int) -> None:
    print(
        f"husk worker: {stuck} cancelled calls do not stop; ending",
        file=sys.stderr,
        flush=True,
    )
    os._exit(STUCK_EXIT_CODE)


def _pick(file: str, name: str, main: bool) -> Any:
    found = load.load(file, main)
    for deployment in found:
        if deployment.name == name:
            return deployment
    there = ", ".join(d.name for d in found)
    raise AgentLoadError(f"the file serves {there}, not '{name}'")


async def _work(file: str, deployment: Any, sock: socket.socket) -> int:
    worker = Worker(deployment, sock)
    try:
        await worker.prepare()
    except Exception as e:
        raise load.describe(e, file) from e
    return await worker.run()


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m husk.agents.worker")
    parser.add_argument("--file", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--main", action="store_true")
    parser.add_argument("--fd", type=int, default=SOCKET_FD)
    options = parser.parse_args(arguments)
    # Ctrl-C is for the server, which then ends this worker. This is a handler instead of SIG_IGN,
    # which children would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    os.environ.setdefault("HUSK_AGENT_WORKER", options.name)
    sock = socket.socket(fileno=options.fd)
    sock.set_inheritable(False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        deployment = _pick(options.file, options.name, options.main)
        return asyncio.run(_work(options.file, deployment, sock))
    except AgentLoadError as e:
        said = {"error": e.message, "traceback": e.traceback}
        sock.setblocking(True)
        sock.sendall(json_frame(frames.FAILED, 0, said))
        return 1


if __name__ == "__main__":
    sys.exit(main())
