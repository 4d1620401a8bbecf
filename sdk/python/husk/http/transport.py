# SPDX-License-Identifier: Apache-2.0
"""Connections to one server: kept open, reused, and never shared by two requests at once.

exchange() sends a request and returns the whole answer. stream() sends a request of any size and
returns the answer piece by piece. Both raise Broken if there is no answer; the caller decides
whether to retry.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket as sockets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from husk.http.wire import HEAD_END, HEAD_MAX, Answer, Broken, decode_head, encode
from husk.locate import Address

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
IDLE_MAX = 32  # connections that are kept for reuse
PIECE = 65536


@dataclass
class Request:
    """A request.

    Attributes:
        method: GET, POST and so on.
        target: path with query.
        headers: without Host and Content-Length.
        body: the whole body, or None.
        pieces: returns an iterator over a body of `size` bytes, instead of body. Without a size,
            the body is sent in chunks.
        timeout: seconds to wait for the answer, or for its next piece.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    pieces: Callable[[], Iterator[bytes]] | None = None
    size: int | None = None
    timeout: float = 60.0


def _late(request: Request) -> Broken:
    return Broken(f"no answer within {request.timeout:g} s", is_sent=True, is_late=True)


# ---- one connection ----


class _Connection:
    """A blocking connection."""

    def __init__(self, address: Address) -> None:
        try:
            if address.socket is not None:
                self.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
                self.sock.settimeout(CONNECT_SECONDS)
                self.sock.connect(address.socket)
            else:
                parts = urlsplit(address.url)
                place = (parts.hostname or "", parts.port or 80)
                self.sock = sockets.create_connection(place, CONNECT_SECONDS)
                self.sock.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        except OSError as e:
            if hasattr(self, "sock"):
                self.sock.close()
            raise Broken(f"cannot connect to {address}: {e}", is_sent=False) from e
        self.poll = select.poll()
        self.poll.register(self.sock, select.POLLIN)

    def is_stale(self) -> bool:
        """Return whether the server has closed the connection: it sends nothing between requests."""
        return bool(self.poll.poll(0))

    def exchange(self, request: Request, host: str) -> Answer:
        data = encode(request.method, request.target, host, request.headers, request.body)
        self.sock.settimeout(request.timeout)
        try:
            try:
                self.sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server may have answered before it read all of the request
            return self._receive(request)
        except TimeoutError as e:
            raise _late(request) from e
        except OSError as e:
            raise Broken(f"the connection broke: {e}", is_sent=True) from e

    def _receive(self, request: Request) -> Answer:
        got = b""
        while (end := got.find(HEAD_END)) < 0:
            piece = self.sock.recv(PIECE)
            if not piece or len(got) > HEAD_MAX:
                raise Broken("the connection was closed before an answer came", is_sent=True)
            got += piece
        status, headers, length = decode_head(got[:end])
        body = got[end + len(HEAD_END) :]
        if len(body) < length:
            whole = bytearray(length)
            whole[: len(body)] = body
            view, at = memoryview(whole), len(body)
            while at < length:
                n = self.sock.recv_into(view[at:])
                if n == 0:
                    raise Broken("the connection was closed within the answer", is_sent=True)
                at += n
            body = bytes(whole)
        return Answer(status, headers, body)

    def close(self) -> None:
        self.sock.close()


