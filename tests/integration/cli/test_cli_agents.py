# SPDX-License-Identifier: Apache-2.0
"""Projects of agents from the command line: init, create-agent, create-mcp, agents up's refusals,
analytics, rayai.
"""

from __future__ import annotations

import json
import py_compile
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import BIN, ROOT
from programs import Done, Program, option_names

FRAMEWORKS = ["python", "langchain", "langgraph", "pydantic", "agno"]
FAILED = {"husk": 125, "rayai": 1}
UP = {"husk": ["agents", "up"], "rayai": ["up"]}


@pytest.fixture(params=["husk", "rayai"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """Both programs have these commands."""
    return Program(BIN / request.param, tmp_path)


@pytest.fixture
def project(program: Program) -> Program:
    """The program in a fresh project."""
    assert program("init", "demo").code == 0
    return Program(program.path, program.cwd / "demo")


def up(program: Program, *args: str, env: dict[str, str] | None = None) -> Done:
    return program(*UP[program.path.name], "--python", "/usr/bin/python3", *args, env=env)


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def refused(program: Program, done: Done, *words: str) -> None:
    """One clear line, the right exit code."""
    name = program.path.name
    assert done.code == FAILED[name], done
    lines = done.error.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{name}: "), lines
    for word in words:
        assert word in lines[0]


def test_help(program: Program) -> None:
    name = program.path.name
    manual = (ROOT / "man" / f"{name}.1").read_text().replace("\\-", "-")
    page = (ROOT / "docs" / "cli.md").read_text()
    settings = set(option_names(Program(BIN / "husk", program.cwd)("down", "--help").text))
    for command in ["init", "create-agent", "create-mcp", UP[name][0], "analytics"]:
        text = program(command, "--help").text
        assert text.startswith(f"Usage: {name} {command}")
        assert program("help", command).text == text
        assert all(len(line) <= 80 for line in text.splitlines())
        for option in set(option_names(text)) - settings:
            assert option in page, option
            assert option in manual, option


# ---- init ----


def test_init(program: Program) -> None:
    done = program("init", "demo")
    assert done.code == 0 and done.err == b""
    expected = {"README.md", "pyproject.toml", ".env.example", ".gitignore"}
    expected |= {"agents/__init__.py", "tests/conftest.py"}
    assert files(program.cwd / "demo") == expected
    for file in expected:
        text = (program.cwd / "demo" / file).read_text()
        assert "{{" not in text and "}}" not in text
        assert f"  demo/{file}\n" in done.text
    assert 'name = "demo"' in (program.cwd / "demo/pyproject.toml").read_text()
    assert " ".join([program.path.name, *UP[program.path.name]]) in done.text


def test_init_by_path(program: Program) -> None:
    target = program.cwd / "my-project"
    assert program("init", str(target), "--type", "agent").code == 0
    assert 'name = "my-project"' in (target / "pyproject.toml").read_text()


def test_init_refuses(program: Program) -> None:
    (program.cwd / "there").mkdir()
    (program.cwd / "file").write_text("mine")
    refused(program, program("init", "there"), "there", "exists already")
    refused(program, program("init", "file"), "file", "exists already")
    refused(program, program("init", "none/demo"), "none/demo")
    for name in ["", ".", "..", "-x", "a b", "x-", "a\nb", "a/", "é", "x" * 101]:
        done = program("init", "--", name)
        refused(program, done, "cannot be a project's name")
    refused(program, program("init"), "one name")
    refused(program, program("init", "a", "b"), "one name")
    refused(program, program("init", "a", "--type", "web"), "web")
    assert files(program.cwd) == {"file"}
    assert (program.cwd / "file").read_text() == "mine"


# ---- create-agent, create-mcp ----


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_create_agent(project: Program, framework: str) -> None:
    before = files(project.cwd)
    done = project("create-agent", "my_agent", "--framework", framework)
    assert done.code == 0 and done.err == b"", done
    made = {"agents/my_agent/__init__.py", "agents/my_agent/agent.py", "tests/test_my_agent.py"}
    assert files(project.cwd) == before | made
    for file in made:
        py_compile.compile(str(project.cwd / file), cfile=str(project.cwd / "x.pyc"), doraise=True)
        assert "{{" not in (project.cwd / file).read_text()
    agent = (project.cwd / "agents/my_agent/agent.py").read_text()
    assert f"{project.path.name}" in agent and 'name="my_agent"' in agent
    if framework == "python":
        assert "class MyAgent(Agent):" in agent
    else:  # the system's interpreter has none of the frameworks
        assert "/usr/bin/python3 has no package" in done.text and "pip install" in done.text


def test_python_is_the_default_framework(project: Program) -> None:
    assert project("create-agent", "a").code == 0
    assert project("create-agent", "b", "--framework", "python").code == 0
    first = (project.cwd / "agents/a/agent.py").read_text()
    second = (project.cwd / "agents/b/agent.py").read_text()
    assert "class A(Agent)" in first
    assert second == first.replace("/a/", "/b/").replace('"a"', '"b"').replace(
        "class A(", "class B("
    ).replace("A()", "B()").replace('"""a:', '"""b:')


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("hello", "Hello"),
        ("my_agent", "MyAgent"),
        ("myAgent", "Myagent"),
        ("a1b", "A1B"),
        ("_private", "Private"),
        ("_1", "Agent_1"),
    ],
)
def test_class_names(project: Program, name: str, class_name: str) -> None:
    assert project("create-agent", name).code == 0
    assert f"class {class_name}(Agent)" in (project.cwd / "agents" / name / "agent.py").read_text()


