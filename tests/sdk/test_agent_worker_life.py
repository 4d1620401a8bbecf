# SPDX-License-Identifier: Apache-2.0
"""The worker process: how it starts and ends, and MCP servers over frames."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from worker_agents import agent, plain, write  # noqa: F401
from worker_peer import (
    BODY,
    CALL,
    CANCEL,
    CHAT,
    DRAIN,
    END,
    ERROR,
    FAILED,
    HEAD,
    HTTP,
    HTTP_BODY,
    HTTP_END,
    HTTP_HEAD,
    PATIENCE,
    PING,
    PONG,
    Peer,
)

# ---- life and death ----


def test_drain_finishes_what_runs(agent: Peer) -> None:
    request = agent.call("wait drained")
    while agent.ask("waiting", request=100) != "1":
        pass
    agent.send(DRAIN, 0)
    agent.send(PING, 0)
    assert agent.next()[0] == PONG  # still there
    agent.send(CANCEL, request)
    assert next(agent.until_last(request))[1]["type"] == "Cancelled"
    with pytest.raises(EOFError):
        agent.next()
    assert agent.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("how", ["drain", "sigterm", "eof"])
def test_ends_when_idle(agent: Peer, how: str) -> None:
    if how == "drain":
        agent.send(DRAIN, 0)
    elif how == "sigterm":
        agent.process.send_signal(signal.SIGTERM)
    else:
        agent.sock.close()
    assert agent.process.wait(PATIENCE) == 0


def test_ctrl_c_is_not_for_workers(agent: Peer) -> None:
    agent.process.send_signal(signal.SIGINT)
    assert agent.ask("still", session="s") == "still@s"


def test_stuck_threads_do_not_keep_the_process(plain: Peer) -> None:
    plain.call("sleep")
    assert plain.ask("next") == "next"
    plain.sock.close()
    assert plain.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("frame", [HEAD.pack(0, 99, 1), HEAD.pack(1 << 30, CALL, 1)])
def test_broken_frames_end_the_worker(agent: Peer, frame: bytes) -> None:
    agent.sock.sendall(frame)
    assert agent.process.wait(PATIENCE) == 1
    assert "broke the protocol" in agent.said()


def test_broken_payloads_end_the_request_only(agent: Peer) -> None:
    for kind in (CALL, CHAT):
        agent.send(kind, 9, b"{")
        assert next(agent.until_last(9))[0] == ERROR
        agent.send(kind, 9, b"{}")
        assert next(agent.until_last(9))[1]["type"] == "KeyError"


@pytest.mark.parametrize(
    "text, error",
    [
        (
            "import nothing_of_the_kind\n",
            "ModuleNotFoundError: No module named 'nothing_of_the_kind'",
        ),
        ("x = (\n", "SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(4)\n", "SystemExit: 4"),
        ("x = 1\n", "the file does not call husk.serve()"),
        ("import husk\nhusk.serve(lambda q: q, name='b')\n", "the file serves b, not 'a'"),
        (
            "import husk\nhusk.serve(42, name='a')\n",
            "AgentTypeError: husk cannot serve an object of type int",
        ),
        (
            "import husk\nhusk.serve(lambda: 1 / 0, name='a')\n",
            "ZeroDivisionError: division by zero",
        ),
    ],
)
def test_files_that_cannot_be_served(tmp_path: Path, text: str, error: str) -> None:
    file = write(tmp_path, text)
    with Peer(file, "a") as peer:
        kind, request, value = peer.next()
        assert (kind, request) == (FAILED, 0)
        assert value["error"].startswith(error)
        if "Error" in error:
            assert str(file) in value["traceback"]
        assert peer.process.wait(PATIENCE) == 1


def test_script(tmp_path: Path) -> None:
    text = """
        import husk
        async def a(query):
            return __name__ + " " + query
        if __name__ == "__main__":
            husk.serve(a, name="a")
            raise RuntimeError("not reached: serve() would block")
    """
    with Peer(write(tmp_path, text), "a", main=True) as peer:
        peer.ready()
        assert peer.ask("x") == "__main__ x"


def test_project_modules_can_be_imported(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "a"
    folder.mkdir(parents=True)
    (tmp_path / "shared_words.py").write_text("WORD = 'shared'\n")
    (folder / "own_words.py").write_text("WORD = 'own'\n")
    text = """
        import husk, pickle
        import own_words, shared_words
        from .own_words import WORD
        husk.serve(lambda query: f"{__name__} {own_words.WORD} {shared_words.WORD} {WORD}")
    """
    with Peer(write(folder, text), "a") as peer:
        peer.ready()
        assert peer.ask("x") == "agents.a.agent own shared own"


# ---- MCP ----

MCP = """
    import contextlib
    import husk
    from mcp.server import MCPServer

    @contextlib.asynccontextmanager
    async def lifespan(server):
        print("lifespan began")
        yield {}
        print("lifespan ended", flush=True)

    server = MCPServer("adder", lifespan=lifespan)

    @server.tool()
    def add(x: int, y: int) -> int:
        "Adds two numbers."
        return x + y

    husk.serve_mcp(server, name="adder")