class _AsyncConnection:
    """An asyncio connection, bound to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.loop = asyncio.get_running_loop()
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: Address) -> _AsyncConnection:
        try:
            if address.socket is not None:
                return cls(*await asyncio.open_unix_connection(address.socket, limit=HEAD_MAX))
            parts = urlsplit(address.url)
            opening = asyncio.open_connection(parts.hostname, parts.port or 80, limit=HEAD_MAX)
            return cls(*await asyncio.wait_for(opening, CONNECT_SECONDS))
        except (OSError, asyncio.TimeoutError) as e:
            raise Broken(f"cannot connect to {address}: {e}", is_sent=False) from e

    def is_stale(self) -> bool:
        return self.loop is not asyncio.get_running_loop() or self.reader.at_eof()

    async def exchange(self, request: Request, host: str) -> Answer:
        data = encode(request.method, request.target, host, request.headers, request.body)
        is_late = False

        def give_up() -> None:
            nonlocal is_late
            is_late = True
            self.writer.transport.abort()

        clock = self.loop.call_later(request.timeout, give_up)
        try:
            self.writer.write(data)
            status, headers, length = decode_head(await self.reader.readuntil(HEAD_END))
            return Answer(status, headers, await self.reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
            if is_late:
                raise _late(request) from e
            raise Broken(f"the connection broke: {e}", is_sent=True) from e
        finally:
            clock.cancel()

    def close(self) -> None:
        if not self.loop.is_closed():
            self.writer.close()


# ---- all connections to one server ----


AnyConnection = TypeVar("AnyConnection", _Connection, _AsyncConnection)


class _Common(Generic[AnyConnection]):
    """What both kinds of transport share: the address, the idle connections, and what httpx needs."""

    def __init__(self, address: Address, headers: Mapping[str, str] | None = None) -> None:
        self.address = address
        self.headers = dict(headers or {})  # sent with every request
        parts = urlsplit(address.url)
        self.host = parts.netloc.rpartition("@")[2]
        self.is_plain = parts.scheme == "http" and not parts.path
        self.pid = os.getpid()
        self._idle: list[AnyConnection] = []
        # Counts broken connections: after each, another server process may be answering.
        self.breaks = 0

    def is_forked(self) -> bool:
        """Return True once after a fork: the connections belong to the parent."""
        if self.pid == os.getpid():
            return False
        self.pid = os.getpid()
        return True

    def complete(self, request: Request) -> Request:
        """Return the request with the headers that every request has."""
        if not self.headers:
            return request
        return replace(request, headers={**self.headers, **request.headers})

    def drop_stale(self) -> None:
        """Drop and count idle connections that the server has closed."""
        if self._idle and (connection := self._take()) is not None:
            self._idle.append(connection)

    def _take(self) -> AnyConnection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if not connection.is_stale():
                return connection
            self._drop(connection)
        return None

    def _drop(self, connection: AnyConnection) -> None:
        self.breaks += 1
        connection.close()

    def _keep(self, connection: AnyConnection, answer: Answer) -> Answer:
        if answer.headers.get("connection") == "close" or len(self._idle) >= IDLE_MAX:
            connection.close()
        else:
            self._idle.append(connection)
        return answer

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def httpx_request(self, client: Any, request: Request, content: Any) -> httpx.Request:
        headers = {"Accept-Encoding": "identity", **self.complete(request).headers}
        if request.size is not None:
            headers["Content-Length"] = str(request.size)
        built: httpx.Request = client.build_request(
            request.method, request.target, headers=headers, content=content
        )
        built.extensions["timeout"] = {
            "connect": CONNECT_SECONDS,
            "read": request.timeout,
            "write": request.timeout,
            "pool": None,
        }
        return built


def _httpx_broken(e: httpx.TransportError) -> Broken:
    import httpx

    is_sent = not isinstance(e, (httpx.ConnectError, httpx.ConnectTimeout))
    is_late = isinstance(e, (httpx.ReadTimeout, httpx.WriteTimeout))
    return Broken(str(e) or type(e).__name__, is_sent=is_sent, is_late=is_late)


class Transport(_Common[_Connection]):
    """Blocking connections. Threads may share them."""

    def __init__(self, address: Address, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(address, headers)
        self._httpx: httpx.Client | None = None

    def exchange(self, request: Request) -> Answer:
        """Send a request whose body is in memory and return the answer."""
        self._leave_what_is_not_ours()
        if not self.is_plain:
            with self.stream(request) as (status, headers, pieces):
                return Answer(status, headers, b"".join(pieces))
        connection = self._take() or _Connection(self.address)
        try:
            answer = connection.exchange(self.complete(request), self.host)
        except BaseException:
            self._drop(connection)
            raise
        return self._keep(connection, answer)

    def _leave_what_is_not_ours(self) -> None:
        """After a fork, close this process's copies of the parent's connections."""
        if self.is_forked():
            self._close_idle()
            self._httpx = None  # not closed: a thread of the parent may have held its locks

    @contextmanager
    def stream(self, request: Request) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
        """Send a request of any size and yield status, headers and the pieces of the answer."""
        import httpx

        self._leave_what_is_not_ours()
        if self._httpx is None:
            limits = httpx.Limits(max_keepalive_connections=IDLE_MAX)
            way = httpx.HTTPTransport(uds=self.address.socket, limits=limits)
            self._httpx = httpx.Client(transport=way, base_url=self.address.url)
        content = request.pieces() if request.pieces is not None else request.body
        built = self.httpx_request(self._httpx, request, content)
        try:
            answer = self._httpx.send(built, stream=True)
            try:
                yield answer.status_code, answer.headers, answer.iter_raw()
            finally:
                answer.close()
        except httpx.TransportError as e:
            self.breaks += 1
            raise _httpx_broken(e) from e

    def close(self) -> None:
        """Close all connections."""
        self._close_idle()
        if self._httpx is not None:
            self._httpx.close()
            self._httpx = None


class AsyncTransport(_Common[_AsyncConnection]):
    """Connections for asyncio. One object may be used from one event loop after another."""

    def __init__(self, address: Address, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(address, headers)
        self._httpx: httpx.AsyncClient | None = None
        self._httpx_loop: asyncio.AbstractEventLoop | None = None

    async def exchange(self, request: Request) -> Answer:
        """Send a request whose body is in memory and return the answer."""
        if self.is_forked():
            self._idle, self._httpx = [], None
        if not self.is_plain:
            async with self.stream(request) as (status, headers, pieces):
                return Answer(status, headers, b"".join([piece async for piece in pieces]))
        connection = self._take() or await _AsyncConnection.open(self.address)
        try:
            answer = await connection.exchange(self.complete(request), self.host)
        except BaseException:
            self._drop(connection)
            raise
        return self._keep(connection, answer)

    @asynccontextmanager
    async def stream(
        self, request: Request
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """Send a request of any size and yield status, headers and the pieces of the answer."""
        import httpx

        loop = asyncio.get_running_loop()
        if self.is_forked():
            self._idle, self._httpx = [], None
        if self._httpx is None or self._httpx_loop is not loop:
            self._httpx_loop = loop
            limits = httpx.Limits(max_keepalive_connections=IDLE_MAX)
            way = httpx.AsyncHTTPTransport(uds=self.address.socket, limits=limits)
            self._httpx = httpx.AsyncClient(transport=way, base_url=self.address.url)
        content = _async_pieces(request.pieces) if request.pieces is not None else request.body
        built = self.httpx_request(self._httpx, request, content)
        try:
            answer = await self._httpx.send(built, stream=True)
            try:
                yield answer.status_code, answer.headers, answer.aiter_raw()
            finally:
                await answer.aclose()
        except httpx.TransportError as e:
            self.breaks += 1
            raise _httpx_broken(e) from e

    async def close(self) -> None:
        """Close all connections."""
        self._close_idle()
        if self._httpx is not None and self._httpx_loop is asyncio.get_running_loop():
            await self._httpx.aclose()
        self._httpx = None


async def _async_pieces(pieces: Callable[[], Iterator[bytes]]) -> AsyncIterator[bytes]:
    for piece in pieces():
        yield piece
