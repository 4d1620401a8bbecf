# SPDX-License-Identifier: Apache-2.0
"""What huskd keeps below DATA is bounded per session and in all. What would exceed the bound is
refused or cut, with an error or a mark, and takes nothing from what was kept before; counting survives a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from audit import sizes
from husk_server import Server
from v1_client import Api, check_error
from waiting import wait_until

KIB = 1 << 10
MIB = 1 << 20
NOISE = "print('x' * 900_000)"
SESSION_QUOTA = 4 * MIB


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server.run("--session-quota", "4M") as running:
        yield running


def metric(server: Server, name: str) -> int:
    lines = server.get("/metrics").text.splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith(name + " "))))


def kept_output(api: Api, session: str) -> dict[str, int]:
    """Bytes of output by execution, as the records have them."""
    items = api.get(f"/sessions/{session}/executions?limit=100")["items"]
    shown = [api.get(f"/executions/{item['id']}").body for item in items]
    return {x["id"]: len(x["stdout"]) for x in shown}


def make_noise(api: Api, session: str, code: str = NOISE, most: int = 40) -> list[Any]:
    """Until the server takes no more; what it answered."""
    ends: list[Any] = []
    for _ in range(most):
        answer = api.post(f"/sessions/{session}/execute-sync", {"code": code})
        if answer.status != 200:
            check_error(answer, 507, "QuotaExceeded", "session_quota")
            return ends
        ends.append(answer.body)
    raise AssertionError(f"{most} executions, and no end of it")


def copies(server: Server) -> dict[str, int]:
    return {path.name: size for path, size in sizes(server.store / "workspaces").items()}


def test_kept_output_of_a_session_is_bounded(server: Server) -> None:
    api = Api(server.port)
    session = api.session()
    ends = make_noise(api, session)
    assert all(end["status"] == "completed" for end in ends), ends
    whole = [end for end in ends if not end["stdout_truncated"]]
    cut = [end for end in ends if end["stdout_truncated"]]
    assert len(whole) >= 2 and all(len(end["stdout"]) == 900_001 for end in whole)
    assert cut != [] and all(len(end["stdout"]) < 900_001 for end in cut)
    kept = kept_output(api, session)
    assert sum(kept.values()) <= SESSION_QUOTA
    assert kept == {end["id"]: len(end["stdout"]) for end in ends}  # as it was answered
    assert list((server.store / "spool").iterdir()) == []
    # A neighbour has a quota of its own, and reading needs none.
    other = api.session()
    assert api.run(other, "1 + 1")["value"] == "2"
    # An end frees the session's box, a removal its quota.
    before = metric(server, "husk_data_bytes")
    answer = api.call("DELETE", f"/sessions/{session}?purge=true")
    assert answer.status in (200, 204), answer.raw
    assert metric(server, "husk_data_bytes") < before - 3 * MIB


def test_streamed_output_is_cut_and_stays_as_it_was_read(server: Server) -> None:
    api = Api(server.port)
    session = api.session()
    for _ in range(3):
        api.run(session, "print('x' * 1_000_000)")
    run = api.start(session, "for _ in range(20): print('y' * 99_999, flush=True)")
    seen = "".join(e.data["text"] for e in api.follow(run) if e.name == "stdout")
    end = api.get(f"/executions/{run}").body
    assert end["status"] == "completed" and end["stdout_truncated"], end["status"]
    assert end["stdout"] == seen and 0 < len(seen) < 1_000_000
    api.call("DELETE", f"/sessions/{session}?purge=true")


def test_results_without_room_are_cut(server: Server) -> None:
    """Displays and values go first; how it ended and what it wrote stays."""
    api = Api(server.port)
    session = api.session()
    for _ in range(3):
        api.run(session, "print('x' * 1_000_000)")
    code = "print('on')\nclass A:\n  def _repr_html_(self): return 'h' * (3 << 20)\nA()"
    run = api.start(session, code)
    api.wait_status(run, "completed")
    end = api.get(f"/executions/{run}").body
    assert end["outputs"] == [] and end["outputs_dropped"]
    assert end["stdout"] == "on\n" and not end["stdout_truncated"] and end["exit_code"] == 0
    assert api.run(session, "1 + 1")["value"] == "2"
    api.call("DELETE", f"/sessions/{session}?purge=true")


def test_counting_survives_a_restart(server: Server) -> None:
    api = Api(server.port)
    session = api.session()
    api.call("PUT", f"/sessions/{session}/files/a.bin", raw=bytes(300 * KIB))
    wait_until(lambda: f"{session}.tar" in copies(server), "there is a copy of the workspace")
    make_noise(api, session)
    wait_until(lambda: not list((server.store / "spool").iterdir()), "nothing is being spooled")
    before = metric(server, "husk_data_bytes")
    server.kill_huskd()
    server.wait_ready()
    assert abs(metric(server, "husk_data_bytes") - before) < 16 * KIB
    answer = api.post(f"/sessions/{session}/execute-sync", {"code": "1"})
    check_error(answer, 507, "QuotaExceeded", "session_quota")
    api.call("DELETE", f"/sessions/{session}?purge=true")


def test_a_workspace_is_copied_as_far_as_the_quota_goes(server: Server) -> None:
    api = Api(server.port)
    session = api.session()
    path = f"/sessions/{session}/files/small.txt"
    assert api.call("PUT", path, raw=b"kept").status == 201
    name = f"{session}.tar"
    wait_until(lambda: name in copies(server), "the small file is copied")
    first = copies(server)[name]
    # Larger than may be kept: not even begun, and nothing of it is there.
    answer = api.call("PUT", f"/sessions/{session}/files/big.bin", raw=bytes(5 * MIB))
    check_error(answer, 507, "QuotaExceeded", "session_quota")
    assert [f["name"] for f in api.get(f"/sessions/{session}/files")["files"]] == ["small.txt"]
    # Code in the box can make such a file all the same: the copy before stays, whole.
    api.run(session, "open('big.bin', 'wb').write(bytes(6 << 20))")
    wait_until(lambda: f"workspace_not_saved session={session}" in server.output, "it is reported")
    assert copies(server).get(name) == first and f"{session}.new" not in copies(server)
    # Once it is smaller, it is copied again; and a large one does not keep its session alive.
    assert api.call("DELETE", f"/sessions/{session}").status in (200, 204)
    assert copies(server).get(name) == first
    assert api.get(f"/sessions/{session}")["status"] == "terminated"
    api.call("DELETE", f"/sessions/{session}?purge=true")
    assert name not in copies(server)


def test_all_sessions_together_are_bounded() -> None:
    with Server.run("--data-quota", "16M") as server:
        api = Api(server.port)
        sessions = []
        refused = None
        for _ in range(40):
            made = api.post("/sessions", {"mode": "persistent"})
            if made.status != 201:
                refused = made
                break
            sessions.append(made["id"])
            for _ in range(2):
                api.post(f"/sessions/{made['id']}/execute-sync", {"code": NOISE})
        assert refused is not None and len(sessions) >= 5
        check_error(refused, 507, "QuotaExceeded", "data_quota")
        answer = api.post(f"/sessions/{sessions[0]}/execute-sync", {"code": "1"})
        check_error(answer, 507, "QuotaExceeded", "data_quota")
        assert metric(server, "husk_data_bytes") <= metric(server, "husk_data_quota_bytes")
        size = sum(sizes(server.data).values())
        assert size < 3 * 16 * MIB, f"{size >> 20} MiB"  # with the log of the database
        disk = api.get("/health/detailed")["components"]["disk"]
        assert disk["status"] == "degraded" and "data_quota" in disk["detail"], disk
        # What was kept is there, and room that is made is used.
        assert sum(kept_output(api, sessions[0]).values()) == 2 * 900_001
        for session in sessions[:3]:
            api.call("DELETE", f"/sessions/{session}?purge=true")
        again = api.session()
        assert api.run(again, NOISE)["stdout_truncated"] is False


def test_runs_that_are_not_recorded_need_no_room(server: Server) -> None:
    before = metric(server, "husk_data_bytes")
    for _ in range(3):
        answer = server.post("/run", {"code": NOISE})
        assert answer.status == 200 and "xxx" in answer.text
    assert metric(server, "husk_data_bytes") == before
