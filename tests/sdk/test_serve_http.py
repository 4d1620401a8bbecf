# SPDX-License-Identifier: Apache-2.0
"""Agents of every kind over HTTP, through a real `husk agents up`: answers, streams, sessions,
faults, scripts, MCP.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from husk_server import free_port
from places import BIN, ROOT
from served_project import Served
from waiting import PATIENCE

FRAMEWORKS = {
    "pydantic": """
        import husk
        from pydantic_ai import Agent
        from pydantic_ai.models.test import TestModel

        def add(x: int, y: int) -> int:
            return x + y

        husk.serve(Agent(TestModel(), tools=[add]), num_cpus=1, memory="2GB")
    """,
    "langgraph": """
        import husk
        from agent_models import langchain_model
        from langchain.agents import create_agent
        from langchain_core.tools import tool
        from langgraph.checkpoint.memory import InMemorySaver

        @tool
        def add(x: int, y: int) -> int:
            "Adds two numbers."
            return x + y

        husk.serve(create_agent(langchain_model(), [add], checkpointer=InMemorySaver()))
    """,
    "agno": """
        import husk
        from agent_models import agno_model
        from agno.agent import Agent

        def add(x: int, y: int) -> int:
            "Adds two numbers."
            return x + y

        husk.serve(lambda: Agent(model=agno_model(), tools=[add], telemetry=False))
    """,
    "own": """
        import husk

        class Own(husk.Agent):
            async def run(self, query, session_id):
                return f"{query}@{session_id}"

            async def stream_text(self, query):
                yield "first\\nline"
                yield "second"

        husk.serve(Own, route_prefix="/my/own")
    """,
    "chatty": """
        import husk

        class Doubling:
            def run(self, data):
                return {"twice": data["n"] * 2}

        husk.serve(Doubling())
    """,
}

FAULTS = """
    import asyncio, os, sys, time
    import husk

    def agent(query):
        word, _, rest = query.partition(" ")
        if word == "raise":
            raise LookupError(rest)
        if word == "exit":
            sys.exit(int(rest))
        if word == "die":
            os._exit(int(rest))
        if word == "hang":
            time.sleep(3600)
        if word == "eat":
            hoard = []
            while True:
                hoard.append(bytearray(os.urandom(1 << 20)))
        return f"{os.getpid()}"

    husk.serve(agent, memory="256MB", replicas=2, request_timeout=float(os.environ.get("LIMIT", 60)))
"""

MCP = """
    import husk
    from mcp.server import MCPServer

    server = MCPServer("adder")

    @server.tool()
    def add(x: int, y: int) -> int:
        "Adds two numbers."
        return x + y

    husk.serve_mcp(server)