"""

JSON_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "host": "husk.example:8000",
}


def rpc(method: str, params: dict[str, Any], number: int = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def exchange(peer: Peer, request: int) -> tuple[int, dict[str, str], bytes]:
    frames = list(peer.until_last(request))
    assert frames[0][0] == HTTP_HEAD and frames[-1][0] == HTTP_END, frames
    body = b"".join(value for kind, value in frames if kind == HTTP_BODY)
    return frames[0][1]["status"], {n.lower(): v for n, v in frames[0][1]["headers"]}, body


def events_of(body: bytes) -> list[Any]:
    lines = body.decode().splitlines()
    return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]


@pytest.mark.parametrize("path", ["/mcp", "/adder/mcp", "/adder/mcp/"])
def test_mcp_server(tmp_path: Path, path: str) -> None:
    with Peer(write(tmp_path, MCP, "server.py"), "adder") as peer:
        assert peer.ready()["streams"] == []
        call = rpc("tools/call", {"name": "add", "arguments": {"x": 2, "y": 3}})
        status, headers, body = exchange(peer, peer.http("POST", path, call, JSON_HEADERS))
        assert status == 200, body
        assert "mcp-session-id" not in headers  # stateless
        (answer,) = events_of(body)
        assert answer["result"]["content"][0]["text"] == "5"
        status, _, _ = exchange(peer, peer.http("POST", path + "/nowhere", b"", {}))
        assert status == 404
        kind, value = next(peer.until_last(peer.call("text")))
        assert (kind, value["status"]) == (ERROR, 501)


def test_asgi_applications(tmp_path: Path) -> None:
    text = """
        import asyncio
        import husk

        async def app(scope, receive, send):
            assert scope["type"] == "http"
            if scope["path"] == "/raise":
                raise LookupError("no such thing")
            if scope["path"] == "/silent":
                return
            if scope["path"] == "/wait":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"first", "more_body": True})
                while (await receive())["type"] != "http.disconnect":
                    pass
                print("client has gone", flush=True)
                return
            body = b""
            while True:
                message = await receive()
                body += message["body"]
                if not message["more_body"]:
                    break
            said = f"{scope['method']} {scope['path']} {dict(scope['headers'])[b'x-word']!r} {len(body)}"
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 201, "headers": headers})
            await send({"type": "http.response.body", "body": said.encode()})

        husk.serve_mcp(app, name="raw")
    """
    with Peer(write(tmp_path, text, "server.py"), "raw") as peer:
        peer.ready()
        status, headers, body = exchange(
            peer, peer.http("PUT", "/raw/a b", b"x" * 99, {"X-Word": "w"})
        )
        assert (status, headers) == (201, {"content-type": "text/plain"})
        assert body == b"PUT /a b b'w' 99"
        for path, name in (("/raise", "LookupError"), ("/silent", "RuntimeError")):
            kind, value = next(peer.until_last(peer.http("GET", path, b"", {})))
            assert (kind, value["type"], value["status"]) == (ERROR, name, 500)
        head = {"method": "GET", "path": "/wait", "query": "", "headers": []}
        peer.send(HTTP, 500, json.dumps(head).encode())
        peer.send(END, 500)
        assert [peer.next()[0] for _ in range(2)] == [HTTP_HEAD, HTTP_BODY]
        peer.send(CANCEL, 500)
        assert list(peer.until_last(500))[-1][0] == ERROR
        peer.send(BODY, 500, b"late")  # for a request that is over
        status, _, _ = exchange(peer, peer.http("GET", "/", b"", {"x-word": ""}))
        assert status == 201
