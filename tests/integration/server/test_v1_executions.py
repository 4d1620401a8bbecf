# SPDX-License-Identifier: Apache-2.0
"""The life of executions of /api/v1 against a real huskd: start, wait, keys, lists, cancel."""
from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest
from beside import beside
from husk_server import Server
from v1_client import WAITS, Answer, Api, check_bad_ids, check_error, v1, v1_server  # noqa: F401
from v1_files import put

LOOP = "print('on', flush=True)\nwhile True: pass"


# ---- starting and waiting ----


def test_execute_returns_at_once(v1: Api) -> None:
    s = v1.session()
    answer = v1.post(f"/sessions/{s}/execute", {"code": WAITS + "5"})
    assert answer.status == 201
    assert answer["session_id"] == s and answer["status"] in ("pending", "running")
    x = answer["execution_id"]
    running = v1.wait_status(x, "running")
    assert running["exit_code"] is None and running["completed_at"] is None
    assert v1.get(f"/executions/{x}/result")["exit_code"] is None
    assert put(v1, s, "go", b"").status == 201
    done = v1.wait_status(x, "completed")
    assert done["exit_code"] == 0 and done["completed_at"] >= done["started_at"]
    assert v1.get(f"/executions/{x}/result")["return_value"] == 5


def test_output_so_far_of_a_running_execution(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, LOOP, timeout=600)
    v1.wait_output(x, "on")
    so_far = v1.get(f"/executions/{x}").body
    assert so_far["status"] == "running" and so_far["stdout"] == "on\n"
    assert so_far["exit_code"] is None and so_far["metrics"] is None
    assert so_far["termination"] is None and so_far["outputs"] == []
    v1.post(f"/executions/{x}/cancel")


@pytest.mark.parametrize("prefix", ["", "/executions"])
def test_both_forms_of_the_paths(v1: Api, prefix: str) -> None:
    s = v1.session()
    made = v1.post(f"{prefix}/sessions/{s}/execute", {"code": "1 + 1"})
    assert made.status == 201
    v1.wait_status(made["execution_id"], "completed")
    sync = v1.post(f"{prefix}/sessions/{s}/execute-sync", {"code": "2 + 2"})
    assert sync["return_value"] == 4
    listed = v1.get(f"{prefix}/sessions/{s}/executions")
    assert [x["id"] for x in listed["items"]] == [sync["id"], made["execution_id"]]


def test_latest_or_named_execution_of_a_session(v1: Api) -> None:
    s = v1.session()
    check_error(v1.get(f"/sessions/{s}/status"), 404, "ExecutionNotFound")
    check_error(v1.get(f"/sessions/{s}/result"), 404, "ExecutionNotFound")
    first = v1.run(s, "1")
    second = v1.run(s, "2")
    assert v1.get(f"/sessions/{s}/status")["id"] == second["id"]
    assert v1.get(f"/sessions/{s}/result").body == second
    assert v1.get(f"/sessions/{s}/result?execution_id={first['id']}").body == first
    assert v1.get(f"/sessions/{s}/status?execution_id={first['id']}")["exit_code"] == 0
    other = v1.session()
    for what in ("status", "result"):
        answer = v1.get(f"/sessions/{other}/{what}?execution_id={first['id']}")
        check_error(answer, 404, "ExecutionNotFound")


@beside  # no time that may be asked for is shorter
def test_sync_timeout_names_the_execution() -> None:
    with Server.run() as server:
        v1 = Api(server.port)
        s = v1.session()
        before = time.monotonic()
        body = {"code": WAITS + "'late'", "timeout": 600}
        answer = v1.post(f"/sessions/{s}/execute-sync?sync_timeout=10", body)
        check_error(answer, 408, "RequestTimeout", "exec_", "10 s")
        assert time.monotonic() - before > 9.5
        x = answer["error_detail"].split()[0]
        assert put(v1, s, "go", b"").status == 201
        v1.wait_status(x, "completed")
        assert v1.get(f"/executions/{x}")["return_value"] == "late"


@pytest.mark.parametrize(
    "query",
    ["sync_timeout=9", "sync_timeout=3601", "poll_interval=0.05", "poll_interval=11", "x=1"],
)
def test_sync_queries_are_checked(v1: Api, query: str) -> None:
    answer = v1.post(f"/sessions/{v1.session()}/execute-sync?{query}", {"code": "1"})
    check_error(answer, 422, "InvalidParameter", query.split("=")[0])


def test_executions_of_one_context_take_turns(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "order = []")
    ids = [v1.start(s, f"import time; time.sleep(0.2); order.append({n})") for n in range(4)]
    for x in ids:
        v1.wait_status(x, "completed")
    assert v1.run(s, "order")["return_value"] == [0, 1, 2, 3]


