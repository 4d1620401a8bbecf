# SPDX-License-Identifier: Apache-2.0
"""Zygotes are replaced by age and by number of boxes, without a gap in service."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from husk_server import Server
from procfs import below
from v1_client import Api
from waiting import wait_until

LAYOUT = "import os, sys; (id(object), hash('seed'))"  # of one zygote the same in all boxes


def zygotes(server: Server) -> set[int]:
    """The processes that fork boxes: children of the launcher."""
    everyone = below(server.process.pid)
    launcher = next(p.pid for p in everyone if p.name == "husk-launcher")
    return {p.pid for p in everyone if p.parent == launcher and "husk-" not in p.name}


def layout(api: Api) -> str:
    session = api.session()
    value: str = api.run(session, LAYOUT)["value"]
    api.post(f"/sessions/{session}/terminate")
    return value


@contextmanager
def served(*flags: str) -> Iterator[tuple[Server, Api]]:
    with Server.run("--pool-min", "0", "--se-pool", "0", *flags) as server:
        yield server, Api(server.port)


def test_a_zygote_is_replaced_at_its_age_and_its_session_lives_on() -> None:
    with served("--zygote-max-age", "2s") as (server, api):
        kept = api.session()
        api.run(kept, "x = 7")
        first = zygotes(server)
        assert first
        wait_until(lambda: zygotes(server) - first, "another zygote starts")
        mine = api.run(kept, LAYOUT)["value"]
        wait_until(lambda: bool(layout(api) != mine), "new boxes come from another zygote")
        assert api.run(kept, "x")["value"] == "7"
        assert first & zygotes(server), "the zygote of a live session stays"
        api.post(f"/sessions/{kept}/terminate")
        wait_until(lambda: not first & zygotes(server), "the first zygote goes with its last box")


def test_a_zygote_is_replaced_after_so_many_boxes() -> None:
    with served("--zygote-max-boxes", "10", "--session-pool-min", "0") as (server, api):
        layouts = set()

        def differs() -> bool:
            layouts.add(layout(api))
            return len(layouts) > 1

        wait_until(differs, "boxes come from another zygote")


def test_nobody_waits_for_a_replacement() -> None:
    """Requests go on, none fails; the receipt tells the zygote's age."""
    with served("--zygote-max-age", "1s") as (_, api):
        ages: list[int] = []

        def is_younger() -> bool:
            session = api.session()
            done = api.run(session, "1")
            assert done["status"] == "completed"
            ages.append(done["receipt"]["zygote_age_ms"])
            api.post(f"/sessions/{session}/terminate")
            return ages[-1] < max(ages)

        wait_until(is_younger, lambda: f"a box has a younger zygote: {ages}")


@pytest.mark.parametrize("preload", ["no_such_module"])
def test_a_definition_that_broke_since_leaves_the_old_zygote_in_place(preload: str) -> None:
    with served("--zygote-max-age", "2s") as (server, api):
        file: Path = server.templates / "mine.template"
        file.write_text("preload = json\n")
        session = api.session(template_id="mine")
        file.write_text(f"preload = {preload}\n")
        wait_until(lambda: "zygote_not_replaced" in server.output, "it is tried")
        assert api.run(api.session(template_id="mine"), "6 * 7")["value"] == "42"
        assert api.run(session, "1")["value"] == "1"
