# SPDX-License-Identifier: Apache-2.0
"""Documents against what they describe: the curls of README.md and docs/templates.md run against a
real server, and the tests that docs/threats.md and docs/security-model.md name exist (the payloads
of tests/escape are checked there). The last step of `make up` is here, too.

A command is a line `$ curl ...`; the line below it is the answer. A line `$ husk ...` has its output
below, to the end of the block. `...` in an answer stands for anything.
"""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from husk_server import Server, server  # noqa: F401
from places import BIN, ROOT
from waiting import PATIENCE

README, TEMPLATES, THREATS, MODEL = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/templates.md", "docs/threats.md", "docs/security-model.md")
)
SUITES = "box|breach|escape|integration|sdk|unit"
PROGRAMS = re.findall(r"^\$ (husk .*)\n((?:(?!\$ |```).*\n)*)", README, re.MULTILINE)
EXAMPLES = re.findall(r"^\$ (curl .*)\n(.*)$", README + TEMPLATES, re.MULTILINE)


def matches(printed: str, answer: str) -> bool:
    """True if the answer is the printed one, with something in place of each `...`."""
    pattern = ".*".join(re.escape(part) for part in printed.split("..."))
    return re.fullmatch(pattern, answer, re.DOTALL) is not None


def test_there_is_one_for_each_dialect() -> None:
    for path in ("localhost:8000/run", "localhost:8000/api/v1/", "localhost:8000/workspace/se/"):
        assert re.search(rf"^\$ curl .*{path}", README, re.MULTILINE), path


def test_a_wrong_answer_is_noticed() -> None:
    assert matches('{"a":1,"b":...,"c":2}', '{"a":1,"b":[5],"c":2}')
    assert not matches('{"a":1,"b":...,"c":2}', '{"a":1,"b":[5],"c":3}')
    assert not matches('{"a":1}', '{"a":1} ')
    assert not matches("a.c", "abc")


