# SPDX-License-Identifier: Apache-2.0
"""Tests that would notice: each row of mutations.py takes a defence away, and the test that guards it
fails by its own assertion. In a copy without a mutation the same tests pass.
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutant import ROOT, Mutant, Outcome
from mutations import MUTATIONS, Mutation

BUILD = Path(os.environ.get("HUSK_BUILD", ROOT / "build")).resolve()
TESTS = sorted({row.test for row in MUTATIONS})


@pytest.fixture(scope="module")
def mutant() -> Iterator[Mutant]:
    copied = Mutant(BUILD)
    try:
        old = copied.is_current(TESTS)
        assert not old, f"{BUILD} is older than the source: build it first\n{old}"
        yield copied
    finally:
        copied.remove()


@pytest.fixture(scope="module")
def before(mutant: Mutant) -> dict[str, Outcome]:
    """What every test came to in the copy before the first mutation."""
    return {test: mutant.run(test) for test in TESTS}


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in MUTATIONS]
    assert len(set(names)) == len(names) >= 10


@pytest.mark.parametrize("row", MUTATIONS, ids=[row.name for row in MUTATIONS])
def test_a_test_fails_without(mutant: Mutant, before: dict[str, Outcome], row: Mutation) -> None:
    first = before[row.test]
    assert first.passed, f"{row.test} fails without any mutation:\n{first.said}"
    if first.was_skipped:
        pytest.skip(f"{row.test} is skipped here")
    mutant.apply(row)
    mutant.compile(row.test)
    outcome = mutant.run(row.test)
    assert not outcome.passed, f"{row.test} passes although this is gone: {row.defence}"
    how = f"{row.test} fails, but not by the assertion that says {row.says!r}:\n{outcome.said}"
    assert row.says in outcome.said, how
