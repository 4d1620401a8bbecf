# SPDX-License-Identifier: Apache-2.0
"""docs/threats.md says what a box can read in /proc and /sys; here a box looks for itself."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from pathlib import Path

import pytest

from escape_run import ROOT, run_json

DOC = ROOT / "docs" / "threats.md"
SHOWN, HIDDEN = {"own", "kernel", "host"}, {"masked", "refused"}
LEAST = 150  # entries that any kernel shows; fewer means that the walk went wrong

# Runs in the box. Links count by themselves, files when they have content.
WALK = """
import json, os

def has_content(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return len(os.read(fd, 1)) > 0
    except OSError:
        return False
    finally:
        os.close(fd)

def walk(top):
    try:
        names = os.listdir(top)
    except OSError:
        return
    for name in names:
        path = top + "/" + name
        if os.path.islink(path):
            yield path
        elif os.path.isdir(path):
            if top != "/proc" or not name.isdigit():
                yield from walk(path)
        elif has_content(path):
            yield path

found = [p for top in ("/proc", "/sys", "/proc/%d" % os.getpid()) for p in walk(top)]
print(json.dumps(found))
"""

HELP = """
A box can read what docs/threats.md does not list: {entries}.
Find out what each of them tells. What tells of the host and is not needed by programs is masked: add its
name to step_proc_masks() in src/box/steps_mount.c and to a "masked" row. Everything else goes into the row
of its verdict in "What a box can read in /proc and /sys", with the reason why it is shown."""


def listed() -> dict[str, str]:
    """Pattern of an entry -> its verdict."""
    rows: dict[str, str] = {}
    for line in DOC.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and cells[1] in SHOWN | HIDDEN:
            for pattern in re.findall(r"`(/(?:proc|sys)/[^`]+)`", cells[0]):
                assert pattern not in rows, f"{pattern} is listed twice"
                rows[pattern] = cells[1]
    return rows


def entry_of(path: str) -> str:
    """Without what differs from run to run; a thread's folder is checked like its process's."""
    path = re.sub(r"^/proc/\d+/", "/proc/PID/", path)
    return re.sub(r"^/proc/PID/task/\d+/", "/proc/PID/task/TID/", path)


def verdict_of(entry: str, rows: dict[str, str]) -> str | None:
    """The verdict of the longest pattern that fits: the most particular one."""
    fitting = [pattern for pattern in rows if fnmatch.fnmatchcase(entry, pattern)]
    return rows[max(fitting, key=len)] if fitting else None


def ask(code: str) -> str:
    """What a program in a box prints."""
    run = run_json({}, code, env=dict(os.environ))
    assert run.result["status"] == "completed", run.summary()
    return str(run.result["stdout"])


@pytest.fixture(scope="module")
def readable() -> list[str]:
    entries = sorted({entry_of(path) for path in json.loads(ask(WALK))})
    assert len(entries) > LEAST
    return entries


def test_what_a_box_can_read_is_listed(readable: list[str]) -> None:
    rows = listed()
    unknown = [entry for entry in readable if verdict_of(entry, rows) is None]
    assert not unknown, HELP.format(entries=", ".join(unknown))


def test_a_threads_folder_has_nothing_that_its_process_has_not(readable: list[str]) -> None:
    rows = listed()
    entries = [e.replace("/task/TID/", "/") for e in readable if "/task/TID/" in e]
    unknown = [e for e in entries if e != "/proc/PID/children" and verdict_of(e, rows) is None]
    assert entries and not unknown, HELP.format(entries=", ".join(unknown))


def test_what_is_masked_or_refused_cannot_be_read(readable: list[str]) -> None:
    rows = listed()
    open_ones = [entry for entry in readable if verdict_of(entry, rows) in HIDDEN]
    assert not open_ones


def test_the_list_has_what_the_box_itself_was_given(readable: list[str]) -> None:
    """Each pattern of the box's own /proc/sys fits something: the list does not grow stale."""
    own = [pattern for pattern in listed() if pattern.startswith("/proc/sys/")]
    missing = [pattern for pattern in own if not fnmatch.filter(readable, pattern)]
    assert own and set(missing) <= {"/proc/sys/kernel/yama/ptrace_scope"}


@pytest.mark.parametrize("name", ["kernel/random/boot_id", "kernel/core_pattern"])
def test_settings_that_tell_about_the_host_are_others_inside(name: str) -> None:
    path = Path("/proc/sys") / name
    host = path.read_text(encoding="utf-8")
    inside = ask(f"print(open({str(path)!r}).read(), end='')")
    assert inside.strip()
    assert inside != host or inside == "core\n"


def test_the_kernel_gives_a_box_another_uuid_at_each_read() -> None:
    code = "print(len({open('/proc/sys/kernel/random/uuid').read() for i in range(9)}))"
    assert ask(code) == "9\n"
