# SPDX-License-Identifier: Apache-2.0
"""Runs an ASGI application, such as an MCP server, over the HTTP frames of a worker.

Creates the application of an MCP server in stateless mode, runs its lifespan, and translates
requests between frames and the application. Does no I/O.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Awaitable, Callable, Optional
from urllib.parse import quote

from husk.agents import kinds
from husk.errors import AgentTypeError, text_of

Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Callable[[], Awaitable[dict[str, Any]]], Send], Awaitable[None]]

_STARTUP_SECONDS = 60.0
_SHUTDOWN_SECONDS = 10.0


def check(server: Any) -> None:
    """Raises AgentTypeError unless `application` supports the object."""
    if hasattr(server, "streamable_http_app") or hasattr(server, "http_app"):
        return
    if not kinds.is_mcp(server) and _is_asgi(server):
        return
    raise AgentTypeError(
        f"serve_mcp() cannot serve {kinds.type_name(server)}; it takes an MCPServer or FastMCP, or an ASGI application"
    )


def _is_asgi(value: Any) -> bool:
    if isinstance(value, type) or not callable(value):
        return False
    try:
        inspect.signature(value).bind({}, None, None)
    except (TypeError, ValueError):
        return False
    return True


def application(server: Any) -> App:
    """Returns the ASGI application of an MCP server, which answers at /mcp without sessions.

    The host check of the mcp package is off: huskd checks the host for all its routes and, unlike
    the worker, knows its own names.
    """
    check(server)
    if hasattr(server, "streamable_http_app"):
        make = server.streamable_http_app
        if "stateless_http" in inspect.signature(make).parameters:  # mcp 2
            return _at_mcp(make(stateless_http=True, streamable_http_path="/mcp", host="0.0.0.0"))
        server.settings.stateless_http = True  # mcp 1
        server.settings.streamable_http_path = "/mcp"
        if hasattr(server.settings, "transport_security"):
            server.settings.transport_security = None
        return _at_mcp(make())
    if hasattr(server, "http_app"):  # fastmcp
        return _at_mcp(server.http_app(path="/mcp", stateless_http=True))
    return server  # type: ignore[no-any-return]


def _at_mcp(app: App) -> App:
    """Treats /mcp/ as /mcp: the application would redirect, and it does not know its prefix."""

    async def serve(
        scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Send
    ) -> None:
        if scope.get("path") == "/mcp/":
            scope = {**scope, "path": "/mcp", "raw_path": b"/mcp"}
        await app(scope, receive, send)

    return serve


class Lifespan:
    """The application's startup and shutdown, if it has them."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: Optional[asyncio.Task[None]] = None
        self.state: dict[str, Any] = {}

    async def startup(self) -> None:
        """Raises RuntimeError with the application's message if it cannot start."""
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        self._task = asyncio.get_running_loop().create_task(self._run(scope), name="husk-lifespan")
        await self._inbox.put({"type": "lifespan.startup"})
        answer = await self._answer(_STARTUP_SECONDS)
        if answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the application did not start: {answer.get('message', '')}")

    async def shutdown(self) -> None:
        if self._task is None or self._task.done():
            return
        await self._inbox.put({"type": "lifespan.shutdown"})
        try:
            await self._answer(_SHUTDOWN_SECONDS)
        except RuntimeError:
            pass  # the process ends anyway
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, self._inbox.get, self._outbox.put)
        except Exception as e:
            # ASGI: raising before an answer means that the application does not support lifespans
            await self._outbox.put({"type": "unsupported", "message": text_of(e)})
        else:
            await self._outbox.put({"type": "unsupported", "message": ""})

    async def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            return await asyncio.wait_for(self._outbox.get(), seconds)
        except asyncio.TimeoutError:
            raise RuntimeError(f"the application did not answer within {seconds:g} s") from None


class Exchange:
    """One HTTP request: `feed` and `end` take its body, `run` calls the application and sends its
    answer.
    """

    def __init__(self, prefix: str, head: dict[str, Any]) -> None:
        path = head["path"]  # huskd has decoded it
        if prefix and (path == prefix or path.startswith(prefix + "/")):
            path = path[len(prefix) :] or "/"
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": head["method"],
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": (head.get("query") or "").encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
                for name, value in head.get("headers", [])
            ],
            "client": None,
            "server": None,
        }
        self._body: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._ended = False
        self.started = False  # a response has begun
        self.finished = False

    def feed(self, chunk: bytes) -> None:
        self._body.put_nowait({"type": "http.request", "body": chunk, "more_body": True})

    def end(self) -> None:
        self._ended = True
        self._body.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    def disconnect(self) -> None:
        self._body.put_nowait({"type": "http.disconnect"})

    async def run(self, app: App, state: dict[str, Any], send: Send) -> None:
        """Raises the application's exception, or RuntimeError if it ends without a complete
        answer.
        """
        self._scope["state"] = dict(state)

        async def checked(message: dict[str, Any]) -> None:
            kind = message["type"]
            if self.finished or (kind == "http.response.body") != self.started:
                raise RuntimeError(f"the application sent {kind} out of turn")
            self.started = True
            self.finished = kind == "http.response.body" and not message.get("more_body", False)
            await send(message)

        await app(self._scope, self._body.get, checked)
        if not self.finished:
            raise RuntimeError("the application ended without an answer")
