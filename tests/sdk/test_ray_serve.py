# SPDX-License-Identifier: Apache-2.0
"""Agents on Ray Serve: routes, bodies and errors as huskd's gateway has them; MCP; a script that
serves by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT
from mcp import Client as McpClient
from mcp.server.mcpserver import MCPServer
from ray_support import ray_cluster  # noqa: F401

import rayai
from husk.errors import ServeError
from husk.serving import ray as ray_serve
from husk.serving.register import Deployment

PATIENCE = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def deployment(name: str, agent: Any, kind: str = "agent", **fields: Any) -> Deployment:
    parent = "/agents/" if kind == "agent" else "/"
    given = {
        "name": name,
        "kind": kind,
        "agent": agent,
        "route_prefix": parent + name,
        "num_cpus": 0.1,
        "num_gpus": 0.0,
        "memory_bytes": 100 << 20,
        "replicas": 1,
        "max_in_flight": 8,
        "queue_length": 8,
        "request_timeout_ms": 3000,
        **fields,
    }
    return Deployment(**given)


def echo(query: str, session_id: str) -> str:
    if query == "raise":
        raise ValueError("no good")
    if query == "hang":
        time.sleep(60)
    if query == "cpus":
        import ray

        return str(ray.get_runtime_context().get_assigned_resources())
    return f"{session_id} says {query}"


class Talker(rayai.Agent):
    async def run(self, query: str) -> str:
        return query.upper()

    async def stream_text(self, query: str) -> AsyncIterator[str]:
        yield "one\ntwo"
        yield query
        if query == "raise":
            raise RuntimeError("broke off")

    async def stream_events(self, query: str) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "tool_call", "tool": "t", "input": {"q": query}}
        yield {"type": "tool_result", "tool": "t", "output": 1}
        yield {"type": "text", "content": query}


class Protocol:
    def run(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"got": data}


MCP_FILE = '''
from mcp.server.mcpserver import MCPServer
import rayai

server = MCPServer("calc")

@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b

rayai.serve_mcp(server, name="calc", num_cpus=0.1)
'''


@pytest.fixture(scope="module")
def served(ray_cluster: Any, tmp_path_factory: Any) -> Iterator[httpx.Client]:  # noqa: F811
    file = tmp_path_factory.mktemp("project") / "mcp_servers" / "calc" / "server.py"
    file.parent.mkdir(parents=True)
    file.write_text(MCP_FILE)
    calculator = MCPServer("calc")  # cannot be pickled, so the file is run again
    port = free_port()
    ray_serve.deploy(
        [
            deployment("echo", echo),
            deployment("talker", Talker, route_prefix="/custom/talk"),
            deployment("proto", Protocol(), num_cpus=0.2),
            deployment("calc", calculator, kind="mcp", file=str(file)),
        ],
        host="127.0.0.1",
        port=port,
        block=False,
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
        yield client
    from ray import serve

    serve.shutdown()


def test_a_question(served: httpx.Client) -> None:
    for path in ("/agents/echo/", "/agents/echo"):
        answer = served.post(path, json={"query": "hi", "session_id": "s", "unknown": 1})
        assert answer.status_code == 200
        assert answer.json() == {"response": "s says hi", "session_id": "s"}
    answer = served.post("/agents/echo/", json={"query": "hi"})
    assert answer.json() == {"response": "default says hi", "session_id": "default"}


def test_limits_are_the_replicas(served: httpx.Client) -> None:
    said = served.post("/agents/echo/", json={"query": "cpus"}).json()["response"]
    assert "'CPU': 0.1" in said and f"'memory': {float(100 << 20)}" in said


def test_health(served: httpx.Client) -> None:
    answer = served.get("/agents/echo/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy", "agent": "echo"})
    assert served.get("/custom/talk/health").json()["agent"] == "talker"


def test_the_list(served: httpx.Client) -> None:
    body = served.get("/agents").json()
    assert body["failed"] == []
    agents = {agent["name"]: agent for agent in body["agents"]}
    assert set(agents) == {"echo", "talker", "proto", "calc"}
    talker = agents["talker"]
    assert (talker["kind"], talker["framework"], talker["status"]) == ("agent", "husk", "healthy")
    assert (talker["route_prefix"], talker["streams"]) == ("/custom/talk", ["text", "events"])
    assert (talker["replicas"], talker["ready"], talker["chat"]) == (1, 1, False)
    assert agents["calc"]["kind"] == "mcp" and agents["proto"]["chat"] is True


def events(text: str) -> list[str]:
    parts = text.removesuffix("\n\n").split("\n\n")
    return ["\n".join(line.removeprefix("data: ") for line in part.split("\n")) for part in parts]


def test_streams_of_text(served: httpx.Client) -> None:
    answer = served.post("/custom/talk/", json={"query": "three", "stream": "text"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith('data: {"type": "done"}\n\n')
    assert "data: one\ndata: two\n\n" in answer.text
    assert events(answer.text) == ["one\ntwo", "three", '{"type": "done"}']


def test_a_stream_that_breaks_off(served: httpx.Client) -> None:
    answer = served.post("/custom/talk/", json={"query": "raise", "stream": "text"})
    assert json.loads(events(answer.text)[-1]) == {"type": "error", "content": "broke off"}


def test_streams_of_events(served: httpx.Client) -> None:
    answer = served.post("/custom/talk/", json={"query": "q", "stream": "events"})
    assert [json.loads(event) for event in events(answer.text)] == [
        {"type": "tool_call", "tool": "t", "input": {"q": "q"}},
        {"type": "tool_result", "tool": "t", "output": 1},
        {"type": "text", "content": "q"},
        {"type": "done"},
    ]


def test_chat(served: httpx.Client) -> None:
    answer = served.post("/agents/proto/chat", json={"data": {"a": [1]}})
    assert answer.json() == {"result": {"got": {"a": [1]}}, "session_id": "default"}
    assert served.post("/agents/echo/chat", json={"data": {}}).status_code == 501
    assert served.post("/agents/proto/", json={"query": "x"}).status_code == 501


@pytest.mark.parametrize("stream", ["text", "events"])
def test_a_stream_that_the_agent_does_not_have(served: httpx.Client, stream: str) -> None:
    answer = served.post("/agents/echo/", json={"query": "x", "stream": stream})
    assert answer.status_code == 400 and stream in answer.json()["detail"]


def test_what_an_agent_raises_is_500(served: httpx.Client) -> None:
    answer = served.post("/agents/echo/", json={"query": "raise"})
    assert (answer.status_code, answer.json()) == (500, {"detail": "no good"})


def test_an_agent_that_hangs_is_504_and_others_go_on(served: httpx.Client) -> None:
    answer = served.post("/agents/echo/", json={"query": "hang"})
    assert (answer.status_code, answer.json()["detail"][:9]) == (504, "the agent")
    assert served.post("/agents/echo/", json={"query": "on"}).status_code == 200


@pytest.mark.parametrize(
    "body, field",
    [
        (b"{", ["body"]),
        (b"[1]", ["body"]),
        (b"{}", ["body", "query"]),
        (b'{"query": 1}', ["body", "query"]),
        (b'{"query": "x", "session_id": 1}', ["body", "session_id"]),
        (b'{"query": "x", "session_id": "' + b"s" * 1025 + b'"}', ["body", "session_id"]),
        (b'{"query": "x", "stream": true}', ["body", "stream"]),
        (b'{"query": "x", "stream": "all"}', ["body", "stream"]),
    ],
)
def test_bad_bodies_are_422(served: httpx.Client, body: bytes, field: list[str]) -> None:
    answer = served.post("/agents/echo/", content=body)
    assert answer.status_code == 422
    (fault,) = answer.json()["detail"]
    assert fault["loc"] == field and fault["msg"] and fault["type"]


def test_other_paths_and_methods(served: httpx.Client) -> None:
    assert served.get("/agents/echo/").status_code == 405
    assert served.post("/agents/echo/health").status_code == 405
    assert served.get("/agents/echo/more").status_code == 404
    answer = served.get("/agents/nobody/health")
    assert answer.status_code == 404 and "nobody" in answer.json()["detail"]


def test_mcp(served: httpx.Client) -> None:
    async def add() -> Any:
        async with McpClient(f"{served.base_url}/calc/mcp") as client:
            return await client.call_tool("add", {"a": 2, "b": 3})

    result = asyncio.run(add())
    assert result.content[0].text == "5" and not result.is_error


def test_a_file_that_starts_ray_is_run_again(served: httpx.Client, tmp_path: Path) -> None:
    file = tmp_path / "agents" / "starts" / "agent.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import ray, rayai\n"
        "ray.init('auto', num_cpus=1)\n"
        "rayai.serve(lambda query: f'{query} and {ray.is_initialized()}', name='starts')\n"
    )
    port = served.base_url.port or 0
    numbers = (number for number in range(3))  # a generator has no pickled form
    agent = deployment("starts", lambda query: next(numbers), file=str(file))
    ray_serve.deploy([agent], "127.0.0.1", port, block=False)
    answer = served.post("/agents/starts/", json={"query": "x"})
    assert answer.json()["response"] == "x and True"
    ray_serve.delete(["starts"])


def test_an_agent_that_does_not_start_is_reported(served: httpx.Client) -> None:
    def broken() -> Any:
        raise RuntimeError("the model is missing")

    port = served.base_url.port or 0
    with pytest.raises(ServeError, match="the model is missing"):
        ray_serve.deploy([deployment("broken", broken)], "127.0.0.1", port, block=False)
    assert served.post("/agents/echo/", json={"query": "on"}).status_code == 200
    assert served.get("/agents/broken/health").status_code == 404


def test_another_port_is_refused(served: httpx.Client) -> None:
    with pytest.raises(ServeError, match="cannot move"):
        ray_serve.deploy([deployment("more", echo)], "127.0.0.1", free_port(), block=False)


def test_an_agent_that_cannot_be_sent_is_refused(served: httpx.Client) -> None:
    numbers = (number for number in range(3))  # a generator has no pickled form

    def held(query: str) -> str:
        return str(next(numbers))

    port = served.base_url.port or 0
    with pytest.raises(ServeError, match="cannot be sent to a replica"):
        ray_serve.deploy([deployment("held", held)], "127.0.0.1", port, block=False)


def test_delete(served: httpx.Client) -> None:
    port = served.base_url.port or 0
    ray_serve.deploy([deployment("brief", echo)], "127.0.0.1", port, block=False)
    assert served.post("/agents/brief/", json={"query": "x"}).status_code == 200
    ray_serve.delete(["brief"])
    assert "brief" not in {agent["name"] for agent in served.get("/agents").json()["agents"]}


# ---- a script that serves by itself ----

SCRIPT = '''
import os
import rayai
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

@rayai.tool(num_cpus=0.1)
def search(query: str) -> str:
    """Searches."""
    return f"found {query} in process {os.getpid()}"

agent = Agent(TestModel(), tools=[search])
rayai.serve(agent, name="myagent", host="127.0.0.1", port=int(os.environ["PORT"]), num_cpus=0.1, memory="300MB")
'''


def test_a_script_serves_until_a_signal(tmp_path: Path) -> None:
    file = tmp_path / "agents" / "myagent" / "agent.py"
    file.parent.mkdir(parents=True)
    file.write_text(SCRIPT)
    port = free_port()
    environment = {
        **os.environ,
        "HUSK_ENGINE": "ray",
        "PORT": str(port),
        "PYTHONPATH": str(ROOT / "sdk" / "python"),
    }
    script = subprocess.Popen(
        [sys.executable, str(file)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        answer = _ask(f"http://127.0.0.1:{port}/agents/myagent/", script)
        # The offline model calls the tool, which ran as a Ray task in another process.
        assert answer.status_code == 200 and "found a in process" in answer.json()["response"]
        script.send_signal(signal.SIGTERM)
        said, _ = script.communicate(timeout=PATIENCE)
        assert script.returncode == 0, said
        assert f"myagent: http://127.0.0.1:{port}/agents/myagent/" in said
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/agents")
    finally:
        if script.poll() is None:
            script.kill()
            script.communicate()


def _ask(url: str, script: subprocess.Popen[str]) -> httpx.Response:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            answer = httpx.post(url, json={"query": "a"}, timeout=PATIENCE)
            if answer.status_code != 404:
                return answer
        except httpx.TransportError:
            pass
        if script.poll() is not None or time.monotonic() > deadline:
            script.kill()
            raise AssertionError(script.communicate()[0])
        time.sleep(0.2)