@pytest.mark.parametrize("command, printed", EXAMPLES)
def test_curl(server: Server, command: str, printed: str) -> None:  # noqa: F811
    """In the order of the page: later ones use what earlier ones made."""
    assert command.count("localhost:8000") == 1
    done = subprocess.run(
        command.replace("localhost:8000", f"127.0.0.1:{server.port}"),
        shell=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert matches(printed, done.stdout), done.stdout


@pytest.mark.parametrize("command, printed", PROGRAMS)
def test_program(command: str, printed: str) -> None:
    done = subprocess.run(
        f"{BIN}/{command}", shell=True, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert matches(printed, done.stdout + done.stderr), done.stdout + done.stderr


def test_the_readme_is_short_and_has_an_example_of_each_kind() -> None:
    assert len(README.splitlines()) < 120
    assert len(PROGRAMS) >= 1 and len(EXAMPLES) >= 4 and "```python\n" in README


def test_the_greeting_is_a_curl_that_works(server: Server) -> None:  # noqa: F811
    """husk up prints the first one to try."""
    server.wait_said("Ctrl-C stops it.")
    commands = [line.strip() for line in server.wait_said("curl ")]
    assert len(commands) == 1
    done = subprocess.run(commands[0], shell=True, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    assert '"stdout":"42\\n"' in done.stdout, done.stdout


# ---- tests that documents name ----


def named_tests(text: str) -> list[str]:
    """`suite/file`, `suite/file::name` and `suite/file::name[case]`, without the backquotes."""
    return re.findall(rf"`(?:tests/)?((?:{SUITES})/[^`]+)`", text)


def names_of(file: Path) -> set[str]:
    """Names of the tests in a file. `#define M(x) ... TEST(a_##x)` makes M(y) the test a_y."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    names = set(re.findall(r"^TEST\((\w+)\)", text, re.MULTILINE))
    headers = re.findall(r'^#include "(\w+\.h)"', text, re.MULTILINE)
    own = [file.parent / name for name in headers if (file.parent / name).exists()]
    for source in (text, *(path.read_text(encoding="utf-8") for path in own)):
        lines = source.replace("\\\n", " ")
        for macro, prefix in re.findall(r"#define (\w+)\(name.*TEST\((\w+)##name\)", lines):
            names |= {prefix + name for name in re.findall(rf"^{macro}\((\w+)", text, re.MULTILINE)}
    return names


def is_there(named: str) -> bool:
    path, _, test = named.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file():
        return False
    name, _, case = test.partition("[")
    has_case = case == "" or re.search(rf"\b{re.escape(case[:-1])}\b", file.read_text()) is not None
    return test == "" or (name in names_of(file) and has_case)


@pytest.mark.parametrize("page", [THREATS, MODEL], ids=["threats", "model"])
def test_the_tests_that_a_page_names_exist(page: str) -> None:
    named = named_tests(page)
    assert len(named) > 50
    assert [name for name in named if not is_there(name)] == []


@pytest.mark.parametrize(
    "named, there",
    [
        ("box/test_seccomp.c", True),
        ("box/test_seccomb.c", False),
        ("box", False),
        ("box/test_seccomp.c::nothing_else_reaches_the_kernel", True),
        ("box/test_seccomp.c::nothing_else_reaches", False),
        ("breach/test_confined_daemon.c::a_confined_daemon_becomes_root", True),
        ("breach/test_confined_daemon.c::a_confined_daemon_becomes_a_frog", False),
        ("breach/test_confined_daemon_calls.c::a_confined_daemon_becomes_root", False),
        ("breach/test_hostile_copy.c::a_copy_has_a_pipe", True),
        ("breach/test_hostile_file_worker.c::a_worker_dies_in_the_middle", True),
        ("breach/test_hostile_zygote.py::test_a_hostile_template_is_refused", True),
        ("breach/test_hostile_zygote.py::test_a_hostile_template_is_refused[never_ends]", True),
        ("breach/test_hostile_zygote.py::test_a_hostile_template_is_refused[never_begins]", False),
        ("escape/test_walls.py::test_a_box_dies_with_its_launcher", True),
        ("escape/test_walls.py::a_box_dies_with_its_launcher", False),
        ("escape/python/55_network.py", True),
        ("escape/python/55_network", False),
    ],
)
def test_a_test_that_does_not_exist_is_noticed(named: str, there: bool) -> None:
    assert named_tests(f"see `{named}` or `tests/{named}`") == ([named] * 2 if "/" in named else [])
    assert is_there(named) == there


def test_every_row_of_the_model_names_a_test() -> None:
    """In tables whose last column is "test"; the others explain words."""
    tables = [found.splitlines() for found in re.findall(r"((?:^\|.*\n)+)", MODEL, re.MULTILINE)]
    tested = [table for table in tables if table[0].endswith("| test |")]
    assert len(tested) == len(tables) - 2 >= 6, "classes and prerequisites need no test"
    rows = [row for table in tested for row in table[2:]]
    assert [row for row in rows if not named_tests(row.split(" | ")[-1])] == []


def test_every_promise_of_the_model_names_a_test() -> None:
    promises = re.findall(r"^\d+\. \*\*.*\n(?:   .*\n)*", MODEL, re.MULTILINE)
    assert len(promises) == 11
    assert [promise for promise in promises if not named_tests(promise)] == []


def test_the_fuzz_targets_named_for_the_server_exist() -> None:
    for targets in re.findall(r"; fuzz: ((?:`\w+`(?:, )?)+)", THREATS):
        for name in re.findall(r"\w+", targets):
            assert (ROOT / "tests" / "fuzz" / f"fuzz_{name}.c").exists(), name


def test_the_readme_names_every_manual_page() -> None:
    for page in (ROOT / "man").iterdir():
        assert f" {page.stem}({page.suffix[1:]})" in README, page.name


def test_the_architecture_counts_the_steps_of_a_box() -> None:
    source = (ROOT / "src" / "box" / "setup.c").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"{len(re.findall(r', step_', source))} steps" in page


# ---- make up ----


def up(*settings: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HUSK_", "SANDBOX_"))}
    return subprocess.run(
        [ROOT / "tools" / "up", BIN.parent, *settings],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
    )


def test_make_up_leaves_a_server_that_runs_alone(server: Server) -> None:  # noqa: F811
    for settings in (["--data", str(server.data)], ["--detach", "--data", str(server.data)]):
        done = up(*settings)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"up already: process {server.process.pid} with {server.data}\n" in done.stdout
        assert f"husk down --data {server.data}`" in done.stdout
    assert server.get("/health").status == 200


def test_make_up_in_the_background() -> None:
    """Returns when the server serves, although there is no terminal; husk down ends it."""
    place = Server()
    settings = ["--data", str(place.data), "--listen", "none"]
    try:
        done = up("--detach", *settings)
        assert (done.returncode, done.stderr) == (0, "")
        assert place.over_socket("GET", "/health").json == {"status": "healthy"}
    finally:
        down = subprocess.run([BIN / "husk", "down", *settings], timeout=PATIENCE)
        left = sorted(path.name for path in place.data.glob("husk.[ps]*"))
        place.remove()
    assert (down.returncode, left) == (0, [])
