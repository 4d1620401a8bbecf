# SPDX-License-Identifier: Apache-2.0
"""The husk program around its runs: command lines, doctor, templates, help, terminals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from places import ROOT
from programs import Program, Tripwire, type_after, option_names
from waiting import wait_until

# ---- wrong command lines ----


BAD = [
    [],
    ["rnu"],
    ["run"],
    ["--json"],
    ["run", "--memroy", "64M", "1"],
    ["run", "--mem", "64M", "1"],
    ["run", "-x", "1"],
    ["run", "--timeout"],
    ["run", "--json=1", "1"],
    ["run", "--lang", "ruby", "1"],
    ["run", "--template", "../x", "1"],
    ["run", "--min-isolation", "none", "1"],
    ["run", "--env", "1X=2", "1"],
    ["run", "--env", "=2", "1"],
    ["run", "--env", "NOT_SET_ANYWHERE", "1"],
    ["run", "--mount", "/tmp", "1"],
    ["run", "--mount", "/tmp:relative", "1"],
    ["run", "--mount", ":/x", "1"],
    ["run", "--mount", "/nonexistent:/x", "1"],
    ["run", "--file", "/nonexistent", "1"],
    ["run", "--file", "/tmp", "1"],
    ["run", "--file", "/etc/hostname:../x", "1"],
    ["run", "--file", "/etc/hostname:/x", "1"],
    ["run", "--file", "/etc/hostname:", "1"],
    ["run", "--file", "/etc/hostname:a//b", "1"],
    ["run", "--out", "../x", "1"],
    ["run", "--out", "/etc/passwd", "1"],
    ["run", "--out", "a:/nonexistent/dir/b", "1"],
    ["run", "--out", "a:/tmp", "1"],
    ["run", "--out", "", "1"],
    ["run", "no-such-script.py"],
    ["run", "dir/no-such-script.sh", "arg"],
    ["template"],
    ["template", "lst"],
    ["template", "list", "x"],
    ["template", "show"],
    ["template", "show", "A B"],
    ["template", "add", "x"],
    ["template", "add", "../x", "--python", "/usr/bin/python3"],
    ["template", "list", "--python", "/usr"],
    ["doctor", "x"],
    ["version", "x"],
    ["help", "nothing"],
]
BAD += [
    ["run", option, value, "1"]
    for option, values in {
        "--timeout": ["0", "-1", "1e308", "9223372036854775808", "99999999999999999999", "", "5 s",
                      "8000h", "0.0001", "nan", "1d"],
        "--memory": ["0", "-1", "1", "4096", "1e9", "99999999G", "9223372036854775808", "", "64X"],
        "--disk": ["0", "-1", "1", "99999999G", ""],
        "--cpus": ["0", "-1", "0.001", "99999999", "1.2345", "inf", ""],
        "--pids": ["0", "-1", "1.5", "32769", "4294967297", ""],
        "--max-output": ["0", "1", "-1", "99999999G"],
    }.items()
    for value in values
]  # fmt: skip


@pytest.mark.parametrize("args", BAD, ids=lambda a: " ".join(a) or "nothing")
def test_wrong_command_line(husk: Program, tripwire: Tripwire, args: list[str]) -> None:
    done = husk(*args, env=tripwire.env)
    assert (done.code, done.text) == (125, "")
    assert done.error.startswith("husk: ")
    assert done.error.count("\n") == 1 and done.error.endswith("\n")
    assert not tripwire.tripped(), "a launcher was started"


def test_the_tripwire_works(husk: Program, tripwire: Tripwire) -> None:
    done = husk("run", "1", env=tripwire.env)
    assert done.code == 125
    wait_until(tripwire.tripped, "the launcher was started")


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["rnu"], "did you mean 'run'?"),
        (["docter"], "did you mean 'doctor'?"),
        (["run", "--memroy", "1G", "1"], "did you mean --memory?"),
        (["run", "--time-out", "5", "1"], "did you mean --timeout?"),
        (["help", "rn"], "did you mean 'run'?"),
    ],
)
def test_suggestions(husk: Program, args: list[str], hint: str) -> None:
    assert hint in husk(*args).error


def test_unknown_template_is_suggested(husk: Program) -> None:
    done = husk("run", "--template", "pythom", "1")
    assert done.code == 125
    assert done.error == "husk: there is no template 'pythom'; did you mean 'python'?\n"


def test_template_and_language_must_agree(husk: Program) -> None:
    (husk.cwd / "s.sh").write_text("echo x\n")
    for args in (["--lang", "shell", "1"], ["s.sh"]):
        done = husk("run", "--template", "python", *args)
        assert done.code == 125
        assert "template python runs python, but the code is shell" in done.error
    assert husk("run", "--template", "shell", "echo $((1 + 1))").text == "2\n"


def test_error_lines_are_harmless(husk: Program) -> None:
    done = husk("run", "--lang", "\x1b]0;x\x07\nsecond", "1")
    assert done.err.count(b"\n") == 1
    assert b"\x1b" not in done.err


# ---- doctor, template, version, help ----


def test_doctor(husk: Program) -> None:
    done = husk("doctor")
    assert done.code in (0, 1)
    assert "seccomp" in done.text
    assert "cgroup: " in done.text
    assert "\x1b" not in done.text


def test_doctor_json(husk: Program) -> None:
    done = husk("doctor", "--json")
    facts = json.loads(done.out)
    assert facts["kernel"]["release"] == os.uname().release
    assert facts["cgroup"]["mode"] in ("v1", "v2", "hybrid", "none")
    assert len(facts["layers"]) >= 5
    for layer in facts["layers"]:
        assert set(layer) == {"name", "present", "mandatory", "fact", "why", "fix"}
        assert layer["why"]
    complete = all(layer["present"] for layer in facts["layers"] if layer["mandatory"])
    assert facts["complete"] is complete
    assert done.code == (0 if complete else 1)


def test_doctor_agrees_with_run(husk: Program) -> None:
    works = husk("run", "1").code == 0
    assert works == (husk("doctor").code == 0)


@pytest.mark.parametrize("files", [16, 256, 511])
def test_too_few_open_files_are_told_at_the_start(husk: Program, files: int) -> None:
    limited = replace(husk, path=Path("/usr/bin/prlimit"))
    why = f"the hard limit of open files is {files}: raise it to at least 512 (ulimit -Hn)\n"
    done = limited(f"--nofile={files}", str(husk.path), "run", "1")
    assert (done.code, done.text, done.error) == (125, "", f"husk: {why}")
    done = limited(f"--nofile={files}", str(husk.path), "up", "--data", str(husk.cwd / "data"))
    assert (done.code, done.text) == (125, "") and f"husk-launcher: {why}" in done.error
    done = limited(f"--nofile={files}", str(husk.path), "doctor", "--json")
    lacking = [row["name"] for row in json.loads(done.out)["layers"] if not row["present"]]
    assert done.code == 1 and "open files" in lacking


def test_enough_open_files(husk: Program) -> None:
    limited = replace(husk, path=Path("/usr/bin/prlimit"))
    assert limited("--nofile=512", str(husk.path), "run", "6 * 7").text == "42\n"


@pytest.mark.parametrize("soft", [8, 16])
def test_a_tiny_soft_limit_of_open_files_is_raised(husk: Program, soft: int) -> None:
    limited = replace(husk, path=Path("/usr/bin/prlimit"))
    done = limited(f"--nofile={soft}:4096", str(husk.path), "run", "6 * 7")
    assert (done.code, done.text, done.error) == (0, "42\n", "")


def test_template_list(husk: Program) -> None:
    text = husk("template", "list").text
    listed = json.loads(husk("template", "list", "--json").out)
    names = [t["name"] for t in listed]
    assert names == sorted(names)
    assert {"python", "shell"} <= set(names)
    assert all(name in text for name in names)
    assert all(t["language"] in ("python", "shell", "javascript") for t in listed)


def test_template_show(husk: Program) -> None:
    assert "language  python" in husk("template", "show", "python").text
    shown = json.loads(husk("template", "show", "--json", "python").out)
    assert shown["name"] == "python"
    assert shown["usable"] is True
    assert shown["limits"]["memory_bytes"] == 1 << 30
    assert shown["limits"]["pids"] == 128
    done = husk("template", "show", "pythom")
    assert done.code == 125
    assert "did you mean 'python'?" in done.error


def test_template_check(husk: Program, outside_tmp: Path) -> None:
    folder = outside_tmp / "templates"
    folder.mkdir()
    husk.env["HUSK_TEMPLATE_DIR"] = str(folder)
    (folder / "sound.template").write_text("preload = decimal\n")
    (folder / "lame.template").write_text("preload = decimal no_such_module_at_all\n")
    (folder / "mute.template").write_text("language = shell\nruntime = /bin/false\n")
    done = husk("template", "check", "sound")
    assert done.code == 0 and "template sound works" in done.text, done.error
    shown = json.loads(husk("template", "check", "--json", "sound").out)
    assert shown["works"] is True and shown["not_preloaded"] == "" and shown["start_ms"] > 0
    done = husk("template", "check", "lame")
    assert done.code == 125 and "preload of module 'no_such_module_at_all' failed" in done.error
    done = husk("template", "check", "mute")
    assert done.code == 125 and "an empty program ends with" in done.error
    assert husk("template", "check", "python", "shell").code == 125
    assert "there is no template" in husk("template", "check", "absent").error


def pythons() -> list[str]:
    """CPython interpreters from 3.9 on: Debian's, and whatever else is installed."""
    found = []
    places = [Path("/usr/bin"), Path("/usr/local/bin"), *Path.home().glob(".pyenv/versions/*/bin")]
    for path in sorted(path for place in places for path in place.glob("python3.*")):
        match = re.fullmatch(r"python3\.(\d+)", path.name)
        if match and int(match[1]) >= 9:
            found.append(str(path))
    return found


