# SPDX-License-Identifier: Apache-2.0
"""Sessions of /api/v1 against a real huskd."""
from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from husk_server import Server
from v1_client import Api, check_bad_ids, check_error, v1, v1_server  # noqa: F401
from waiting import wait_until

# ---- create ----


def test_create_answers_with_the_whole_session(v1: Api) -> None:
    answer = v1.post(
        "/sessions",
        {
            "mode": "persistent",
            "timeout": 600,
            "resources": {"cpu": "0.5", "memory": "256Mi", "disk": "64Mi", "max_processes": 64},
            "env_vars": {"GREETING": "hello"},
        },
    )
    assert answer.status == 201
    s = answer.body
    assert s["id"] == s["session_id"]
    assert s["template_id"] == "python" and s["language_runtime"] == "python"
    assert s["status"] == "running" and s["mode"] == "persistent"
    assert s["timeout"] == 600 and s["env_vars"] == {"GREETING": "hello"}
    assert s["resources"] == {
        "cpu": "0.5",
        "memory": "256Mi",
        "disk": "64Mi",
        "max_processes": 64,
    }
    assert s["isolation"] == s["min_isolation"] == "full"
    assert s["container_id"].startswith("box_") and s["workspace_path"] == "/workspace"
    assert s["completed_at"] is None and s["reason"] is None and s["expires_at"] > s["created_at"]
    assert v1.run(s["id"], "import os; os.environ['GREETING']")["return_value"] == "hello"


def test_create_without_a_body_takes_the_defaults(v1: Api) -> None:
    answer = v1.post("/sessions")
    assert answer.status == 201
    assert answer["mode"] == "ephemeral" and answer["timeout"] == 300
    assert answer["template_id"] == "python" and answer["env_vars"] == {}


@pytest.mark.parametrize("memory", ["64Mi", "65536K", 64 << 20, "64MB"])
def test_sizes_mean_the_same_in_every_form(v1: Api, memory: Any) -> None:
    answer = v1.post("/sessions", {"mode": "persistent", "memory": memory, "cpu": 1.5})
    assert answer["resources"]["memory"] == "64Mi"
    assert answer["resources"]["cpu"] == "1.5"


def test_own_id_is_used_once(v1: Api) -> None:
    name = "mine-" + uuid.uuid4().hex[:8]
    assert v1.session(id=name) == name
    check_error(v1.post("/sessions", {"id": name}), 409, "Conflict", name)
    v1.post(f"/sessions/{name}/terminate")
    check_error(v1.post("/sessions", {"id": name}), 409, "Conflict", name)
    assert v1.call("DELETE", f"/sessions/{name}?purge=true").status == 204
    assert v1.session(id=name) == name


WRONG_BODIES: list[tuple[Any, str]] = [
    ({"timeout": 0}, "timeout"),
    ({"timeout": 3601}, "timeout"),
    ({"timeout": "60"}, "timeout"),
    ({"timeout": 1.5}, "timeout"),
    ({"mode": "forever"}, "mode"),
    ({"cpu": "0.001"}, "cpu"),
    ({"cpu": "-1"}, "cpu"),
    ({"memory": "1Mi"}, "memory"),
    ({"memory": "lots"}, "memory"),
    ({"memory": -1}, "memory"),
    ({"resources": {"memory": "512Mi", "gpu": 1}}, "gpu"),
    ({"resources": {"max_processes": 31}}, "max_processes"),
    ({"resources": {"max_processes": 1025}}, "max_processes"),
    ({"resources": {"cpu": "1"}, "cpu": "2"}, "cpu"),
    ({"resources": {"memory": "64Mi"}, "memory": "128Mi"}, "memory"),
    ({"resources": {"disk": "64Mi"}, "disk": "32Mi"}, "disk"),
    ({"env_vars": {"1A": "x"}}, "env_vars"),
    ({"env_vars": {"A": 1}}, "A"),
    ({"min_isolation": "none"}, "min_isolation"),
    ({"agent_id": ""}, "agent_id"),
    ({"template_id": "../x"}, "template_id"),
    ({"id": "a/b"}, "id"),
    ({"colour": "red"}, "colour"),
    ([], "object"),
]


@pytest.mark.parametrize("body,word", WRONG_BODIES)
def test_wrong_bodies_name_the_field(v1: Api, body: Any, word: str) -> None:
    check_error(v1.post("/sessions", body), 422, "InvalidParameter", word)


