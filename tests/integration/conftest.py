# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration suite. Its helpers are in lib/."""
from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from beside import begin_of  # noqa: E402
from places import BIN  # noqa: E402
from procfs import pids_with  # noqa: E402
from programs import Program, Tripwire  # noqa: E402
from waiting import wait_until  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: begin_of(item) is not None)


def pytest_runtestloop(session: pytest.Session) -> None:
    for item in session.items:
        if (begin := begin_of(item)) and not session.config.option.collectonly:
            begin()


def _program(name: str, folder: Path) -> Iterator[Program]:
    path = BIN / name
    assert path.exists(), f"{path} is not built (HUSK_BIN_DIR names the folder of the programs)"
    mark = f"HUSK_TEST_MARK={uuid.uuid4().hex}"
    key, _, value = mark.partition("=")
    (folder / "home").mkdir()
    (folder / "templates").mkdir()
    yield Program(path, folder, {key: value})
    # Whatever happened in the test, no process of it may be left: launcher, zygote or helper.
    wait_until(lambda: not pids_with(mark), "all processes of the test are gone")


@pytest.fixture
def husk(tmp_path: Path) -> Iterator[Program]:
    yield from _program("husk", tmp_path)


@pytest.fixture
def sandbox_run(tmp_path: Path) -> Iterator[Program]:
    yield from _program("sandbox-run", tmp_path)


@pytest.fixture
def tripwire(tmp_path: Path) -> Tripwire:
    mark = tmp_path / "launcher-was-started"
    script = tmp_path / "launcher"
    script.write_text(f"#!/bin/sh\n: > '{mark}'\n")
    script.chmod(0o755)
    return Tripwire({"HUSK_LAUNCHER": str(script)}, mark)
