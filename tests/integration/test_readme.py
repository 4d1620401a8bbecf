# SPDX-License-Identifier: Apache-2.0
"""Documents against what they describe: the curls of README.md and docs/templates.md run against a
real server, and the tests that docs/threats.md names exist (those in tests/escape are checked
there). The last step of `make up` is here, too.

A command is a line `$ curl ...`; the line below it is the answer. `...` in an answer stands for
anything.
"""
from __future__ import annotations

import os
import re
import subprocess

import pytest
from husk_server import BIN, ROOT, Server, server  # noqa: F401
from waiting import PATIENCE

README, TEMPLATES, THREATS = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/templates.md", "docs/threats.md")
)
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


def test_the_greeting_is_a_curl_that_works(server: Server) -> None:  # noqa: F811
    """husk up prints the first one to try."""
    server.wait_said("Ctrl-C stops it.")
    commands = [line.strip() for line in server.wait_said("curl ")]
    assert len(commands) == 1
    done = subprocess.run(commands[0], shell=True, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    assert '"stdout":"42\\n"' in done.stdout, done.stdout


def test_the_tests_named_for_the_server_exist() -> None:
    named = re.findall(r"`((?:integration|unit|box)/test_\w+\.(py|c))::(\w+)`", THREATS)
    assert named
    for file, kind, name in named:
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert (f"def {name}(" if kind == "py" else f"TEST({name})") in text, f"{file}::{name}"


def test_the_fuzz_targets_named_for_the_server_exist() -> None:
    for targets in re.findall(r"; fuzz: ((?:`\w+`(?:, )?)+)", THREATS):
        for name in re.findall(r"\w+", targets):
            assert (ROOT / "tests" / "fuzz" / f"fuzz_{name}.c").exists(), name


def test_the_readme_names_every_manual_page() -> None:
    for page in (ROOT / "man").iterdir():
        assert f" {page.stem}({page.suffix[1:]})" in README, page.name


def test_the_architecture_counts_the_steps_of_a_box() -> None:
    source = (ROOT / "src" / "box" / "setup.c").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
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
