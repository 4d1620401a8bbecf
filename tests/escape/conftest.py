# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the escape suite: canaries for the whole session, a clean host after each test."""
from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from escape_canary import Canary  # noqa: E402
from escape_run import HUSK  # noqa: E402
from escape_world import World, become_subreaper, enter_own_mounts  # noqa: E402


OTHERS = "/etc/passwd /usr/bin/python3 /usr/bin/node /bin/sh /proc/sys/kernel/core_pattern".split()


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _guarded_files() -> list[Path]:
    """What an attack would like to overwrite: our programs, the interpreters, the password file."""
    ours = [p for p in HUSK.parent.iterdir() if p.is_file() and os.access(p, os.X_OK)]
    return ours + [Path(name) for name in OTHERS if os.path.exists(name)]


@pytest.fixture(scope="session")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    if os.geteuid() != 0:
        pytest.fail("the escape suite plants root-only canaries: run it as root")
    if not os.access(HUSK, os.X_OK):
        pytest.fail(f"{HUSK} is missing: build first, or set HUSK_BIN")
    become_subreaper()
    enter_own_mounts()
    os.environ["HUSK_TEST_TMPDIR"] = str(tmp_path_factory.mktemp("tmpdir"))
    before = {path: _hash(path) for path in _guarded_files()}
    planted = Canary()
    yield planted
    planted.close()
    changed = [str(path) for path, digest in before.items() if _hash(path) != digest]
    assert not changed, f"changed by the suite: {changed}"


@pytest.fixture
def clean_host(canary: Canary) -> Iterator[None]:
    """Fails the test when its boxes left anything behind or touched a canary."""
    world = World.now()
    yield
    left = world.settle()
    faults = canary.faults()
    assert not left, "left behind: " + "; ".join(left)
    assert not faults, "; ".join(faults)
