# SPDX-License-Identifier: Apache-2.0
"""What a new user types first: rayai init, create-agent, up, and a curl that streams. Also all that
can be found wrong on the way.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from husk_server import free_port
from places import BIN
from served_project import Project, Served, environment
from waiting import PATIENCE

CALLABLE = """
import os
from {package} import serve

def answer(query: str) -> str:
    return query + ' ' + os.environ.get('GREETING', 'unset')

serve(answer, name='{name}', memory='256MB')
"""


@pytest.fixture
def project() -> Iterator[Project]:
    with Project.made("husk") as made:
        yield made


def processes_of(folder: Path) -> list[str]:
    """Commands of processes that work in the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and Path(os.readlink(entry / "cwd")) == folder:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended meanwhile, or is not ours to see
    return found


def test_first_minutes() -> None:
    """rayai init demo && cd demo && rayai create-agent hello && rayai up, then curl."""
    with Project.made("rayai") as project:
        assert "agents/hello/agent.py" in project.run("create-agent", "hello")
        with project.up() as served:
            served.wait_said(f"curl -sN http://127.0.0.1:{served.port}/agents/hello/")
            answer = "You said 'good morning', which has 2 words."
            assert served.ask("hello", "good morning") == {
                "response": answer,
                "session_id": "default",
            }
            curl = ["curl", "-sN", f"http://localhost:{served.port}/agents/hello/"]
            curl += ["-H", "Content-Type: application/json"]
            curl += ["-d", '{"query": "good morning", "stream": "text"}']
            said = subprocess.check_output(curl, text=True, timeout=PATIENCE)
            events = said.strip().split("\n\n")
            assert len(events) > 3
            assert events[-1] == 'data: {"type": "done"}'
            assert "".join(e[6:] for e in events[:-1]).strip() == answer
            assert served.request("GET", "/agents/hello/health") == (
                200,
                '{"status":"healthy","agent":"hello"}',
            )
            assert processes_of(project.folder) != []
            assert served.end() == 0
        assert processes_of(project.folder) == []
        assert not (project.folder / ".husk/husk.sock").exists()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", served.port))


def test_every_framework_and_a_broken_file() -> None:
    with Project.made("rayai") as project:
        for framework in ["python", "langchain", "langgraph", "pydantic", "agno"]:
            project.run("create-agent", f"a_{framework}", "--framework", framework)
        project.run("create-mcp", "words")
        project.write("agents/broken/agent.py", "x = 1\nimport no_such_module\n")
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=project.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=4 * PATIENCE,
            check=False,
        )
        assert tests.returncode == 0, tests.stdout
        with project.up() as served:
            names = {"a_python", "a_langchain", "a_langgraph", "a_pydantic", "a_agno", "words"}
            assert set(served.agents()) == names
            served.wait_said("cannot serve agents/broken/agent.py: ModuleNotFoundError")
            served.wait_said("line 2, in <module>")
            assert "2" in served.ask("a_python", "one two")["response"]
            assert served.ask("a_langchain", "one two")["response"] == "That has 2 words."
            assert served.ask("a_langgraph", "one two")["response"] == "That has 2 words."
            assert served.ask("a_agno", "one two")["response"] == "That has 2 words."
            assert "count_words" in served.ask("a_pydantic", "one two")["response"]
            for name in ["a_langchain", "a_langgraph", "a_pydantic", "a_agno"]:
                assert len(served.stream(name, "one two", "text")) >= 2
                events = [json.loads(e) for e in served.stream(name, "one two", "events")]
                kinds = [e["type"] for e in events]
                assert kinds.index("tool_call") < kinds.index("tool_result") < kinds.index("text")
                assert kinds[-1] == "done"
                assert {e["tool"] for e in events if "tool" in e} == {"count_words"}
            call = {"name": "count_words", "arguments": {"text": "one two three"}}
            status, text = served.request(
                "POST",
                "/words/mcp",
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
                {"Accept": "application/json, text/event-stream"},
            )
            assert status == 200 and '"3"' in text, text


def test_the_call_that_is_shown_fits_the_agent(project: Project) -> None:
    """An agent of run(data) takes no query: the curl is for /chat, and it works."""
    project.write(
        "agents/a/agent.py",
        "from husk import serve\n"
        "class Keys:\n"
        "    def run(self, data: dict) -> dict:\n"
        "        return {'keys': len(data)}\n"
        "serve(Keys(), name='a', memory='256MB')\n",
    )
    with project.up() as served:
        first = served.wait_said("curl -sN ")[0]
        second = served.wait_said("    -d ")[0]
        command = f"{first.strip()}\n{second.strip()}"
        said = subprocess.check_output(command, shell=True, text=True, timeout=PATIENCE)
        assert json.loads(said)["result"] == {"keys": 0}, command
        assert "/agents/a/chat " in first


