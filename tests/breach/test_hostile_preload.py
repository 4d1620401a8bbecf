# SPDX-License-Identifier: Apache-2.0
"""A preload of a template is hostile: it runs as the zygote, before there is a box.

One zygote runs all attempts while it imports the module, each in a child. Its boxes inherit its
memory, so a cell tells what became of them.
"""
from __future__ import annotations

from collections.abc import Iterator

import preload_attempts  # noqa: F401  (registers its attempts)
import preload_calls  # noqa: F401
import pytest
from attempt import ATTEMPTS, WANTED
from hostile_template import CANARY, Packages, packages
from husk_server import Server
from v1_client import Api, check_error, v1, v1_server  # noqa: F401

KEPT_CAPS = "00000000002010c0"  # SETGID, SETUID, NET_ADMIN, SYS_ADMIN: see src/box/zygote_confine.c

HOSTILE = """
import attempt, preload_attempts, preload_calls
outcomes = attempt.run_all()
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
"""


@pytest.fixture(scope="module")
def made() -> Iterator[Packages]:
    with packages() as found:
        yield found


@pytest.fixture(scope="module")
def hostile(v1_server: Server, made: Packages) -> Iterator[dict[str, dict[str, str]]]:  # noqa: F811
    """What the hostile module stored: outcomes and the zygote's status."""
    CANARY.write_text("a file of the host")
    made.add("hostile", HOSTILE)
    made.template(v1_server, "hostile", "hostile")
    try:
        api = Api(v1_server.port)
        session = api.session(template_id="hostile")
        code = "import hostile; {'outcomes': hostile.outcomes, 'status': hostile.status}"
        yield api.run(session, code)["return_value"]
        api.call("DELETE", f"/sessions/{session}")
    finally:
        CANARY.unlink()


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_preload_tries(hostile: dict[str, dict[str, str]], name: str) -> None:
    outcome = hostile["outcomes"][name]
    assert outcome in WANTED[name], f"{name}: {outcome}, not one of {sorted(WANTED[name])}"


@pytest.mark.parametrize("set_", ["CapEff", "CapPrm", "CapBnd"])
def test_a_preload_has_four_capabilities(hostile: dict[str, dict[str, str]], set_: str) -> None:
    assert hostile["status"][set_] == KEPT_CAPS


@pytest.mark.parametrize(
    "key,value", [("CapInh", "0" * 16), ("CapAmb", "0" * 16), ("NoNewPrivs", "1"), ("Seccomp", "2")]
)
def test_a_preload_cannot_gain_more(
    hostile: dict[str, dict[str, str]], key: str, value: str
) -> None:
    assert hostile["status"][key] == value
