# SPDX-License-Identifier: Apache-2.0
"""The web application of an agent in a replica of Ray Serve, with the routes and bodies of huskd.

Plain ASGI: Ray Serve handles HTTP. The agent is created when the replica starts, with the same
adapters as in huskd's workers. This file does not import Ray and works with any ASGI server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Optional

from husk.agents import asgi, kinds
from husk.agents.frames import plain
from husk.serving.register import WORKER_VARIABLE, Deployment

__all__ = ["AgentApp"]

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

BODY_LIMIT = 16 << 20
SESSION_LIMIT = 1024
ERROR_TEXT = 8192
_LINE_END = re.compile(r"\r\n|\n|\r")


class HttpError(Exception):
    """An answer other than 200: `{"detail": ...}`."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail


class AgentApp:
    """Serves one agent, or one MCP server.

    Args:
        deployment: the agent or MCP server.
        from_file: create the agent by running its file again, as "module" or as "main" script,
            because it cannot be pickled; empty if `deployment` has it.
        on_ready: called in the replica with the properties of the agent, or with `error` if it
            cannot be created.
    """

    def __init__(
        self,
        deployment: Deployment,
        from_file: str = "",
        on_ready: Optional[Callable[[Deployment, dict[str, Any]], None]] = None,
    ) -> None:
        self._deployment = deployment
        self._from_file = from_file
        self._on_ready = on_ready
        self._adapter: Optional[kinds.Adapter] = None
        self._inner: Optional[Any] = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise RuntimeError(f"agents do not speak {scope['type']}")

    # ---- start ----

    async def _lifespan(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            facts = await self._prepare()
        except Exception as error:
            await receive()
            traceback.print_exception(type(error), error, error.__traceback__)
            if self._on_ready is not None:
                self._on_ready(
                    self._deployment, {"error": f"{type(error).__name__}: {_said(error)}"}
                )
            await send({"type": "lifespan.startup.failed", "message": _said(error)})
            return
        if self._on_ready is not None:
            self._on_ready(self._deployment, facts)
        if self._inner is not None:
            await self._inner(scope, receive, send)
            return
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _prepare(self) -> dict[str, Any]:
        agent = (
            _load_again(self._deployment, self._from_file)
            if self._from_file
            else self._deployment.agent
        )
        if self._deployment.kind == "mcp":
            self._inner = asgi.application(agent)
            return {"framework": "mcp", "streams": [], "chat": False}
        self._adapter = await kinds.resolve(agent)
        return {
            "framework": self._adapter.framework,
            "streams": self._adapter.streams,
            "chat": self._adapter.chat is not None,
        }

    # ---- requests ----

    async def _http(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        prefix = self._deployment.route_prefix
        path = str(scope["path"])
        if path == prefix or path.startswith(prefix + "/"):
            path = path[len(prefix) :]
        if self._inner is not None:
            inside = {
                **scope,
                "path": path or "/",
                "raw_path": (path or "/").encode(),
                "root_path": "",
            }
            await self._inner(inside, receive, send)
            return
        try:
            await self._route(str(scope["method"]), path.rstrip("/"), receive, send)
        except HttpError as error:
            await _reply(send, error.status, {"detail": error.detail})

    async def _route(self, method: str, path: str, receive: Receive, send: Send) -> None:
        if path == "/health":
            _only(method, "GET", "HEAD")
            await _reply(send, 200, {"status": "healthy", "agent": self._deployment.name})
        elif path in ("", "/chat"):
            _only(method, "POST")
            await self._call(await _read(receive), path == "/chat", send)
        else:
            raise HttpError(404, "Not Found")

    async def _call(self, body: bytes, chat: bool, send: Send) -> None:
        given, session, stream = _parse(body, "data" if chat else "query", dict if chat else str)
        a = self._adapter
        assert a is not None
        run = a.chat if chat else a.run
        streams: dict[Any, Any] = {
            "text": a.chat_text if chat else a.stream_text,
            "events": a.chat_events if chat else a.stream_events,
        }
        if run is None:
            raise HttpError(501, self._lacks("take data at /chat" if chat else "take a query"))
        if not stream:
            answer: Any = await self._in_time(_answer(run(given, session)))
            name = "result" if chat else "response"
            await _reply(send, 200, {name: answer, "session_id": session})
        elif streams[stream] is None:
            raise HttpError(400, self._lacks(f'stream {stream} (stream="{stream}")'))
        else:
            await self._stream(streams[stream](given, session), stream == "text", send)

    async def _in_time(self, call: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(_apart(call), self._deployment.request_timeout_ms / 1000)
        except _Raised as raised:
            error = raised.error
            traceback.print_exception(type(error), error, error.__traceback__)
            raise HttpError(500, _said(error)) from None
        except asyncio.TimeoutError:
            raise HttpError(504, self._late()) from None

    async def _stream(self, items: AsyncGenerator[Any, None], is_text: bool, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        last: dict[str, Any] = {"type": "done"}
        try:
            await self._in_time(_follow(items, is_text, send))
        except HttpError as error:
            last = {"type": "error", "content": error.detail}
        await _send_event(send, json.dumps(last))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _lacks(self, what: str) -> str:
        return f"the agent '{self._deployment.name}' does not {what}"

    def _late(self) -> str:
        return f"the agent did not answer within {self._deployment.request_timeout_ms} ms"


def _load_again(deployment: Deployment, how: str) -> Any:
    """Runs the agent's file in this process, where serve() only registers, and returns the
    agent.
    """
    from husk.agents import load

    os.environ[WORKER_VARIABLE] = deployment.name
    with _ray_runs():
        loaded = load.load(deployment.file, main=how == "main")
    for found in loaded:
        if found.name == deployment.name:
            return found.agent
    raise load.LoadError(
        f"{deployment.file} does not serve '{deployment.name}' when it is run again"
    )


@contextlib.contextmanager
def _ray_runs() -> Iterator[None]:
    """Lets a script call ray.init() inside a Ray worker, where Ray already runs."""
    ray = sys.modules.get("ray")
    if ray is None:
        yield
        return
    init = ray.init
    ray.init = lambda *_, **__: init(ignore_reinit_error=True)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ray.init = init  # type: ignore[attr-defined]


# ---- parts ----


class _Raised(Exception):
    """Wraps an exception of an agent, so that its own TimeoutError is not mistaken for ours."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


async def _apart(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # even SystemExit, which would end the replica's loop
        raise _Raised(error) from error


async def _answer(call: Awaitable[Any]) -> Any:
    return plain(await call)


async def _follow(items: AsyncGenerator[Any, None], is_text: bool, send: Send) -> None:
    """Sends the items of an agent's generator, which runs in one task because its context must stay
    the same.
    """
    async with contextlib.aclosing(items):
        async for item in items:
            text = str(item) if is_text else json.dumps(plain(item), ensure_ascii=False)
            await _send_event(send, text)


def _only(method: str, *allowed: str) -> None:
    if method not in allowed:
        raise HttpError(405, "Method Not Allowed")


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, "the client closed the connection")
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise HttpError(413, f"the body is larger than {BODY_LIMIT} bytes")
        if not message.get("more_body", False):
            return bytes(body)


def _parse(body: bytes, name: str, kind: type) -> tuple[Any, str, Any]:
    """Returns the query or data, the session and the kind of stream; raises 422 with all errors."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise HttpError(422, [_fault(["body"], "JSON decode error", "json_invalid")]) from None
    if not isinstance(data, dict):
        raise HttpError(
            422, [_fault(["body"], "Input should be an object", "model_attributes_type")]
        )
    faults = []
    if name not in data:
        faults.append(_fault(["body", name], "Field required", "missing"))
    elif not isinstance(data[name], kind):
        wanted = "object" if kind is dict else "string"
        faults.append(
            _fault(["body", name], f"Input should be a valid {wanted}", f"{kind.__name__}_type")
        )
    session = data.get("session_id", "default")
    if not isinstance(session, str):
        faults.append(_fault(["body", "session_id"], "Input should be a valid string", "str_type"))
    elif len(session.encode(errors="replace")) > SESSION_LIMIT:
        said = f"String should have at most {SESSION_LIMIT} bytes"
        faults.append(_fault(["body", "session_id"], said, "string_too_long"))
    stream = data.get("stream", False)
    if stream is not False and stream not in ("text", "events"):
        said = "Input should be false, 'text' or 'events'"
        faults.append(_fault(["body", "stream"], said, "literal_error"))
    if faults:
        raise HttpError(422, faults)
    return data[name], session, stream


def _fault(where: list[str], message: str, kind: str) -> dict[str, Any]:
    return {"loc": where, "msg": message, "type": kind}


def _said(error: BaseException) -> str:
    return (str(error) or repr(error))[:ERROR_TEXT]


async def _reply(send: Send, status: int, value: dict[str, Any]) -> None:
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _send_event(send: Send, text: str) -> None:
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(text))
    await send(
        {
            "type": "http.response.body",
            "body": f"{lines}\n".encode("utf-8", "replace"),
            "more_body": True,
        }
    )