@pytest.mark.parametrize("mode", ["ephemeral", "persistent"])
@pytest.mark.parametrize(
    "fields,word",
    [
        ({"disk": "2Gi"}, "disk"),
        ({"memory": "64Mi", "disk": "60Mi"}, "disk"),
        ({"resources": {"memory": "256Mi", "disk": "200Mi"}}, "disk"),
    ],
)
def test_limits_that_do_not_go_together(v1: Api, mode: str, fields: Any, word: str) -> None:
    before = v1.get("/sessions")["total"]
    check_error(v1.post("/sessions", {"mode": mode, **fields}), 422, "InvalidParameter", word)
    assert v1.get("/sessions")["total"] == before, "no record of what was refused"


@pytest.mark.parametrize("mode", ["persistent", "ephemeral"])
def test_python_needs_a_template_of_python(v1: Api, mode: str) -> None:
    body = {"template_id": "shell", "language": "python", "mode": mode}
    check_error(v1.post("/sessions", body), 422, "InvalidParameter", "shell", "python")


@pytest.mark.parametrize("raw", [b"{", b"{} {}", b'{"a":1,"a":2}', b"\xff", b"[" * 70])
def test_what_is_no_json_is_refused(v1: Api, raw: bytes) -> None:
    check_error(v1.call("POST", "/sessions", raw=raw), 400, "InvalidParameter")


@pytest.mark.parametrize("timeout", [1, 3600])
def test_timeouts_at_the_bounds_are_taken(v1: Api, timeout: int) -> None:
    assert v1.post("/sessions", {"timeout": timeout})["timeout"] == timeout


def test_unknown_template_is_not_found(v1: Api) -> None:
    answer = v1.post("/sessions", {"template_id": "no-such-thing"})
    check_error(answer, 404, "TemplateNotFound", "no-such-thing")


def test_the_same_agent_finds_its_session_again(v1: Api) -> None:
    agent = "agent/" + uuid.uuid4().hex
    first = v1.post("/sessions", {"mode": "persistent", "agent_id": agent})
    assert first.status == 201 and first["agent_id"] == agent
    again = v1.post("/sessions", {"mode": "persistent", "agent_id": agent})
    assert again.status == 200 and again["id"] == first["id"]
    other_mode = v1.post("/sessions", {"mode": "ephemeral", "agent_id": agent})
    assert other_mode.status == 201 and other_mode["id"] != first["id"]
    v1.post(f"/sessions/{first['id']}/terminate")
    after = v1.post("/sessions", {"mode": "persistent", "agent_id": agent})
    assert after.status == 201 and after["id"] != first["id"]


AGENTS_ASK: dict[str, Any] = {
    "mode": "persistent",
    "timeout": 300,
    "resources": {"memory": "128Mi", "cpu": "1"},
    "env_vars": {"A": "1", "B": "2"},
    "min_isolation": "userns",
}


@pytest.mark.parametrize(
    "change",
    [
        {"timeout": 301},
        {"resources": {"memory": "96Mi"}},
        {"resources": {"memory": "128Mi", "cpu": "0.5"}},
        {"resources": {"max_processes": 64}},
        {"env_vars": {"A": "1"}},
        {"env_vars": {"A": "1", "B": "3"}},
        {"env_vars": {"A": "1", "B": "2", "C": "3"}},
        {"min_isolation": "full"},
        {"mode": "ephemeral"},
    ],
)
def test_an_agent_gets_no_session_that_is_less_than_it_asks_for(v1: Api, change: Any) -> None:
    body = {**AGENTS_ASK, "agent_id": uuid.uuid4().hex}
    first = v1.post("/sessions", body)
    assert first.status == 201 and first["reused"] is False
    other = v1.post("/sessions", {**body, **change})
    assert other.status == 201 and other["reused"] is False, "it does not satisfy the request"
    assert other["id"] != first["id"]
    for asked, made in ((body, first), ({**body, **change}, other)):
        again = v1.post("/sessions", asked)
        assert again.status == 200 and again["reused"] is True, "each request has one of its own"
        assert again["id"] == made["id"]


def test_an_agent_accepts_any_value_of_what_it_does_not_name(v1: Api) -> None:
    body = {**AGENTS_ASK, "agent_id": uuid.uuid4().hex}
    first = v1.post("/sessions", body)
    least: dict[str, Any] = {k: body[k] for k in ("mode", "agent_id", "min_isolation")}
    same: dict[str, Any] = {**body, "env_vars": {"B": "2", "A": "1"}}
    for asked in (least, same, dict(least, memory=128 << 20), dict(least, timeout=300)):
        again = v1.post("/sessions", asked)
        assert again.status == 200 and again["reused"] is True
        assert again["id"] == first["id"]
    v1.post(f"/sessions/{first['id']}/extend", {"timeout": 400})
    assert v1.post("/sessions", {**least, "timeout": 300})["id"] != first["id"], "it was extended"


