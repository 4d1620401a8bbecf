# SPDX-License-Identifier: Apache-2.0
"""husk config: what the server would run with, where it comes from, and what is wrong with it."""
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from programs import Done, Program, Tripwire, option_names

DOC = ROOT / "docs" / "config.md"


@pytest.fixture(autouse=True)
def no_file_of_this_machine(husk: Program) -> None:
    husk.env["HUSK_CONFIG"] = "/dev/null"


def write(husk: Program, text: str, name: str = "husk.conf") -> str:
    path = husk.cwd / name
    path.write_text(text)
    return str(path)


def table(done: Done) -> dict[str, tuple[str, str]]:
    """Key to (value, origin) of the plain output."""
    assert done.code == 0, done.error
    rows = {}
    for line in done.text.splitlines():
        if line and not line.startswith("["):
            key, value, origin = re.fullmatch(r"(\w+)  +(.*?) +(\S+)", line).groups()  # type: ignore
            rows[key] = (value, origin)
    return rows


def as_json(done: Done) -> Any:
    assert done.code == 0, done.error
    return json.loads(done.out)


def keys_in_table() -> list[str]:
    text = (ROOT / "src" / "config" / "config.def").read_text()
    return re.findall(r"^SETTING\(\w+, \w+, (\w+),", text, re.M)


# ---- show ----


def test_show_lists_every_setting_aligned(husk: Program, tripwire: Tripwire) -> None:
    # The folder of this test would be a value too long for the column.
    done = husk("config", "show", env={**tripwire.env, "HUSK_TEMPLATE_DIR": ""})
    rows = table(done)
    assert list(rows) == keys_in_table()
    assert rows["listen"] == ("127.0.0.1:8000", "default")
    lines = [x for x in done.text.splitlines() if x and not x.startswith("[")]
    assert len({x.rindex("default") for x in lines}) == 1, "the last column is not aligned"
    assert not tripwire.tripped()


def test_sources_in_rising_precedence(husk: Program) -> None:
    path = write(husk, "# first line\n[workspace_se]\npool = 3\n")
    seed = {"SANDBOX_POOL_SIZE": "4"}
    variable = {**seed, "HUSK_SE_POOL": "5"}
    show = ["config", "show"]
    steps = [
        (husk(*show), ("2", "default")),
        (husk(*show, env=seed), ("4", "SANDBOX_POOL_SIZE")),
        (husk(*show, "--config", path, env=seed), ("3", f"{path}:3")),
        (husk(*show, env={**seed, "HUSK_CONFIG": path}), ("3", f"{path}:3")),
        (husk(*show, "--config", path, env=variable), ("5", "HUSK_SE_POOL")),
        (husk(*show, "--config", path, "--se-pool", "6", env=variable), ("6", "--se-pool")),
    ]
    for done, want in steps:
        assert table(done)["se_pool"] == want


def test_config_option_wins_over_the_variable(husk: Program) -> None:
    path = write(husk, "pids = 5\n")
    env = {"HUSK_CONFIG": "/nonexistent"}
    assert table(husk("config", "show", "--config", path, env=env))["pids"][0] == "5"
    assert husk("config", "show", env=env).code == 1


def test_json_has_typed_values(husk: Program) -> None:
    path = write(husk, "listen = 127.0.0.1:1\nlisten = [::1]:2\n")
    doc = as_json(
        husk("config", "show", "--json", "--config", path, "--cpu=0.5", env={"HUSK_DOCS": "no"})
    )
    assert list(doc) == keys_in_table()
    assert doc["listen"] == {
        "value": ["127.0.0.1:1", "[::1]:2"],
        "text": "127.0.0.1:1, [::1]:2",
        "source": "file",
        "from": f"{path}:2",
    }
    assert doc["cpu"] == {"value": 0.5, "text": "0.5", "source": "flag", "from": "--cpu"}
    assert doc["docs"]["value"] is False and doc["docs"]["source"] == "environment"
    assert (doc["max_body"]["value"], doc["max_body"]["unit"]) == (16 << 20, "bytes")
    assert (doc["head_timeout"]["value"], doc["head_timeout"]["unit"]) == (10000, "ms")
    assert doc["socket_mode"]["value"] == "0660"


def test_what_is_shown_can_be_a_file(husk: Program) -> None:
    doc = as_json(husk("config", "show", "--json", "--memory", "300M", "--data", "d"))
    given = {key: row["text"] for key, row in doc.items()}
    path = write(husk, "".join(f"{key} = {text}\n" for key, text in given.items()))
    again = as_json(husk("config", "show", "--json", "--config", path))
    assert {key: row["text"] for key, row in again.items()} == given
    assert {row["source"] for row in again.values()} == {"file"}


