# SPDX-License-Identifier: Apache-2.0
"""docs/threats.md against the files: every test it names exists, every payload is named."""
from __future__ import annotations

import re

from escape_payload import HERE, all_payloads
from escape_run import ROOT

TABLE = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")


def named_payloads() -> set[str]:
    """Names in the table; `a` to `b` stands for everything between them."""
    ids = [payload.id for payload in all_payloads()]
    word = r"`((?:python|shell|javascript|native)/\w+)`"
    named = set(re.findall(word, TABLE))
    for first, last in re.findall(word + " to " + word, TABLE):
        named.update(ids[ids.index(first) : ids.index(last) + 1])
    return named


def test_the_table_names_every_payload_and_no_other() -> None:
    assert named_payloads() == {payload.id for payload in all_payloads()}


def test_the_tests_named_in_the_table_exist() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", TABLE)
    assert named
    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"def {test}(" not in (HERE / file).read_text(encoding="utf-8")
    ]
    assert missing == []
