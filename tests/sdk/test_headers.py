# SPDX-License-Identifier: Apache-2.0
"""headers= and api_key=: what every request of a client carries, on each way to the server."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest
from conftest import SdkServer

from husk import AsyncClient, AsyncSandbox, Client, Sandbox, errors

SESSION = {"id": "s1", "session_id": "s1", "status": "ready"}
WRITTEN = {"session_id": "s1", "file_path": "f", "size": 1}


class Listener:
    """Stands for a proxy that asks for a key: it answers like huskd and remembers the requests."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Message]] = []
        seen = self.seen

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                seen.append((self.command, self.headers))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.dumps(WRITTEN if self.command == "PUT" else SESSION).encode()
                self.send_response(201 if self.command == "POST" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, *args: object) -> None:
                pass

        self.web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.web.server_port}"


@pytest.fixture
def proxy() -> Iterator[Listener]:
    listener = Listener()
    listener.web.daemon_threads = True
    threading.Thread(target=listener.web.serve_forever, daemon=True).start()
    yield listener
    listener.web.shutdown()
    listener.web.server_close()


def check(proxy: Listener, methods: set[str]) -> None:
    assert {method for method, _ in proxy.seen} == methods
    for _, headers in proxy.seen:
        assert headers.get_all("Authorization") == ["Bearer s3cret"]
        assert headers.get_all("X-Team") == ["blue"]


def test_every_request_has_them(proxy: Listener, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with Sandbox(url=proxy.url, headers={"X-Team": "blue"}, api_key="s3cret") as s:
        s.files.upload(tmp_path / "f")  # on another kind of connection
        assert "s3cret" not in repr(s) + repr(s.client)
    with Client(proxy.url, headers={"X-Team": "blue"}, api_key="s3cret") as client:
        client.get_session("s1")
    check(proxy, {"GET", "PUT", "POST"})


def test_every_request_of_asyncio_has_them(proxy: Listener, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")

    async def main() -> None:
        arguments = {"headers": {"X-Team": "blue"}, "api_key": "s3cret"}
        async with AsyncSandbox(url=proxy.url, **arguments) as s:  # type: ignore[arg-type]
            await s.files.upload(tmp_path / "f")
        async with AsyncClient(proxy.url, **arguments) as client:  # type: ignore[arg-type]
            await client.get_session("s1")
        attached = await AsyncSandbox.attach("s1", url=proxy.url, **arguments)
        await attached.close()

    asyncio.run(main())
    check(proxy, {"GET", "PUT", "POST"})


def test_the_server_itself_takes_them(server: SdkServer) -> None:
    with Sandbox(headers={"X-Team": "blue"}, api_key="s3cret") as s:
        assert s.run("1 + 1").value == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"headers": {"Host": "other"}},
        {"headers": {"content-length": "3"}},
        {"headers": {"Idempotency-Key": "k"}},
        {"headers": {"X-Two\r\nX-Three": "1"}},
        {"headers": {"X-Two": "1\r\nX-Three: 2"}},
        {"headers": {"X-Snow": "\u2603"}},
        {"headers": {"authorization": "Basic x"}, "api_key": "k"},
        {"api_key": ""},
        {"api_key": "a\nb"},
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(arguments: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidParameterError):
        Client("http://127.0.0.1:1", **arguments)  # type: ignore[arg-type]