def test_create_mcp(project: Program) -> None:
    before = files(project.cwd)
    done = project("create-mcp", "words")
    assert done.code == 0 and done.err == b""
    made = {
        "mcp_servers/words/__init__.py",
        "mcp_servers/words/server.py",
        "tests/test_mcp_words.py",
    }
    assert files(project.cwd) == before | made
    assert project("create-agent", "words").code == 0  # an agent may have the same name


def test_create_refuses(project: Program) -> None:
    before = files(project.cwd)
    bad = [
        "",
        "1x",
        "a-b",
        "a.b",
        "../x",
        "a b",
        "class",
        "None",
        "é",
        "__init__",
        "x" * 64,
        "a\nb",
    ]
    for command in ["create-agent", "create-mcp"]:
        for name in bad:
            refused(project, project(command, "--", name), "cannot be a name")
        refused(project, project(command, "class"), "keyword")
        refused(project, project(command), "one name")
        refused(project, project(command, "a", "b"), "one name")
    refused(project, project("create-agent", "a", "--framework", "crewai"), "crewai", "pydantic")
    done = project("create-agent", "a", "--framework", "pydantics")
    refused(project, done, "did you mean pydantic?")
    refused(project, project("create-mcp", "a", "--framework", "python"), "--framework")
    assert files(project.cwd) == before


def test_create_never_overwrites(project: Program) -> None:
    assert project("create-agent", "a").code == 0
    (project.cwd / "agents/a/agent.py").write_text("mine")
    refused(project, project("create-agent", "a", "-f", "agno"), "agents/a exists already")
    assert (project.cwd / "agents/a/agent.py").read_text() == "mine"
    (project.cwd / "tests/test_b.py").write_text("mine")
    refused(project, project("create-agent", "b"), "tests/test_b.py exists already")
    (project.cwd / "agents/c").symlink_to("/nonexistent")
    refused(project, project("create-agent", "c"), "agents/c exists already")
    assert not (project.cwd / "agents/b").exists()


def test_create_outside_of_a_project(program: Program) -> None:
    refused(program, program("create-agent", "a"), "no agents/ folder", "init")
    refused(program, program("create-mcp", "a"), "no mcp_servers/ folder", "init")
    assert files(program.cwd) == set()


# ---- agents up: what it refuses before it serves ----


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_up_refuses(project: Program, taken: int) -> None:
    outside = Program(project.path, project.cwd.parent)
    refused(outside, up(outside), "no agents/ folder", "init")
    refused(outside, up(outside, "nowhere"), "nowhere")
    refused(project, up(project, "a", "b"), "one project")
    refused(
        project,
        up(project, "--port", str(taken)),
        str(taken),
        "is used by another program",
        "--port",
    )
    for port in ["", "x", "-1", "65536", "8000 "]:
        refused(project, up(project, f"--port={port}"), "--port")
    refused(project, up(project, "--host", "not an address"), "--host")
    refused(project, up(project, "--host", "::1", "--listen", "127.0.0.1:1"), "not both")
    refused(project, up(project, "--agents-plan", "x"), "--agents-plan")
    refused(project, up(project, "--file", "nothing.py"), "nothing.py")
    refused(project, up(project, "--python", "no-such-python"), "no-such-python")
    refused(project, up(project, "--python", "/bin/true"), "/bin/true", "with --python")
    assert not (project.cwd / ".husk").exists()


def test_up_reads_dotenv_strictly(project: Program) -> None:
    for text, place in [
        ("A=1\nnonsense\n", ".env:2: "),
        ("A='open\n\n", ".env:3: "),
        ('A="\\q"', ".env:1: "),
        ("A='x' y", ".env:1: "),
        ("1A=x", ".env:1: "),
        ("A\n", ".env:1: "),
        ("A=\0", ".env is not a text file"),
    ]:
        (project.cwd / ".env").write_text(text)
        refused(project, up(project), place)