def test_data_moves_the_socket(husk: Program) -> None:
    rows = table(husk("config", "show", "--data", "./here"))
    assert rows["data"] == (f"{husk.cwd}/here", "--data")
    assert rows["socket"] == (f"{husk.cwd}/here/husk.sock", "default")


# ---- check ----


def test_check_names_everything_at_once(husk: Program) -> None:
    path = write(husk, "lisen = 1\n[pool]\nmin = lots\nnonsense\n")
    done = husk("config", "check", "--config", path, "--cpu", "0", env={"HUSK_MEMROY": "1"})
    assert done.code == 1 and done.out == b""
    assert done.error.splitlines() == [
        "husk: warning: HUSK_MEMROY: no setting has this variable "
        "(did you mean HUSK_MEMORY?), ignoring",
        f"husk: {path}:1: there is no setting 'lisen'; did you mean 'listen'?",
        f"husk: {path}:3: pool_min: 'lots' is not a whole number",
        f"husk: {path}:4: expected 'key = value'",
        "husk: --cpu: '0' is out of range: expected 0.01 to 1024",
        "husk: 4 things are wrong in the configuration",
    ]
    assert husk("config", "show", "--config", path).out == b""


def test_check_of_a_right_file(husk: Program) -> None:
    path = write(husk, "pids = 9\n")
    done = husk("config", "check", "--config", path)
    assert (done.code, done.error) == (0, "")
    assert done.text == f"{path}: {len(keys_in_table())} settings, no mistakes\n"


def test_contradictions_are_found(husk: Program) -> None:
    done = husk("config", "check", "--pool-max", "1", env={"HUSK_POOL_MIN": "2"})
    assert done.code == 1
    assert "pool_min (2, from HUSK_POOL_MIN) must not be more than pool_max (1, " in done.error


def test_hostile_text_stays_harmless(husk: Program) -> None:
    done = husk("config", "check", "--log-level", "\x1b]0;x\x07", env={"HUSK_\x1b[31m": "1"})
    assert done.code == 1
    assert b"\x1b" not in done.err and b"\x07" not in done.err


@pytest.mark.parametrize("name", ["missing", "directory", "huge"])
def test_unreadable_files(husk: Program, name: str) -> None:
    path = husk.cwd / name
    if name == "directory":
        path.mkdir()
    if name == "huge":
        path.write_bytes(b"#" * (1 << 20))
    done = husk("config", "check", "--config", str(path))
    assert done.code == 1
    assert str(path) in done.error


# ---- command line and documents ----


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["shw"],
        ["show", "x"],
        ["show", "--check", "x"],
        ["check", "--json"],
        ["doc", "--listen", "none"],
        ["doc", "--config", "x"],
        ["show", "--lisen", "none"],
        ["show", "--listen"],
        ["doc", "--check", "/nonexistent"],
    ],
    ids=lambda a: " ".join(a) or "nothing",
)
def test_wrong_command_lines(husk: Program, args: list[str]) -> None:
    done = husk("config", *args)
    assert done.code == 125
    assert done.out == b"" and done.error.startswith("husk: ")
    assert len(done.error.splitlines()) == 1


def test_help_has_a_flag_for_every_setting(husk: Program) -> None:
    text = husk("config", "--help").text
    assert text == husk("help", "config").text
    assert all(len(line) <= 80 for line in text.splitlines())
    flags = {"--" + key.replace("_", "-") for key in keys_in_table()}
    own = {"--json", "--check", "--config", "--help"}
    assert set(option_names(text)) - {"--help"} <= flags | own
    assert flags <= set(option_names(text))


def test_reference_is_current(husk: Program) -> None:
    done = husk("config", "doc", "--check", str(DOC))
    assert done.code == 0, done.error
    assert husk("config", "doc").out == DOC.read_bytes()
    for key in keys_in_table():
        assert (
            f"| `{key}`<br>`HUSK_{key.upper()}`<br>`--{key.replace('_', '-')}`" in DOC.read_text()
        )


def test_an_old_reference_is_noticed(husk: Program, tmp_path: Path) -> None:
    old = tmp_path / "config.md"
    old.write_text(DOC.read_text().replace("127.0.0.1", "0.0.0.0", 1))
    done = husk("config", "doc", "--check", str(old))
    assert done.code == 1 and "is not current" in done.error


def test_manual_has_the_own_options() -> None:
    manual = (ROOT / "man" / "husk-config.1").read_text().replace("\\-", "-")
    for option in ("--json", "--check", "--config", "--help", "HUSK_CONFIG"):
        assert option in manual