def test_a_repeated_request_of_an_agent_is_no_reuse(v1: Api) -> None:
    body = {"mode": "persistent", "agent_id": uuid.uuid4().hex}
    key = uuid.uuid4().hex
    first = v1.post("/sessions", body, key=key)
    again = v1.post("/sessions", body, key=key)
    assert again["id"] == first["id"] and again["reused"] is False, "its first answer was lost"
    assert v1.post("/sessions", body)["reused"] is True


def test_an_agent_gets_no_session_that_is_spent(v1: Api) -> None:
    body = {"mode": "ephemeral", "agent_id": uuid.uuid4().hex}
    first = v1.post("/sessions", body)
    again = v1.post("/sessions", body)
    assert again.status == 200 and again["id"] == first["id"], "nothing has run in it yet"
    x = v1.start(first["id"], "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    second = v1.post("/sessions", body)
    assert second.status == 201 and second["id"] != first["id"]
    assert v1.run(second["id"], "6 * 7")["return_value"] == 42
    assert v1.post(f"/executions/{x}/cancel").status == 200


def test_an_agent_that_names_another_id_is_told_of_its_session(v1: Api) -> None:
    body = {"mode": "persistent", "agent_id": uuid.uuid4().hex}
    first = v1.session(**body)
    other = "mine-" + uuid.uuid4().hex[:8]
    check_error(v1.post("/sessions", {**body, "id": other}), 409, "Conflict", first, other)
    same = v1.post("/sessions", {**body, "id": first})
    assert same.status == 200 and same["id"] == first


def test_idempotency_key_makes_one_session(v1: Api) -> None:
    key = uuid.uuid4().hex
    first = v1.post("/sessions", {"timeout": 60}, key=key)
    again = v1.post("/sessions", {"timeout": 60}, key=key)
    assert first.status == 201 and again.status in (200, 201)
    assert again["id"] == first["id"]
    check_error(v1.post("/sessions", {"timeout": 61}, key=key), 409, "Conflict")
    assert v1.post("/sessions", {"timeout": 60}, key=key + "x")["id"] != first["id"]


def test_idempotency_key_holds_after_the_session_ended(v1: Api) -> None:
    key = uuid.uuid4().hex
    first = v1.post("/sessions", {"timeout": 60}, key=key)
    v1.post(f"/sessions/{first['id']}/terminate")
    again = v1.post("/sessions", {"timeout": 60}, key=key)
    assert again.status in (200, 201), again.raw
    assert again["id"] == first["id"] and again["status"] == "terminated"


@pytest.mark.parametrize("key", [None, "my-key"])
@pytest.mark.parametrize("own_id", [False, True])
def test_what_could_not_be_made_is_answered_so_and_asked_for_again(
    v1: Api, v1_server: Server, key: str | None, own_id: bool
) -> None:
    """No 2xx for a session that is not there; neither its id nor its key is used up."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    key = key and key + name
    (v1_server.templates / "lame.template").write_text("offers = no_such_module math\n")
    lame = {"id": name, "base": "lame", "preload": ["no_such_module"]}
    assert v1.post("/templates", lame).status == 201
    body: dict[str, Any] = {"mode": "persistent", "template_id": name}
    if own_id:
        body["id"] = f"id-{name}"
    for _ in range(2):
        check_error(v1.post("/sessions", body, key=key), 422, "InvalidParameter", "no_such_module")
    assert v1.call("PUT", f"/templates/{name}", {"preload": ["math"]}).status == 200
    made = v1.post("/sessions", body, key=key)
    assert (made.status, made["status"]) == (201, "running"), made.raw
    assert not own_id or made["id"] == body["id"]
    assert v1.run(made["id"], "6 * 7")["value"] == "42"
    if key is not None:
        assert v1.post("/sessions", body, key=key)["id"] == made["id"]
    assert v1.call("DELETE", f"/sessions/{made['id']}?purge=true").status == 204
    assert v1.call("DELETE", f"/templates/{name}").status == 204


def test_bad_idempotency_key_is_refused(v1: Api) -> None:
    check_error(v1.post("/sessions", {}, key="a b"), 422, "InvalidParameter", "idempotency-key")


# ---- list and get ----


def test_list_filters_and_pages(v1: Api) -> None:
    agent = uuid.uuid4().hex
    made = [v1.session(mode=m, agent_id=f"{agent}.{i}") for i, m in enumerate(["persistent"] * 3)]
    ids = []
    for offset in range(3):
        page = v1.get(f"/sessions?mode=persistent&status=running&limit=1&offset={offset}")
        assert page["limit"] == 1 and page["offset"] == offset
        assert page["has_more"] == (offset + 1 < page["total"])
        assert page["items"] == page["sessions"]
        ids += [s["id"] for s in page["items"]]
    assert ids == made[::-1], "newest first"
    one = v1.get(f"/sessions?agent_id={agent}.1")
    assert [s["id"] for s in one["items"]] == [made[1]]
    assert one["total"] == 1 and one["has_more"] is False
    v1.post(f"/sessions/{made[0]}/terminate")
    ended = v1.get(f"/sessions?agent_id={agent}.0&status=terminated")
    assert [s["id"] for s in ended["items"]] == [made[0]]
    assert v1.get(f"/sessions?agent_id={agent}.0&status=running")["total"] == 0
    assert v1.get("/sessions?template_id=shell&agent_id=" + agent + ".1")["total"] == 0
    behind = v1.get("/sessions?offset=1000000")
    assert behind["items"] == [] and behind["has_more"] is False and behind["total"] >= 3


@pytest.mark.parametrize(
    "query,word",
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("offset=-1", "offset"),
        ("status=asleep", "status"),
        ("mode=x", "mode"),
        ("limit=1&limit=2", "limit"),
        ("colour=red", "colour"),
    ],
)
def test_wrong_queries_name_the_parameter(v1: Api, query: str, word: str) -> None:
    check_error(v1.get(f"/sessions?{query}"), 422, "InvalidParameter", word)


def test_get_shows_what_create_showed(v1: Api) -> None:
    made = v1.post("/sessions", {"mode": "persistent", "timeout": 77}).body
    got = v1.get(f"/sessions/{made['id']}").body
    assert made.pop("reused") is False, "only the answer to a creation has it"
    moving = ("updated_at", "last_activity_at", "expires_at")
    assert {k: v for k, v in got.items() if k not in moving} == {
        k: v for k, v in made.items() if k not in moving
    }


# ---- end ----


def test_delete_ends_and_keeps_the_record(v1: Api) -> None:
    s = v1.session()
    execution = v1.run(s, "1 + 1")
    first = v1.call("DELETE", f"/sessions/{s}")
    assert first.status == 200 and first["status"] == "terminated"
    assert first["completed_at"] is not None and first["reason"]
    assert first["container_id"] is not None and first["expires_at"] is None
    again = v1.call("DELETE", f"/sessions/{s}")
    assert again.status == 200 and again.body == first.body
    assert v1.post(f"/sessions/{s}/terminate").body == first.body
    assert v1.get(f"/sessions/{s}").body == first.body
    assert v1.get(f"/executions/{execution['id']}")["return_value"] == 2
    check_error(v1.post(f"/sessions/{s}/execute", {"code": "1"}), 409, "Conflict", "terminated")


def test_purge_removes_everything(v1: Api) -> None:
    s = v1.session()
    execution = v1.run(s, "1")
    assert v1.call("DELETE", f"/sessions/{s}?purge=true").status == 204
    check_error(v1.get(f"/sessions/{s}"), 404, "SessionNotFound", s)
    check_error(v1.get(f"/executions/{execution['id']}"), 404, "ExecutionNotFound")
    check_error(v1.call("DELETE", f"/sessions/{s}?purge=true"), 404, "SessionNotFound")


def test_an_old_session_that_many_remove_takes_no_new_one_along(v1_server: Server) -> None:
    """A record that goes while its session lives: it could be neither used nor ended any more."""
    name = f"again-{uuid.uuid4()}"

    def make_or_remove(number: int) -> set[int]:
        api = Api(v1_server.port)
        if number % 2:
            return {api.call("DELETE", f"/sessions/{name}?purge=true").status for _ in range(300)}
        ask = {"id": name, "mode": "ephemeral"}
        return {api.call("POST", "/sessions", ask).status for _ in range(300)}

    with ThreadPoolExecutor(16) as pool:
        seen = list(pool.map(make_or_remove, range(16)))
    assert set().union(*seen[::2]) <= {201, 409}
    assert set().union(*seen[1::2]) <= {204, 404}
    Api(v1_server.port).call("DELETE", f"/sessions/{name}?purge=true")


def test_end_cancels_what_runs(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    assert v1.post(f"/sessions/{s}/terminate")["status"] == "terminated"
    assert v1.get(f"/executions/{x}")["status"] == "cancelled"


def test_ephemeral_session_is_over_after_one_execution(v1: Api) -> None:
    s = v1.session(mode="ephemeral")
    assert v1.run(s, "6 * 7")["return_value"] == 42
    wait_until(lambda: bool(v1.get(f"/sessions/{s}")["status"] == "completed"), "it is over")
    check_error(v1.post(f"/sessions/{s}/execute", {"code": "1"}), 409, "Conflict")


def test_idle_session_times_out(v1: Api) -> None:
    s = v1.session(timeout=1)
    wait_until(lambda: bool(v1.get(f"/sessions/{s}")["status"] != "running"), "it is over")
    assert v1.get(f"/sessions/{s}")["status"] == "timeout"


def test_work_keeps_a_session_alive(v1: Api) -> None:
    s = v1.session(timeout=3)
    assert v1.run(s, "import time; time.sleep(5)", timeout=20)["status"] == "completed"
    assert v1.get(f"/sessions/{s}")["status"] == "running"


# ---- extend, stats, receipt ----


def test_extend_counts_from_now(v1: Api) -> None:
    s = v1.session(timeout=60)
    before = v1.get(f"/sessions/{s}").body
    after = v1.post(f"/sessions/{s}/extend", {"timeout": 3600})
    assert after.status == 200 and after["timeout"] == 3600
    assert after["expires_at"] > before["expires_at"]
    assert v1.get(f"/sessions/{s}")["timeout"] == 3600


@pytest.mark.parametrize("body", [{}, {"timeout": 0}, {"timeout": 3601}, {"timeout": 5, "x": 1}])
def test_extend_refuses_wrong_bodies(v1: Api, body: Any) -> None:
    check_error(v1.post(f"/sessions/{v1.session()}/extend", body), 422, "InvalidParameter")


def test_extend_of_an_ended_session_is_a_conflict(v1: Api) -> None:
    s = v1.session()
    v1.post(f"/sessions/{s}/terminate")
    check_error(v1.post(f"/sessions/{s}/extend", {"timeout": 60}), 409, "Conflict", "terminated")


def test_stats_are_figures_of_the_kernel(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = bytearray(50 << 20)\nfor i in range(300000): pass\nopen('f','wb').write(x)")
    stats = v1.get(f"/sessions/{s}/stats").body
    assert stats["executions"] == 1 and stats["uptime_ms"] >= 0
    assert stats["memory_bytes"] > 50 << 20
    assert stats["peak_memory_mb"] > 50 and stats["cpu_time_ms"] > 1
    assert stats["disk_bytes"] >= 50 << 20
    v1.post(f"/sessions/{s}/terminate")
    ended = v1.get(f"/sessions/{s}/stats").body
    assert ended["executions"] == 1 and ended["memory_bytes"] == 0


def test_receipt_says_what_is_enforced(v1: Api) -> None:
    s = v1.session(memory="128Mi")
    receipt = v1.get(f"/sessions/{s}/receipt").body
    assert receipt["isolation"] == "full" and receipt["missing"] == ""
    assert receipt["limits"]["memory_bytes"] == 128 << 20 and receipt["network"] == "none"
    v1.post(f"/sessions/{s}/terminate")
    check_error(v1.get(f"/sessions/{s}/receipt"), 409, "Conflict")


def test_receipt_of_a_session_without_a_box_is_a_conflict(v1: Api) -> None:
    check_error(v1.get(f"/sessions/{v1.session(mode='ephemeral')}/receipt"), 409, "Conflict")


# ---- sessions that are not there ----

ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("DELETE", "?purge=true", None),
    ("POST", "/terminate", None),
    ("POST", "/extend", {"timeout": 60}),
    ("GET", "/stats", None),
    ("GET", "/receipt", None),
    ("POST", "/interrupt", None),
    ("POST", "/reset", None),
    ("GET", "/contexts", None),
    ("POST", "/contexts/0/checkpoint", None),
    ("POST", "/contexts/0/restore", {"checkpoint_id": 1}),
    ("POST", "/contexts/0/branch", None),
    ("POST", "/execute", {"code": "1"}),
    ("POST", "/execute-sync", {"code": "1"}),
    ("POST", "/execute-stream", {"code": "1"}),
    ("GET", "/executions", None),
]


@pytest.mark.parametrize("method,tail,body", ROUTES)
def test_unknown_session(v1: Api, method: str, tail: str, body: Any) -> None:
    answer = v1.call(method, f"/sessions/sess_unknown{tail}", body)
    check_error(answer, 404, "SessionNotFound", "sess_unknown")


@pytest.mark.parametrize("method,tail,body", ROUTES)
def test_ids_that_are_none(v1: Api, method: str, tail: str, body: Any) -> None:
    check_bad_ids(v1, method, "/sessions/{}" + tail, body)