def test_virtual_env_without_python(project: Program) -> None:
    done = project(*UP[project.path.name], "--port", "0", env={"VIRTUAL_ENV": "/nonexistent"})
    refused(project, done, "VIRTUAL_ENV", "--python")


# ---- analytics ----


def state_file(program: Program) -> Path:
    return program.cwd / "home/.local/state/husk/analytics.json"


def test_analytics_are_off_by_default(program: Program) -> None:
    assert program("init", "a").code == 0
    done = program("analytics", "status")
    assert done.code == 0 and done.text.startswith("analytics are off\n")
    assert not state_file(program).exists()


def test_analytics_count_only_names(program: Program) -> None:
    assert program("analytics", "on").code == 0
    assert program("init", "secret-name").code == 0
    inside = Program(program.path, program.cwd / "secret-name", {"HOME": str(program.cwd / "home")})
    assert inside("create-agent", "hidden", "--framework", "agno").code == 0
    text = state_file(program).read_text()
    assert json.loads(text) == {
        "on": True,
        "commands": {"init": 1, "create-agent": 1},
        "frameworks": {"agno": 1},
    }
    assert state_file(program).stat().st_mode & 0o077 == 0
    shown = json.loads(program("analytics", "status", "--json").text)
    assert shown["on"] is True and shown["commands"] == {"init": 1, "create-agent": 1}

    assert program("analytics", "off").text == "analytics are off\n"
    assert program("init", "another").code == 0
    assert json.loads(state_file(program).read_text())["commands"]["init"] == 1
    assert program("analytics", "status").text.startswith("analytics are off\n")


def test_analytics_in_the_state_home(program: Program) -> None:
    env = {"XDG_STATE_HOME": str(program.cwd / "state")}
    assert program("analytics", "on", env=env).code == 0
    assert (program.cwd / "state/husk/analytics.json").exists()
    assert not state_file(program).exists()


@pytest.mark.parametrize("variable", ["DO_NOT_TRACK", "RAYAI_DO_NOT_TRACK"])
def test_do_not_track(program: Program, variable: str) -> None:
    env = {variable: "1"}
    refused(program, program("analytics", "on", env=env), variable)
    assert program("analytics", "on", env={variable: "0"}).code == 0
    assert program("init", "a", env=env).code == 0
    assert json.loads(state_file(program).read_text())["commands"] == {}
    done = program("analytics", "status", env=env)
    assert done.text.startswith(f"analytics are off ({variable} is set)\n")


def test_analytics_alone_shows_the_status(program: Program) -> None:
    assert program("analytics").text == program("analytics", "status").text
    assert program("analytics", "--json").text == program("analytics", "status", "--json").text


def test_analytics_refuse(program: Program) -> None:
    wrong: list[list[str]] = [["maybe"], ["on", "off"], ["on", "--json"]]
    for args in wrong:
        refused(program, program("analytics", *args))
    state_file(program).parent.mkdir(parents=True)
    state_file(program).write_text("[]")
    refused(program, program("analytics", "on"), "analytics.json", "remove it")
    done = program("init", "a")
    assert done.code == 0 and "warning: not counted" in done.error


# ---- rayai ----


def test_rayai_overview(tmp_path: Path) -> None:
    rayai = Program(BIN / "rayai", tmp_path)
    version = Program(BIN / "husk", tmp_path)("--version").text.split()[1]
    assert rayai("--version").text == f"rayai {version}\n"
    overview = rayai("--help")
    assert overview.code == 0
    for command in ["init", "create-agent", "create-mcp", "up", "mcp", "analytics"]:
        assert f"\n  {command} " in overview.text
        text = rayai(command, "--help").text
        assert text.startswith("Usage: rayai ") and "husk agents" not in text
        assert rayai("help", command).text == text


@pytest.mark.parametrize("command", ["login", "logout", "deploy", "status", "logs", "delete"])
def test_there_is_no_platform(tmp_path: Path, command: str) -> None:
    rayai = Program(BIN / "rayai", tmp_path)
    refused(rayai, rayai(command), command, "no hosted platform")
    refused(rayai, rayai(command, "--force", "x"), command, "no hosted platform")


def test_rayai_refuses(tmp_path: Path) -> None:
    rayai = Program(BIN / "rayai", tmp_path)
    refused(rayai, rayai(), "rayai --help")
    refused(rayai, rayai("upp"), "did you mean 'up'?")
    refused(rayai, rayai("mcp"), "mcp needs the word up")
    refused(rayai, rayai("mcp", "up"), "no mcp_servers/ folder")
    refused(rayai, rayai("up", "--prot", "1"), "did you mean --port?")