def test_dotenv_reaches_the_agent(project: Project) -> None:
    project.write("agents/a/agent.py", CALLABLE.format(package="husk", name="a"))
    project.write(".env", "# mine\nexport GREETING=\"hello\\tyou\"\nHOME='overridden'\n")
    with project.up() as served:
        assert served.ask("a", "I say")["response"] == "I say hello\tyou"
    with project.up(GREETING="from the shell") as served:  # which wins
        assert served.ask("a", "I say")["response"] == "I say from the shell"


def test_selected_agents(project: Project) -> None:
    for name in ["a", "b", "c"]:
        project.write(f"agents/{name}/agent.py", CALLABLE.format(package="husk", name=name))
    project.write("agents/__skipped/agent.py", "raise SystemExit('not to be looked at')")
    with project.up("--agents", "a,c") as served:
        assert set(served.agents()) == {"a", "c"}
        assert "__skipped" not in served.output
    said = project.run("agents", "up", "--agents", "nobody", "--python", sys.executable, code=125)
    assert "there is no agent 'nobody'" in said and "nothing to serve" in said


def test_nothing_to_serve(project: Project) -> None:
    port = str(free_port())
    arguments = ["agents", "up", "--port", port, "--python", sys.executable]
    said = project.run(*arguments, code=125)
    assert "nothing to serve" in said and "create-agent" in said
    project.write("agents/a/agent.py", "x = 1\n")
    said = project.run(*arguments, code=125)
    assert "does not call" in said and "nothing to serve" in said
    project.write("agents/a/agent.py", "import os\nos._exit(7)\n")
    assert "exit code 7" in project.run(*arguments, code=125)


def test_two_of_one_name_are_refused(project: Project) -> None:
    for name in ["a", "b"]:
        project.write(f"agents/{name}/agent.py", CALLABLE.format(package="husk", name="same"))
    said = project.run("agents", "up", "--python", sys.executable, "--port", "0", code=125)
    assert "same" in said.splitlines()[-1]


def test_second_server_of_a_project(project: Project) -> None:
    project.write("agents/a/agent.py", CALLABLE.format(package="husk", name="a"))
    with project.up() as served:
        arguments = ["agents", "up", "--python", sys.executable, "--port"]
        said = project.run(*arguments, str(free_port()), code=125)
        assert "is already served" in said and "`husk down --data " in said
        other = ["--data", str(project.parent / "other"), "--python", sys.executable]
        said = project.run("agents", "up", "--port", str(served.port), *other, code=125)
        assert "is used by another program" in said
        assert served.ask("a", "still")["response"] == "still unset"


def test_detached(project: Project) -> None:
    project.write("agents/a/agent.py", CALLABLE.format(package="husk", name="a"))
    port = free_port()
    arguments = ["--port", str(port), "--python", sys.executable, "--detach"]
    # Not through a pipe: what goes on in the background would keep it open.
    with open(project.parent / "said", "w+") as out:
        command = [str(BIN / "husk"), "agents", "up", *arguments]
        done = subprocess.run(
            command, cwd=project.folder, env=environment(), stdout=out, check=True
        )
        out.seek(0)
        assert done.returncode == 0 and "husk down --data" in out.read()
    served = object.__new__(Served)
    served.port = port
    try:
        assert served.ask("a", "x")["response"] == "x unset"
    finally:
        project.run("down", "--data", str(project.folder / ".husk"))
    assert processes_of(project.folder) == []


def test_script_by_hand(project: Project) -> None:
    """python agents/a/agent.py serves, too."""
    port = free_port()
    text = CALLABLE.format(package="husk", name="a")
    project.write(
        "agents/a/agent.py", text.replace("memory=", f"host='127.0.0.1', port={port}, memory=")
    )
    sdk = str(BIN.parent / "lib" / "husk" / "python")
    served = Served(
        [sys.executable, "agents/a/agent.py"], project.folder, port, {"PYTHONPATH": sdk}
    )
    try:
        served.wait_ready()
        assert served.ask("a", "by hand")["response"] == "by hand unset"
    finally:
        code = served.end()
    assert code == 0, served.output
    assert processes_of(project.folder) == []


def test_plain_agent_without_any_package(project: Project) -> None:
    """An interpreter that has nothing installed serves the default agent, with what came with
    husk.
    """
    venv = project.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    project.run("create-agent", "hello")
    python = str(venv / "bin" / "python")
    with project.up(python=python) as served:
        assert served.ask("hello", "x")["response"] == "You said 'x', which has 1 words."


def test_folder_that_only_its_owner_may_enter(project: Project) -> None:
    """As root huskd runs as another account: its data are then elsewhere."""
    if os.geteuid() != 0:
        pytest.skip("only root has another account for huskd")
    project.write("agents/a/agent.py", CALLABLE.format(package="husk", name="a"))
    project.parent.chmod(0o700)
    with project.up() as served:
        assert served.ask("a", "x")["response"] == "x unset"
        place = served.wait_said("Serving on ")[0]
        assert "/var/lib/husk-agents/" in place
        data = Path(place.rsplit(" ", 1)[1]).parent
    assert not (project.folder / ".husk").exists()
    subprocess.run(["rm", "-r", data], check=True)
