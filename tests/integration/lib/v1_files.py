# SPDX-License-Identifier: Apache-2.0
"""Short ways to the file routes of /api/v1 for tests."""
from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from husk_server import Server
from v1_client import Answer, Api, exchange, unchecked

RAW = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    client = Api(server.port)
    daemon = server.pid_of_huskd()
    yield client
    assert server.pid_of_huskd() == daemon, f"huskd died:\n{server.output}"
    for sid in client.made:
        client.call("DELETE", f"/sessions/{sid}?purge=true")


@pytest.fixture(scope="module")
def sid(api: Api) -> str:
    """One session for tests that do not mind what others left in it."""
    return api.session()


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name).replace("[", "-").replace("]", "").replace("/", "-")[:60]


def url(sid: str, path: str) -> str:
    return f"/sessions/{sid}/files/{quote(path)}"


def put(api: Api, sid: str, path: str, data: bytes = b"x") -> Answer:
    return api.call("PUT", url(sid, path), raw=data, headers=RAW)


def get(api: Api, sid: str, path: str, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.call("GET", url(sid, path), headers=sent)


def names(api: Api, sid: str, path: str = "", query: str = "") -> list[str]:
    answer = api.get(f"/sessions/{sid}/files?path={quote(path)}{query}")
    assert answer.status == 200, answer.raw
    return [entry["path"] for entry in answer["files"]]


def raw_get(api: Api, target: str, method: str = "GET", body: bytes | None = None) -> Answer:
    """The target as it is, and no look at the contract: the parser may refuse it first."""
    return exchange(unchecked(api.port), method, target, body, RAW if body is not None else {})