def test_many_sessions_at_once(v1: Api) -> None:
    results: list[Any] = []

    def work(n: int) -> None:
        s = v1.session()
        results.append(v1.run(s, f"{n} * 2")["return_value"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [n * 2 for n in range(12)]


def test_an_ephemeral_session_takes_one_execution(v1: Api) -> None:
    s = v1.session(mode="ephemeral")
    x = v1.start(s, "import time; time.sleep(1)")
    check_error(v1.post(f"/sessions/{s}/execute", {"code": "1"}), 409, "Conflict")
    v1.wait_status(x, "completed")


# ---- idempotency ----


@pytest.mark.parametrize("route", ["execute", "execute-sync"])
def test_the_same_key_runs_once(v1: Api, route: str) -> None:
    s = v1.session()
    v1.run(s, "n = 0")
    key = uuid.uuid4().hex
    body = {"code": "n += 1; n"}
    first = v1.post(f"/sessions/{s}/{route}", body, key=key)
    again = v1.post(f"/sessions/{s}/{route}", body, key=key)
    assert first.status == again.status
    assert again["execution_id"] == first["execution_id"]
    v1.wait_status(first["execution_id"], "completed")
    late = v1.post(f"/sessions/{s}/{route}", body, key=key)
    assert late["execution_id"] == first["execution_id"]
    assert v1.run(s, "n")["return_value"] == 1
    other = v1.post(f"/sessions/{s}/{route}", {"code": "n += 2"}, key=key)
    check_error(other, 409, "Conflict", "Idempotency-Key")
    assert v1.run(s, "n")["return_value"] == 1


def test_the_same_key_from_two_clients_at_once_runs_once(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "n = 0")
    key = uuid.uuid4().hex
    got: list[Answer] = []

    def work() -> None:
        got.append(v1.post(f"/sessions/{s}/execute-sync", {"code": "n += 1; n"}, key=key))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {a.status for a in got} == {200}
    assert len({a["id"] for a in got}) == 1 and {a["return_value"] for a in got} == {1}


def test_keys_belong_to_one_session(v1: Api) -> None:
    key = uuid.uuid4().hex
    a, b = v1.session(), v1.session()
    first = v1.post(f"/sessions/{a}/execute-sync", {"code": "1"}, key=key)
    second = v1.post(f"/sessions/{b}/execute-sync", {"code": "1"}, key=key)
    assert first["id"] != second["id"] and second["session_id"] == b


def test_a_key_of_an_ephemeral_session_still_answers(v1: Api) -> None:
    s = v1.session(mode="ephemeral")
    key = uuid.uuid4().hex
    first = v1.post(f"/sessions/{s}/execute-sync", {"code": "8 * 8"}, key=key)
    again = v1.post(f"/sessions/{s}/execute-sync", {"code": "8 * 8"}, key=key)
    assert again.status == 200 and again.body == first.body


# ---- lists ----


def test_list_pages_and_filters(v1: Api) -> None:
    s = v1.session()
    ids = [v1.run(s, code)["id"] for code in ("1", "1 / 0", "2")]
    whole = v1.get(f"/sessions/{s}/executions")
    assert [x["id"] for x in whole["items"]] == ids[::-1]
    assert [x["exit_code"] for x in whole["items"]] == [0, 1, 0]
    assert whole["total"] == 3 and whole["has_more"] is False and whole["limit"] == 50
    page = v1.get(f"/sessions/{s}/executions?limit=1&offset=1")
    assert [x["id"] for x in page["items"]] == [ids[1]] and page["has_more"] is True
    failed = v1.get(f"/sessions/{s}/executions?status=failed")
    assert [x["id"] for x in failed["items"]] == [ids[1]] and failed["total"] == 1
    assert v1.get(f"/sessions/{s}/executions?offset=9")["items"] == []
    for query in ("limit=0", "limit=201", "status=odd", "offset=-1", "colour=red"):
        check_error(v1.get(f"/sessions/{s}/executions?{query}"), 422, "InvalidParameter")


def test_list_pages_by_cursor(v1: Api) -> None:
    s = v1.session()
    ids = [v1.run(s, f"print({i} * 'x')\n{i}")["id"] for i in range(5)]
    first = v1.get(f"/sessions/{s}/executions?limit=2")
    assert [x["id"] for x in first["items"]] == [ids[4], ids[3]]
    v1.run(s, "'one more does not move the pages'")
    second = v1.get(f"/sessions/{s}/executions?limit=2&cursor={first['next_cursor']}")
    assert [x["id"] for x in second["items"]] == [ids[2], ids[1]]
    assert second["has_more"] is True and second["total"] == 6
    last = v1.get(f"/sessions/{s}/executions?limit=2&cursor={second['next_cursor']}")
    assert [x["id"] for x in last["items"]] == [ids[0]]
    assert last["has_more"] is False and last["next_cursor"] is None
    for query in ("cursor=x", "cursor=", "cursor=-1", "cursor=3&offset=1", f"cursor={10 ** 18}"):
        check_error(v1.get(f"/sessions/{s}/executions?{query}"), 422, "InvalidParameter")


def test_list_shows_exit_codes_past_keys_of_the_same_name(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "print('\"exit_code\":9')\n{'exit_code': 8}")
    assert v1.get(f"/sessions/{s}/executions")["items"][0]["exit_code"] == 0


# ---- waiting for the turn of a context ----


def test_who_waits_for_its_context_is_told_where_and_how_long(v1: Api) -> None:
    s = v1.session()
    running = v1.start(s, LOOP, timeout=600)
    v1.wait_output(running, "on")
    first, second = v1.start(s, "1"), v1.start(s, "2")
    assert v1.get(f"/executions/{first}/status")["queue_position"] == 1
    assert v1.get(f"/executions/{second}")["queue_position"] == 2
    seen = time.monotonic()
    assert v1.post(f"/executions/{first}/cancel")["metrics"]["queue_ms"] > 0
    assert v1.get(f"/executions/{second}")["queue_position"] == 1
    waited = (time.monotonic() - seen) * 1000
    assert v1.post(f"/executions/{running}/cancel")["status"] == "cancelled"
    v1.wait_status(second, "completed")
    done = v1.get(f"/executions/{second}").body
    assert done["queue_position"] is None and done["metrics"]["queue_ms"] >= waited


# ---- cancel ----


@pytest.mark.parametrize("mode", ["persistent", "ephemeral"])
def test_cancel_of_a_running_execution(v1: Api, mode: str) -> None:
    s = v1.session(mode=mode)
    x = v1.start(s, LOOP, timeout=600)
    v1.wait_output(x, "on")
    answer = v1.post(f"/executions/{x}/cancel")
    assert answer.status == 200 and answer["status"] == "cancelled"
    assert answer["stdout"] == "on\n" and answer["completed_at"] is not None
    again = v1.post(f"/executions/{x}/cancel")
    assert again.status == 200 and again.body == answer.body
    if mode == "persistent":
        assert v1.run(s, "1 + 1")["return_value"] == 2


def test_cancel_loses_the_variables_of_its_context_only(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 5\nopen('kept', 'w').write('yes')")
    other = v1.post(f"/sessions/{s}/contexts/0/branch")["context_id"]
    running = v1.start(s, LOOP, timeout=600)
    v1.wait_output(running, "on")
    assert v1.post(f"/executions/{running}/cancel")["status"] == "cancelled"
    assert v1.run(s, "'x' in globals()")["return_value"] is False
    assert v1.run(s, "open('kept').read()")["return_value"] == "yes"
    assert v1.run(s, "x", context_id=other)["return_value"] == 5


@pytest.mark.parametrize("how", ["cancelled", "timeout"])
def test_code_that_is_taken_in_part_only(v1: Api, how: str) -> None:
    """The interpreter is stopped and its socket too small: no later cell may find half of
    another.
    """
    s = v1.session()
    pid = v1.run(s, "import os; os.getpid()")["return_value"]
    other = v1.post(f"/sessions/{s}/contexts/0/branch")["context_id"]
    v1.run(s, f"import os, signal; os.kill({pid}, signal.SIGSTOP)", context_id=other)
    x = v1.start(s, f"#{'a' * 900_000}", timeout=600 if how == "cancelled" else 1)
    if how == "cancelled":
        v1.wait_status(x, "running")
        v1.post(f"/executions/{x}/cancel")
    v1.wait_status(x, how)
    assert v1.run(s, "1 + 1")["return_value"] == 2
    assert v1.run(s, "2 + 2", context_id=other)["return_value"] == 4


def test_cancel_of_a_command_kills_its_children(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, command="echo on; (sleep 1000 & sleep 1000)", timeout=600)
    v1.wait_output(x, "on")
    assert v1.post(f"/executions/{x}/cancel")["status"] == "cancelled"
    seen = v1.run(s, command="for f in /proc/[0-9]*/comm; do cat $f; done; true")
    assert "sleep" not in seen["stdout"].split()


def test_cancel_of_a_queued_execution(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "ran = False")
    running = v1.start(s, LOOP, timeout=600)
    v1.wait_output(running, "on")
    queued = v1.start(s, "ran = True")
    assert v1.get(f"/executions/{queued}/status")["status"] == "pending"
    answer = v1.post(f"/executions/{queued}/cancel")
    assert answer["status"] == "cancelled" and answer["started_at"] is None
    assert answer["error"] is None and answer["exit_code"] == 130
    assert answer["termination"]["cause"] == "signal"
    assert answer["termination"]["detail"] == "cancelled by the caller before it began"
    assert v1.get(f"/executions/{running}/status")["status"] == "running"
    assert v1.post(f"/executions/{running}/cancel")["status"] == "cancelled"


def test_cancel_keeps_what_is_over(v1: Api) -> None:
    s = v1.session()
    done = v1.run(s, "5")
    assert v1.post(f"/executions/{done['id']}/cancel").body == done


# ---- executions that are not there ----

ROUTES = [
    ("GET", ""),
    ("GET", "/status"),
    ("GET", "/result"),
    ("GET", "/events"),
    ("POST", "/cancel"),
]


@pytest.mark.parametrize("method,tail", ROUTES)
def test_unknown_execution(v1: Api, method: str, tail: str) -> None:
    answer = v1.call(method, f"/executions/exec_unknown{tail}")
    check_error(answer, 404, "ExecutionNotFound", "exec_unknown")


@pytest.mark.parametrize("method,tail", ROUTES)
def test_ids_that_are_none(v1: Api, method: str, tail: str) -> None:
    check_bad_ids(v1, method, "/executions/{}" + tail)


# ---- withdraw ----


def test_what_is_withdrawn_while_it_waits_never_begins(v1: Api) -> None:
    s = v1.session()
    running = v1.start(s, "ran = 1; import time; time.sleep(600)", timeout=600)
    v1.wait_status(running, "running")
    queued = v1.post(f"/sessions/{s}/execute", {"code": "ran = 2"}, key="waits")
    answer = v1.post(f"/sessions/{s}/withdraw", key="waits")
    assert answer.status == 200, answer
    assert answer["execution_id"] == queued["execution_id"] and answer["status"] == "cancelled"
    v1.post(f"/sessions/{s}/interrupt")
    v1.wait_status(running, "failed")
    assert v1.get(f"/executions/{queued['execution_id']}")["started_at"] is None
    assert v1.run(s, "ran")["return_value"] == 1


def test_a_request_that_is_withdrawn_before_it_came_is_refused(v1: Api) -> None:
    s = v1.session()
    for _ in range(2):
        answer = v1.post(f"/sessions/{s}/withdraw", key="early")
        assert answer.status == 200, answer
        assert answer["execution_id"] is None and answer["status"] is None
    late = v1.post(f"/sessions/{s}/execute-sync", {"code": "ran = 1"}, key="early")
    check_error(late, 409, "Conflict", "Idempotency-Key")
    assert v1.run(s, "'ran' in globals()")["return_value"] is False
    other = v1.session()  # keys belong to one session
    assert v1.post(f"/sessions/{other}/execute-sync", {"code": "1"}, key="early").status == 200


def test_a_cell_that_runs_and_is_withdrawn_keeps_its_variables(v1: Api) -> None:
    s = v1.session()
    body = {
        "code": "kept = 5; print('in', flush=True); import time; time.sleep(600)",
        "timeout": 600,
    }
    x = str(v1.post(f"/sessions/{s}/execute", body, key="runs")["execution_id"])
    v1.wait_output(x, "in")
    assert v1.post(f"/sessions/{s}/withdraw", key="runs")["execution_id"] == x
    v1.wait_status(x, "failed")
    assert v1.run(s, "kept")["return_value"] == 5
    assert v1.post(f"/sessions/{s}/withdraw", key="runs")["status"] == "failed"


@pytest.mark.parametrize("mode", ["persistent", "ephemeral"])
def test_a_command_that_is_withdrawn_is_cancelled(v1: Api, mode: str) -> None:
    s = v1.session(mode=mode)
    body = {"command": "echo in; sleep 600", "timeout": 600}
    x = str(v1.post(f"/sessions/{s}/execute", body, key="runs")["execution_id"])
    v1.wait_output(x, "in")
    assert v1.post(f"/sessions/{s}/withdraw", key="runs")["status"] == "cancelled"


def test_withdraw_needs_a_key_and_a_session(v1: Api) -> None:
    check_error(v1.post(f"/sessions/{v1.session()}/withdraw"), 422, "InvalidParameter")
    check_error(v1.post("/sessions/nobody/withdraw", key="k"), 404, "SessionNotFound")
