# SPDX-License-Identifier: Apache-2.0
"""Every payload in a box of its own: the wall holds, the answer is true, nothing is left behind."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from escape_canary import Canary
from escape_payload import Payload, all_payloads
from escape_run import GUARD_S, Run, run_json

PAYLOADS = all_payloads()
CONTROLS = [payload for payload in PAYLOADS if payload.has_control]
INTERPRETERS = {"python": "/usr/bin/python3", "shell": "/bin/sh", "javascript": "/usr/bin/node"}
START_NATIVE = "chmod 700 ./payload && exec ./payload"


def name_of(payload: Payload) -> str:
    return payload.id


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The native payloads, compiled statically: they must not depend on what the box contains."""
    folder = tmp_path_factory.mktemp("native")
    built = {}
    for payload in PAYLOADS:
        if payload.language != "native":
            continue
        out = folder / payload.path.stem
        extra = payload.header.get("build", "").split()
        line = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-static", "-s"]
        subprocess.run([*line, *extra, "-o", str(out), str(payload.path)], check=True)
        built[payload.id] = out
    return built


def start(payload: Payload, programs: dict[str, Path], canary: Canary) -> Run:
    flags = payload.flags()
    words = []
    for name, value in canary.hints().items():
        words += ["--env", f"{name}={value}"]
    if payload.language == "native":
        flags["--lang"] = "shell"
        words += ["--file", f"{programs[payload.id]}:payload", START_NATIVE]
    else:
        flags["--lang"] = payload.language
        words.append(str(payload.path))
    return run_json(
        flags, *words, env=canary.parent_env(), timeout_s=payload.timeout_s() + GUARD_S + 10
    )


@pytest.mark.parametrize("payload", PAYLOADS, ids=name_of)
@pytest.mark.usefixtures("clean_host")
def test_wall_holds(payload: Payload, programs: dict[str, Path], canary: Canary) -> None:
    run = start(payload, programs, canary)
    assert canary.word.encode() not in run.raw, "the canary's word came out of the box"
    assert b"ESCAPED" not in run.raw, run.summary()
    facts = run.facts()
    broken = [str(demand) for demand in payload.demands if not demand.holds(facts)]
    assert not broken, f"demanded {broken}, got {run.summary()}"
    assert run.wall_s <= payload.timeout_s() + GUARD_S, "the run outlived its time limit"


@pytest.mark.parametrize("payload", CONTROLS, ids=name_of)
def test_without_a_box_it_escapes(
    payload: Payload, programs: dict[str, Path], canary: Canary, tmp_path: Path
) -> None:
    """The same program outside a box reaches a canary, so a HELD inside means something."""
    if payload.language == "native":
        line = [str(programs[payload.id])]
    else:
        line = [INTERPRETERS[payload.language], str(payload.path)]
    done = subprocess.run(
        line,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **canary.hints()},
        timeout=20,
        check=False,
    )
    canary.forget_visits()
    output = done.stdout + done.stderr
    assert b"ESCAPED" in output and done.returncode == 1, output.decode("utf-8", "replace")


def test_there_are_enough_payloads() -> None:
    """A glob that finds nothing must not look like a wall that holds."""
    count = {language: 0 for language in ("python", "shell", "javascript", "native")}
    for payload in PAYLOADS:
        count[payload.language] += 1
    assert sum(count.values()) >= 80 and min(count.values()) >= 10, count
    assert sys.version_info >= (3, 11)