"""


@contextmanager
def project(files: dict[str, str], *flags: str, **environment: str) -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="husk-serve-"))
    folder.chmod(0o755)  # huskd is another user than root
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text))
        shutil.copy(Path(__file__).parent / "agent_models.py", folder)
        port = free_port()
        command = [str(BIN / "husk"), "agents", "up", "--port", str(port), *flags]
        served = Served([*command, "--python", sys.executable], folder, port, environment)
        try:
            served.wait_ready()
            yield served
        finally:
            served.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def frameworks() -> Iterator[Served]:
    files = {f"agents/{name}/agent.py": text for name, text in FRAMEWORKS.items()}
    files["agents/broken/agent.py"] = "import nothing_of_the_kind\n"
    files["mcp_servers/adder/server.py"] = MCP
    with project(files) as served:
        yield served


# ---- kinds ----


def test_the_list(frameworks: Served) -> None:
    agents = frameworks.agents()
    assert {n: a["framework"] for n, a in agents.items()} == {
        "agno": "agno",
        "chatty": "husk",
        "langgraph": "langchain",
        "own": "husk",
        "pydantic": "pydantic_ai",
        "adder": "mcp",
    }
    status, text = frameworks.request("GET", "/agents")
    (failed,) = json.loads(text)["failed"]
    assert failed["file"].endswith("agents/broken/agent.py")
    assert "No module named 'nothing_of_the_kind'" in failed["error"]
    assert "nothing_of_the_kind" in frameworks.output  # the console says it too


@pytest.mark.parametrize(
    "name, answer, input",
    [
        ("pydantic", '{"add":0}', {"x": 0, "y": 0}),
        ("langgraph", "the sum is 3", {"x": 1, "y": 2}),
        ("agno", "the sum is 3", {"x": 1, "y": 2}),
    ],
)
def test_frameworks(frameworks: Served, name: str, answer: str, input: dict[str, int]) -> None:
    said = frameworks.ask(name, "hello", session_id=f"plain-{name}")
    assert said["response"].strip() == answer and said["session_id"] == f"plain-{name}"
    *pieces, last = frameworks.stream(name, "hello", "text")
    assert "".join(pieces).strip() == answer and len(pieces) > 1
    assert json.loads(last) == {"type": "done"}
    events = [json.loads(e) for e in frameworks.stream(name, "hello", "events")]
    assert [e["type"] for e in events[:2]] == ["tool_call", "tool_result"]
    assert events[0]["tool"] == "add" and events[0]["input"] == input
    assert "".join(e["content"] for e in events[2:-1]).strip() == answer
    assert events[-1] == {"type": "done"}
    status, text = frameworks.request("GET", f"/agents/{name}/health")
    assert status == 200 and json.loads(text) == {"status": "healthy", "agent": name}


def test_langgraph_session(frameworks: Served) -> None:
    said = [
        frameworks.ask("langgraph", "history", session_id=s)["response"] for s in ("a", "a", "b")
    ]
    assert [s.strip() for s in said] == ["asked 1 times", "asked 2 times", "asked 1 times"]


def test_own_prefix_and_lines(frameworks: Served) -> None:
    for path in ("/my/own", "/my/own/"):
        status, text = frameworks.request("POST", path, {"query": "q"})
        assert status == 200, text
        assert json.loads(text) == {"response": "q@default", "session_id": "default"}
    status, text = frameworks.request("POST", "/my/own/", {"query": "q", "stream": "text"})
    assert status == 200
    assert text == 'data: first\ndata: line\n\ndata: second\n\ndata: {"type": "done"}\n\n'
    status, text = frameworks.request("POST", "/my/own/", {"query": "q", "stream": "events"})
    assert status == 400 and "events" in json.loads(text)["detail"]


def test_chat(frameworks: Served) -> None:
    status, text = frameworks.request("POST", "/agents/chatty/chat", {"data": {"n": 21}})
    assert status == 200, text
    assert json.loads(text) == {"result": {"twice": 42}, "session_id": "default"}
    status, text = frameworks.request("POST", "/agents/chatty/chat", {"data": {}})
    assert status == 500 and "n" in json.loads(text)["detail"]


def test_bad_requests(frameworks: Served) -> None:
    wrong: list[Any] = [{}, {"query": 7}, {"query": "x", "stream": "video"}, []]
    for body in wrong:
        status, text = frameworks.request("POST", "/agents/pydantic/", body)
        assert status == 422 and "detail" in json.loads(text), body
    assert frameworks.request("POST", "/agents/nobody/", {"query": "x"})[0] == 404
    status, text = frameworks.request("POST", "/agents/langgraph/", {"query": "boom"})
    assert status == 500 and "boom of the model" in json.loads(text)["detail"]
    *_, last = frameworks.stream("agno", "boom", "text")
    assert json.loads(last)["type"] == "error" and "boom of the model" in last


def test_mcp_with_the_real_client(frameworks: Served) -> None:
    from mcp.client import Client

    async def go() -> tuple[list[str], Any]:
        async with Client(f"http://127.0.0.1:{frameworks.port}/adder/mcp") as client:
            tools = await client.list_tools()
            result = await client.call_tool("add", {"x": 2, "y": 3})
            return [t.name for t in tools.tools], result

    names, result = asyncio.run(go())
    assert names == ["add"]
    assert result.content[0].text == "5"


# ---- faults ----


@pytest.fixture(scope="module")
def faults() -> Iterator[Served]:
    with project({"agents/faults/agent.py": FAULTS}) as served:
        yield served


def post(served: Served, query: str) -> tuple[int, Any]:
    status, text = served.request("POST", "/agents/faults/", {"query": query})
    return status, json.loads(text)


def test_raise_and_exit(faults: Served) -> None:
    status, body = post(faults, "raise nothing there")
    assert (status, body["detail"]) == (500, "nothing there")
    status, body = post(faults, "exit 3")
    assert status == 500
    assert faults.agents()["faults"]["restarts"] == 0


@pytest.mark.parametrize("query, word", [("die 7", "7"), ("eat all", "memory")])
def test_a_dead_worker_is_told_and_replaced(faults: Served, query: str, word: str) -> None:
    before = faults.agents()["faults"]["restarts"]
    status, body = post(faults, query)
    assert status == 502 and word in body["detail"], body
    assert post(faults, "pid")[0] == 200  # the other one, at once
    faults.wait_ready()
    assert faults.agents()["faults"]["restarts"] == before + 1
    assert post(faults, "pid")[0] == 200


def test_hanging_calls_time_out_and_others_go_on() -> None:
    with project({"agents/faults/agent.py": FAULTS}, LIMIT="2") as served:
        answers: list[int] = []
        hanging = [
            threading.Thread(target=lambda: answers.append(post(served, "hang")[0]))
            for _ in range(6)
        ]
        for thread in hanging:
            thread.start()
        for _ in range(20):
            assert post(served, "pid")[0] == 200
        for thread in hanging:
            thread.join(PATIENCE)
        assert answers == [504] * 6
        assert post(served, "pid")[0] == 200


# ---- scripts ----

SCRIPT = """
    import husk

    async def helper(query):
        for word in query.split():
            yield word

    if __name__ == "__main__":
        husk.serve(helper, port={port}, host="127.0.0.1")
        print("served", flush=True)
