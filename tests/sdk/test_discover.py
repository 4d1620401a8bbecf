# SPDX-License-Identifier: Apache-2.0
"""Discovery of a project's agents: what is found, what is left out, what fails and how it is
told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120.0

PYDANTIC = """
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel
    import husk

    def make():
        return Agent(TestModel())

    husk.serve(make, name="helper", num_cpus=0.5, memory="1.5GB", replicas=2, request_timeout=2.5)
"""

ECHO = "import husk\nasync def echo(query):\n    return query\nhusk.serve(echo)\n"

MCP = """
    import husk
    from mcp.server import MCPServer
    husk.serve_mcp(MCPServer("files"))
"""


def add(project: Path, path: str, text: str) -> Path:
    file = project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return file


def discover(*arguments: str, folder: Path | None = None) -> tuple[Any, str]:
    """The result and what was written to standard error."""
    where = ["--folder", str(folder)] if folder is not None else []
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "husk.agents.discover",
                *where,
                "--out-fd",
                str(theirs),
                *arguments,
            ],
            pass_fds=(theirs,),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(theirs)
        said, _ = process.communicate(timeout=PATIENCE)
        result = out.read()
    assert process.returncode == 0, said
    return json.loads(result), said


def names(result: Any) -> list[str]:
    return [a["name"] for a in result["agents"]]


def test_a_project(tmp_path: Path) -> None:
    helper = add(tmp_path, "agents/zeta/agent.py", PYDANTIC)
    echo = add(tmp_path, "agents/echo/agent.py", "print('noise')\n" + ECHO)
    add(tmp_path, "agents/__pycache__/agent.py", "raise SystemExit")
    add(tmp_path, "agents/notes/readme.txt", "")
    files = add(tmp_path, "mcp_servers/files/server.py", MCP)
    result, said = discover(folder=tmp_path)
    assert "noise" in said
    assert result["version"] == 1 and result["failed"] == []
    assert names(result) == ["echo", "helper", "files"]
    assert result["agents"][0] == {
        "name": "echo",
        "kind": "agent",
        "framework": "callable",
        "file": str(echo),
        "main": False,
        "route_prefix": "/agents/echo",
        "num_cpus": 1.0,
        "num_gpus": 0.0,
        "memory_bytes": 2 << 30,
        "replicas": 1,
        "streams": [],
        "chat": False,
        "max_in_flight": 64,
        "queue_length": 256,
        "request_timeout_ms": 300_000,
        "retries": 0,
    }
    assert result["agents"][1] == {
        **result["agents"][0],
        "name": "helper",
        "framework": "pydantic_ai",
        "file": str(helper),
        "route_prefix": "/agents/helper",
        "num_cpus": 0.5,
        "memory_bytes": 3 << 29,
        "replicas": 2,
        "streams": ["text", "events"],
        "request_timeout_ms": 2500,
    }
    assert result["agents"][2] == {
        **result["agents"][0],
        "name": "files",
        "kind": "mcp",
        "framework": "mcp",
        "file": str(files),
        "route_prefix": "/files",
        "memory_bytes": 512 << 20,
    }


def test_failures_are_named_and_the_others_found(tmp_path: Path) -> None:
    broken = add(tmp_path, "agents/broken/agent.py", "def f():\n    return 1 / 0\n\nf()\n")
    add(tmp_path, "agents/dead/agent.py", "import os\nos._exit(3)\n")
    add(tmp_path, "agents/killed/agent.py", "import os\nos.kill(os.getpid(), 11)\n")
    add(tmp_path, "agents/wrong/agent.py", "import husk\nhusk.serve(7)\n")
    add(tmp_path, "agents/empty/agent.py", "")
    add(tmp_path, "agents/echo/agent.py", ECHO)
    result, _ = discover(folder=tmp_path)
    assert names(result) == ["echo"]
    failed = {Path(f["file"]).parent.name: f for f in result["failed"]}
    assert failed["broken"]["error"] == "ZeroDivisionError: division by zero"
    trace = failed["broken"]["traceback"]
    assert f'File "{broken}", line 4' in trace and "line 2, in f" in trace
    assert "husk/agents" not in trace
    assert failed["dead"]["error"] == "the process ended with exit code 3 while the file ran"
    assert failed["killed"]["error"] == "the process was ended by SIGSEGV while the file ran"
    assert failed["wrong"]["error"].startswith(
        "AgentTypeError: husk cannot serve an object of type int;"
    )
    assert failed["empty"]["error"] == "the file does not call husk.serve()"
    assert all("\n" not in f["error"] for f in result["failed"])


def test_a_file_that_hangs_is_told_where(tmp_path: Path) -> None:
    add(tmp_path, "agents/slow/agent.py", "import time\ndef nap():\n    time.sleep(3600)\nnap()\n")
    add(tmp_path, "agents/echo/agent.py", ECHO)
    result, _ = discover("--seconds", "5", folder=tmp_path)
    assert names(result) == ["echo"]
    assert result["failed"][0]["error"] == "the file ran for more than 5 s"
    assert "in nap" in result["failed"][0]["traceback"]


def test_what_a_file_leaves_behind_is_ended(tmp_path: Path) -> None:
    text = "import subprocess, threading, time\n"
    text += f"p = subprocess.Popen(['sleep', '3600'])\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n"
    text += "threading.Thread(target=time.sleep, args=(3600,)).start()\n" + ECHO
    add(tmp_path, "agents/echo/agent.py", text)
    result, _ = discover(folder=tmp_path)
    assert names(result) == ["echo"]
    pid = int((tmp_path / "pid").read_text())
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] in "ZX"


def test_only_some(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        add(tmp_path, f"agents/{name}/agent.py", ECHO)
    add(tmp_path, "agents/bad/agent.py", "raise RuntimeError")
    add(tmp_path, "agents/folder/agent.py", ECHO.replace("(echo)", "(echo, name='served')"))
    add(tmp_path, "mcp_servers/files/server.py", MCP)
    add(tmp_path, "mcp_servers/other/server.py", MCP)
    result, _ = discover("--agents", "a, c", "--servers", "files", folder=tmp_path)
    assert names(result) == ["a", "c", "files"] and result["failed"] == []
    result, _ = discover("--agents", "served,nobody", "--servers", "files", folder=tmp_path)
    assert names(result) == ["served", "files"]
    assert [f["error"] for f in result["failed"]] == ["there is no agent 'nobody'"]
    result, _ = discover("--agents", "a", folder=tmp_path)
    assert names(result) == ["a"], "and no MCP server"
    result, _ = discover("--servers", "other", folder=tmp_path)
    assert names(result) == ["other"]


def test_a_script(tmp_path: Path) -> None:
    text = ECHO.replace(
        "husk.serve(echo)", "if __name__ == '__main__':\n    husk.serve(echo, name='e')"
    )
    file = add(tmp_path, "script.py", text + "    raise RuntimeError('not reached')\n")
    result, _ = discover("--file", str(file), "--main")
    assert result["failed"] == []
    assert result["agents"][0]["main"] is True and result["agents"][0]["file"] == str(file)
    result, _ = discover("--file", str(tmp_path / "none.py"), "--main")
    assert result["failed"][0]["error"] == "there is no such file"


def test_importing_another_agents_file_does_not_serve_it_twice(tmp_path: Path) -> None:
    add(tmp_path, "agents/a/agent.py", ECHO)
    add(
        tmp_path,
        "agents/b/agent.py",
        "from agents.a.agent import echo\nimport husk\nhusk.serve(echo)\n",
    )
    result, _ = discover(folder=tmp_path)
    assert result["failed"] == [] and names(result) == ["a", "b"]


def test_nothing_and_nowhere(tmp_path: Path) -> None:
    result, _ = discover(folder=tmp_path)
    assert result == {"version": 1, "agents": [], "failed": []}
    command = [
        sys.executable,
        "-m",
        "husk.agents.discover",
        "--folder",
        str(tmp_path / "none"),
        "--out-fd",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "there is no folder" in done.stderr


@pytest.mark.parametrize(
    "call", ["name='a/b'", "name='-x'", "num_cpus=0", "memory='1KB'", "replicas=0"]
)
def test_wrong_arguments_are_failures(tmp_path: Path, call: str) -> None:
    add(tmp_path, "agents/echo/agent.py", ECHO.replace("(echo)", f"(echo, {call})"))
    result, _ = discover(folder=tmp_path)
    assert result["agents"] == []
    assert result["failed"][0]["error"].startswith("InvalidParameterError: " + call.split("=")[0])
