# SPDX-License-Identifier: Apache-2.0
"""Live boxes and pools of /api/v1 against a real huskd."""
from __future__ import annotations

import pytest
from husk_server import Server, one  # noqa: F401
from v1_client import Api, check_error, v1, v1_server  # noqa: F401
from waiting import wait_until


def test_containers_show_the_box_of_a_session(v1: Api) -> None:
    s = v1.session(memory="192Mi", cpu="0.5")
    box = v1.get(f"/sessions/{s}")["container_id"]
    listed = {c["id"]: c for c in v1.get("/containers?status=running&limit=200")["items"]}
    assert listed[box]["session_id"] == s
    assert listed[box]["memory_mb"] == 192 and listed[box]["cpu_cores"] == 0.5
    one = v1.get(f"/containers/{box}")
    assert one["status"] == "running" and one["receipt"]["isolation"] == "full"


@pytest.mark.parametrize("is_recorded", [True, False])
def test_the_box_of_an_ephemeral_session_is_linked_while_it_runs(
    v1: Api, is_recorded: bool
) -> None:
    s = v1.session(mode="ephemeral", memory="192Mi")
    assert v1.get(f"/sessions/{s}")["container_id"] is None, "nothing runs yet"
    code = {"code": "print('on', flush=True)\nwhile True: pass", "timeout": 600}
    call = v1.begin("POST", f"/sessions/{s}/execute{'' if is_recorded else '-sync'}", code)

    def box_of() -> str | None:
        box = v1.get(f"/sessions/{s}")["container_id"]
        return str(box) if box is not None else None

    box = wait_until(box_of, "it has a box")
    one = v1.get(f"/containers/{box}")
    assert one["session_id"] == s and one["status"] == "running" and one["memory_mb"] == 192
    assert one["receipt"] == v1.get(f"/sessions/{s}/receipt").body
    assert one["receipt"]["isolation"] == "full"
    assert s in [c["session_id"] for c in v1.get("/containers?limit=200")["items"]]
    logs = f"/containers/{box}/logs"
    wait_until(lambda: bool(v1.get(logs)["logs"] == "on\n"), "its output is there")
    v1.call("DELETE", f"/sessions/{s}")
    call.close()
    check_past(v1, s, box, "on\n")


def check_past(v1: Api, session: str, box: str, logs: str) -> None:
    """Of a session that has ended."""
    ended = v1.get(f"/sessions/{session}")
    assert ended["completed_at"] is not None and ended["container_id"] == box
    past = v1.get(f"/containers/{box}")
    assert past.status == 200 and past["status"] == "exited" and past["session_id"] == session
    assert past["exited_at"] == ended["completed_at"]
    assert past["memory_mb"] == 192 and past["receipt"]["isolation"] == "full"
    assert v1.get(f"/containers/{box}/logs")["logs"] == logs


def test_the_box_of_an_ended_session_can_be_read_for_as_long_as_its_record(one: Server) -> None:
    api = Api(one.port)
    s = api.session(memory="192Mi")
    api.run(s, "print('a')")
    box = api.get(f"/sessions/{s}")["container_id"]
    api.post(f"/sessions/{s}/terminate")
    check_past(api, s, box, "a\n")
    assert one.stop() == 0
    one.start()
    check_past(api, s, box, "a\n")
    boxes = {api.get(f"/sessions/{api.session()}")["container_id"] for _ in range(20)}
    assert box not in boxes, "no later box has its name"
    check_past(api, s, box, "a\n")
    assert api.call("DELETE", f"/sessions/{s}?purge=true").status == 204
    check_error(api.get(f"/containers/{box}"), 404, "ContainerNotFound", box)


def test_containers_page_and_filter(v1: Api) -> None:
    v1.session()
    v1.session()
    page = v1.get("/containers?limit=1&offset=1")
    assert len(page["items"]) == 1 and page["total"] >= 2
    assert page["has_more"] == (page["total"] > 2)
    parked = v1.get("/containers?status=created")
    assert all(c["session_id"] is None for c in parked["items"])
    assert v1.get("/containers?runtime_type=docker")["total"] == 0
    check_error(v1.get("/containers?status=lost"), 422, "InvalidParameter", "status")


def test_container_logs_are_the_last_lines(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "print('one'); print('two')")
    v1.run(s, "import sys; print('three', end=''); print('bad', file=sys.stderr)")
    box = v1.get(f"/sessions/{s}")["container_id"]
    whole = v1.get(f"/containers/{box}/logs")
    assert whole["logs"] == "one\ntwo\nthree\nbad\n" and whole["tail"] == 4
    assert v1.get(f"/containers/{box}/logs?tail=2")["logs"] == "three\nbad\n"
    assert v1.get(f"/containers/{box}/logs?tail=3")["logs"] == "two\nthree\nbad\n"
    assert v1.get(f"/containers/{box}/logs?since=2099-01-01T00:00:00Z")["logs"] == ""
    old = v1.get(f"/containers/{box}/logs?since=2000-01-01T00:00:00%2B01:00")
    assert old["logs"] == whole["logs"]
    for query in ("tail=0", "tail=10001", "since=yesterday"):
        check_error(v1.get(f"/containers/{box}/logs?{query}"), 422, "InvalidParameter")


@pytest.mark.parametrize("name", ["box_0", "box_ffffffff", "sess_x", "box_00", "box_zz"])
@pytest.mark.parametrize("tail", ["", "/logs"])
def test_unknown_containers(v1: Api, name: str, tail: str) -> None:
    check_error(v1.get(f"/containers/{name}{tail}"), 404, "ContainerNotFound", name)


def test_pool_counts_hits(v1: Api) -> None:
    def taken() -> int:
        pools = v1.get("/pool").body["pools"]
        assert all(p["min"] <= p["max"] for p in pools)
        kinds = [(p["template_id"], p["mode"], p["memory_mb"]) for p in pools]
        assert ("python", "ephemeral", 1024) in kinds
        mine = [p for p in pools if p["mode"] == "persistent" and p["memory_mb"] == 1024]
        return sum(p["hits"] + p["misses"] for p in mine)

    before = taken()
    v1.session()
    assert taken() == before + 1