"""


@contextmanager
def script(text: str) -> Iterator[Served]:
    """A script of a user, started by hand; {port} in it is a free one."""
    folder = Path(tempfile.mkdtemp(prefix="husk-script-"))
    folder.chmod(0o755)
    try:
        port = free_port()
        file = folder / "helper" / "agent.py"
        file.parent.mkdir()
        file.write_text(textwrap.dedent(text.format(port=port)))
        environment = {"PYTHONPATH": str(ROOT / "sdk" / "python"), "HUSK_BIN": str(BIN)}
        served = Served([sys.executable, str(file)], folder, port, environment)
        try:
            yield served
        finally:
            served.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ended(served: Served) -> int:
    """Waits until the script and everything that it started has gone; its exit code."""
    code = served.process.wait(PATIENCE)
    served.listener.join(PATIENCE)  # the pipe ends when the last process closes it
    assert not served.listener.is_alive()
    return code


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_script_serves_itself(how: signal.Signals) -> None:
    with script(SCRIPT) as served:
        served.wait_ready()
        assert served.ask("helper", "one two")["response"] == "onetwo"
        assert served.stream("helper", "one two", "text")[:2] == ["one", "two"]
        assert served.end(how) == 0, served.output
        assert served.lines[-1] == "served"  # the script went on


def test_what_a_script_started_ends_with_it() -> None:
    with script(SCRIPT) as served:
        served.wait_ready()
        served.process.kill()
        assert ended(served) == -signal.SIGKILL
        with pytest.raises(OSError):
            served.agents()


def test_the_exit_code_of_what_it_started_is_the_scripts() -> None:
    with script(SCRIPT) as served:
        served.wait_ready()
        pid = served.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        assert ended(served) == 128 + signal.SIGKILL
        assert "served" not in served.lines


def test_a_script_that_cannot_be_served_fails() -> None:
    text = "import husk\nhusk.serve(lambda: 1 / 0, name='x', host='127.0.0.1', port={port})\nprint('on')\n"
    with script(text) as served:
        assert ended(served) > 0  # that of `husk agents up`
        assert "ZeroDivisionError" in served.output and "on" not in served.lines