@pytest.mark.parametrize("python", pythons())
def test_template_of_an_installed_python(husk: Program, python: str) -> None:
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=True
    ).stdout
    done = husk(
        "template", "add", "mine", "--python", python, "--preload", "json, decimal", "--no-compile"
    )
    assert done.code == 0, done.error
    assert json.loads(husk("template", "show", "--json", "mine").out)["preload"] == "json decimal"
    ran = husk("run", "--template", "mine", "import sys, ssl, sqlite3; print(sys.version)")
    assert (ran.code, ran.text) == (0, version), ran.error


@pytest.fixture
def outside_tmp() -> Iterator[Path]:
    """Boxes have a /tmp of their own, which hides what lies in that of the host."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_template_of_a_virtual_environment(husk: Program, outside_tmp: Path) -> None:
    venv = outside_tmp / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    packages = next(venv.glob("lib/python3.*/site-packages"))
    (packages / "husk_test_module.py").write_text("ANSWER = 42\n")
    outside_tmp.chmod(0o755)
    done = husk("template", "add", "mine", "--python", str(venv), "--preload", "husk_test_module")
    assert done.code == 0, done.error
    assert "mine" in done.text
    ran = husk("run", "--template", "mine", "import husk_test_module; husk_test_module.ANSWER")
    assert (ran.code, ran.text) == (0, "42\n"), ran.error
    again = husk("template", "add", "mine", "--python", str(venv))
    assert again.code == 125
    assert again.error.count("\n") == 1


def test_template_of_something_else(husk: Program) -> None:
    for path in ("/nonexistent", "/etc/passwd", str(husk.cwd), "python3"):
        done = husk("template", "add", "mine", "--python", path)
        assert done.code == 125, path
        assert path != "python3" or "`command -v python3`" in done.error
        assert done.error.startswith("husk: ") and done.error.count("\n") == 1
    assert "mine" not in husk("template", "list").text


def make_venv(at: Path) -> Path:
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", at], check=True)
    return at


def test_a_template_that_could_not_be_used_is_not_written(
    husk: Program, outside_tmp: Path, tmp_path: Path
) -> None:
    cases = {
        "no path has blanks": make_venv(outside_tmp / "my env"),
        "line 5: mount: a box has its own /tmp": make_venv(tmp_path / "venv"),
        "line 5: preload": Path("/usr/bin/python3"),
    }
    for words, python in cases.items():
        done = husk("template", "add", "mine", "--python", str(python), "--preload", "scikit-learn")
        assert done.code == 125 and done.error.count("\n") == 1, done.error
        assert words in done.error, done.error
        assert husk("template", "show", "mine").code == 125


def test_template_of_a_link_to_a_python(husk: Program, outside_tmp: Path) -> None:
    """As in ~/.local/bin, which no box sees."""
    (outside_tmp / "python").symlink_to("/usr/bin/python3")
    assert husk("template", "add", "mine", "--python", str(outside_tmp / "python")).code == 0
    ran = husk("run", "--template", "mine", "6 * 7")
    assert (ran.code, ran.text) == (0, "42\n"), ran.error


def test_template_of_a_folder_with_a_long_name(husk: Program, outside_tmp: Path) -> None:
    venv = make_venv(outside_tmp / ("v" * 150))
    outside_tmp.chmod(0o755)
    assert husk("template", "add", "mine", "--python", str(venv)).code == 0
    assert husk("run", "--template", "mine", "6 * 7").text == "42\n"


def test_a_python_that_never_stops_talking(husk: Program, outside_tmp: Path) -> None:
    (outside_tmp / "python3").write_text("#!/bin/sh\ntrap '' PIPE\nwhile :; do echo x; done\n")
    (outside_tmp / "python3").chmod(0o755)
    done = husk("template", "add", "mine", "--python", str(outside_tmp / "python3"))
    assert done.code == 125 and "is not a working Python" in done.error


def test_version(husk: Program) -> None:
    version = (ROOT / "VERSION").read_text().strip()
    assert husk("version").text == husk("--version").text == f"husk {version}\n"
    told = json.loads(husk("version", "--json").out)
    assert told["version"] == version and set(told) == {"version", "commit"}
    # An installed copy may have been built from an archive of the source.
    assert re.fullmatch("[0-9a-f]{40}|unknown", told["commit"])


def test_help(husk: Program, tripwire: Tripwire) -> None:
    overview = husk("--help", env=tripwire.env)
    assert overview.code == 0
    assert husk("help").text == husk("-h").text == overview.text
    for command in ("run", "doctor", "template", "version"):
        assert f"  {command} " in overview.text
        text = husk(command, "--help", env=tripwire.env).text
        assert text.startswith("Usage: husk " + command)
        assert husk("help", command).text == text
        assert all(len(line) <= 80 for line in text.splitlines())
    assert not tripwire.tripped()


def test_every_option_is_documented(husk: Program) -> None:
    manual = (ROOT / "man" / "husk.1").read_text().replace("\\-", "-")
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in ("run", "doctor", "template", "version"):
        for option in option_names(husk(command, "--help").text):
            assert option in manual, option
            assert option in page, option


# ---- terminals ----


HOSTILE = (
    "import sys\n"
    "sys.stdout.buffer.write(b'\\x1b]52;c;ZXZpbA==\\x07 \\x1bP$q\"p\\x1b\\\\ \\x9b2J \\xc2\\x9b2J "
    "\\x7f \\xff \\xc3\\xa9\\n')\n"
    "sys.stdout.flush()\n"
    "print('\\x1b[31mred', file=sys.stderr)"
)


def test_terminal_output_is_harmless(husk: Program) -> None:
    seen = husk.in_terminal("run", "--no-value", HOSTILE)
    assert seen.code == 0
    assert b"\x1b" not in seen.shown and b"\x9b" not in seen.shown and b"\x07" not in seen.shown
    assert (
        b'\\x1b]52;c;ZXZpbA==\\x07 \\x1bP$q"p\\x1b\\ \\x9b2J \\xc2\\x9b2J \\x7f \\xff' in seen.shown
    )
    assert "é\n".encode() in seen.shown
    assert b"\\x1b[31mred" in seen.shown


def test_raw_passes_through(husk: Program) -> None:
    seen = husk.in_terminal("run", "--raw", "--no-value", HOSTILE)
    assert b"\x1b]52;c;ZXZpbA==\x07" in seen.shown
    assert b"\x1b[31mred" in seen.shown


def test_hostile_values_and_tracebacks_are_harmless(husk: Program) -> None:
    code = (
        "class E(Exception): pass\nE.__name__ = '\\x1b]0;name\\x07'\nraise E('\\x1b]0;text\\x07')"
    )
    seen = husk.in_terminal("run", code)
    assert seen.code == 1
    assert b"\x1b" not in seen.shown
    assert b"\\x1b]0;text\\x07" in seen.shown
    code = "class V:\n    __repr__ = lambda s: '\\x1b]0;value\\x07'\nV()"
    seen = husk.in_terminal("run", code)
    assert b"\x1b" not in seen.shown
    assert b"\\x1b]0;value\\x07" in seen.shown


def test_json_on_a_terminal_stays_json(husk: Program) -> None:
    seen = husk.in_terminal("run", "--json", "--no-value", HOSTILE)
    assert b"\x1b" not in seen.shown and b"\x7f" not in seen.shown
    assert "é" in json.loads(seen.shown)["stdout"]


def test_doctor_has_colours_only_on_terminals(husk: Program) -> None:
    assert b"\x1b[32m" in husk.in_terminal("doctor").shown
    assert b"\x1b" not in husk.in_terminal("doctor", env={"NO_COLOR": "1"}).shown
    assert b"\x1b" not in husk.in_terminal("doctor", env={"TERM": "dumb"}).shown


def test_ctrl_c_in_a_terminal(husk: Program) -> None:
    seen = husk.in_terminal(
        "run", "print('up', flush=True)\nimport time\ntime.sleep(60)", react=type_after(b"up")
    )
    assert seen.code == 130
    assert b"husk: interrupted" in seen.shown


def test_typed_input_reaches_the_program(husk: Program) -> None:
    code = "print('name?', flush=True); 'hello ' + input()"
    seen = husk.in_terminal("run", code, react=type_after(b"name?", b"Ada\n"))
    assert seen.code == 0
    assert b"'hello Ada'" in seen.shown


def test_terminal_does_not_get_typed_into(husk: Program) -> None:
    code = (
        "import fcntl, os, termios\n"
        "tried = []\n"
        "for path in ('/dev/tty', '/dev/stdin', '/dev/stdout', '/dev/stderr', '/dev/console'):\n"
        "    try: fd = os.open(path, os.O_RDWR)\n"
        "    except OSError: continue\n"
        "    for request in (0x5412, 0x541c, 0x5423, 0x100005412, 0x10000541c):\n"
        "        try: fcntl.ioctl(fd, request & 0xffffffff, b'x'); tried.append((path, request))\n"
        "        except OSError: pass\n"
        "print('typed into', tried)"
    )
    seen = husk.in_terminal("run", code)
    assert seen.code == 0
    assert b"typed into []" in seen.shown


def test_a_home_that_is_no_folder_says_nothing(husk: Program) -> None:
    done = husk("version", env={"HOME": "/dev/null"})
    assert (done.code, done.error) == (0, "")


def test_a_disk_beyond_all_memory_is_the_disks_fault(husk: Program) -> None:
    done = husk("run", "--disk", "800G", "1")
    assert done.code == 125 and "disk (819200 MiB)" in done.error, done.error
