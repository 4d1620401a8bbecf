# SPDX-License-Identifier: Apache-2.0
"""Served agents as clients see them: answers, streams, errors, MCP. What goes wrong in workers is
in test_agents_faults.py.
"""
from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest
from agents_project import Agent, Project, events
from waiting import wait_until

DONE = '{"type": "done"}'


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    plain = {"streams": ["text"], "chat": False}
    agents = [
        Agent("echo", settings={"max_in_flight": 64}),
        Agent("plain", prefix="/bots/plain", settings=plain),
        Agent("tools", kind="mcp"),
    ]
    failed = [{"file": "/elsewhere/broken.py", "error": "E: no", "traceback": "T"}]
    with Project.serve(*agents, failed=failed) as running:
        yield running


# ---- whole answers ----


def test_answers_with_and_without_a_slash(project: Project) -> None:
    for path in ("/agents/echo", "/agents/echo/"):
        answer = project.server.post(path, {"query": "echo hi"})
        assert answer.status == 200
        assert answer.json == {"response": "hi", "session_id": "default"}
        assert answer.headers["Content-Type"] == "application/json"


def test_the_session_and_odd_text_pass_both_ways(project: Project) -> None:
    text = 'a"b\\c\u0001\n\u20ac\U0001f600</script>'
    answer = project.post("echo", "echo " + text, session_id='s"\u20ac')
    assert answer.json == {"response": text, "session_id": 's"\u20ac'}


def test_the_worker_gets_the_fields_and_no_others(project: Project) -> None:
    answer = project.post("echo", "fields", session_id="s", more=1)
    assert json.loads(answer.json["response"]) == {
        "query": "fields",
        "session_id": "s",
        "stream": False,
    }


def test_a_large_answer_is_whole(project: Project) -> None:
    text = "x" * (3 << 20)
    assert project.ask("echo", "echo " + text) == text


def test_chat(project: Project) -> None:
    answer = project.server.post("/agents/echo/chat", {"data": {"a": [1, None]}})
    assert answer.status == 200
    assert answer.json == {"result": {"got": {"a": [1, None]}}, "session_id": "default"}
    refused = project.server.post("/bots/plain/chat", {"data": {}})
    assert refused.status == 404


def test_an_exception_is_500_with_its_text(project: Project) -> None:
    answer = project.post("echo", "raise division by zero")
    assert answer.status == 500
    assert answer.json == {"detail": "division by zero"}
    assert project.post("echo", "raise ").json == {"detail": "ValueError"}


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_the_worker_chooses_among_four_statuses(project: Project, status: int) -> None:
    answer = project.post("echo", f"refuse {status}")
    assert answer.status == status
    assert answer.json == {"detail": "no"}


# ---- what is refused before a worker sees it ----


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, ["body", "query"]),
        ({"query": 1}, ["body", "query"]),
        ({"query": "echo", "session_id": None}, ["body", "session_id"]),
        ({"query": "echo", "stream": "tokens"}, ["body", "stream"]),
        ({"query": "echo", "stream": True}, ["body", "stream"]),
        ({"query": "echo", "stream": 1}, ["body", "stream"]),
        ([], ["body"]),
        (b"{", ["body"]),
    ],
)
def test_what_is_not_valid_is_422(project: Project, body: object, place: list[str]) -> None:
    headers = {"Content-Type": "application/json"}
    answer = project.server.post("/agents/echo/", body, headers)
    assert answer.status == 422
    assert answer.json["detail"][0]["loc"] == place
    assert set(answer.json["detail"][0]) == {"loc", "msg", "type"}


def test_a_stream_mode_that_the_agent_lacks_is_400(project: Project) -> None:
    answer = project.post("plain", "tokens []", stream="events")
    assert answer.status == 400
    assert answer.json == {"detail": 'the agent "plain" does not stream "events"'}


@pytest.mark.parametrize("path", ["/agents/helo", "/agents/helo/", "/agents/tools", "/agents/%00"])
def test_unknown_agents_are_404_with_those_that_exist(project: Project, path: str) -> None:
    answer = project.server.post(path, {"query": "x"})
    if path.endswith("%00"):
        assert answer.status in (400, 404)
        return
    assert answer.status == 404
    assert answer.json["detail"].endswith("there are: echo, plain")


def test_other_addresses_and_methods(project: Project) -> None:
    server = project.server
    assert server.get("/agents/echo").status == 405
    assert server.get("/agents/echo/").status == 405
    assert server.get("/bots/plain").headers["Allow"] == "POST"
    assert server.post("/agents/echo/other", {}).status == 404
    assert server.post("/bots", {}).status == 404
    assert server.get("/tools").status == 404
    assert server.get("/tools/mcpx").status == 404


def test_prefixes_and_names_both_work(project: Project) -> None:
    for path in ("/bots/plain", "/bots/plain/", "/agents/plain"):
        answer = project.server.post(path, {"query": "echo me"})
        assert answer.json["response"] == "me"
    assert project.server.get("/bots/plain/health").json["agent"] == "plain"


# ---- streams ----


def test_text_streams_piece_by_piece(project: Project) -> None:
    tokens = ["Hello", " wor\nld", "", "a\r\nb", " \u20ac"]
    answer = project.post("echo", "tokens " + json.dumps(tokens), stream="text")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-store"
    assert events(answer.text) == ["Hello", " wor\nld", "", "a\nb", " \u20ac", DONE]


def test_events_stream_as_they_are(project: Project) -> None:
    said = [
        {"type": "tool_call", "tool": "add", "input": {"a": 10**30}},
        {"type": "tool_result", "tool": "add", "output": 2.5},
        {"type": "text", "content": "4"},
    ]
    answer = project.post("echo", "tokens " + json.dumps(said), stream="events")
    assert [json.loads(e) for e in events(answer.text)] == said + [{"type": "done"}]


def test_a_failure_on_the_way_is_the_last_event(project: Project) -> None:
    answer = project.post("echo", "stumble over it", stream="text")
    assert answer.status == 200
    assert events(answer.text) == ["so far", '{"type": "error", "content": "over it"}']


def test_an_exception_before_the_first_piece_is_an_event_too(project: Project) -> None:
    answer = project.post("echo", "raise at once", stream="text")
    assert answer.status == 200
    assert events(answer.text) == ['{"type": "error", "content": "at once"}']
    assert project.post("echo", "refuse 400", stream="text").status == 400


def test_pieces_arrive_before_the_end(project: Project) -> None:
    connection = project.begin("/agents/echo", {"query": "trickle", "stream": "text"})
    answer = connection.getresponse()
    assert answer.readline() == b"data: x\n"  # it never ends by itself
    connection.close()


def test_who_hangs_up_cancels(project: Project) -> None:
    def is_cancelled(query: str) -> bool:
        return query in json.loads(project.ask("echo", "cancels"))

    for query, stream in (("sleep 3601", False), ("trickle", "text")):
        connection = project.begin("/agents/echo", {"query": query, "stream": stream})
        if stream:
            connection.getresponse().readline()
        else:
            project.wait_until("echo", "in_flight", lambda n: n > 0)
        connection.close()
        wait_until(partial(is_cancelled, query), f"{query} is cancelled")
    project.wait_until("echo", "in_flight", lambda n: n == 0)
    assert project.state("echo")["restarts"] == 0


# ---- health, list, metrics ----


def test_health(project: Project) -> None:
    answer = project.server.get("/agents/echo/health")
    assert answer.status == 200
    assert answer.json == {"status": "healthy", "agent": "echo"}
    assert project.server.get("/tools/health").status == 200
    assert project.server.get("/agents/none/health").status == 404


def test_the_list(project: Project) -> None:
    body = project.server.get("/agents").json
    assert [row["name"] for row in body["agents"]] == ["echo", "plain", "tools"]
    assert body["agents"][1]["streams"] == ["text"]
    assert body["agents"][2]["kind"] == "mcp"
    assert body["failed"] == [{"file": "broken.py", "error": "E: no"}]


def test_metrics(project: Project) -> None:
    def figures() -> dict[str, int]:
        lines = project.server.get("/metrics").text.splitlines()
        return {
            line.split()[0].removesuffix('{agent="echo"}'): int(line.split()[1])
            for line in lines
            if line.startswith("husk_agent_") and '"echo"' in line
        }

    before = figures()
    project.ask("echo", "echo a")
    project.post("echo", "raise b")
    after = figures()
    assert after["husk_agent_requests_total"] - before["husk_agent_requests_total"] == 2
    assert after["husk_agent_errors_total"] - before["husk_agent_errors_total"] == 1
    assert after["husk_agent_ready"] == 1


def test_the_worker_knows_where_it_is(project: Project) -> None:
    assert project.ask("echo", "environment HUSK_AGENT_WORKER") == "echo"
    assert project.ask("echo", "environment HUSK_SOCKET") == str(project.server.socket)


def test_without_a_plan_nothing_is_served() -> None:
    from husk_server import Server

    with Server.run() as server:
        assert server.get("/agents").json == {"agents": [], "failed": []}
        answer = server.post("/agents/echo", {"query": "x"})
        assert answer.status == 404
        assert answer.json == {"detail": 'there is no agent "echo"; none is served'}


# ---- many at once ----


def test_requests_run_at_the_same_time(project: Project) -> None:
    connections = [project.begin("/agents/echo", {"query": "sleep 0.5"}) for _ in range(8)]
    for connection in connections:
        answer = connection.getresponse()
        assert json.loads(answer.read())["response"] == "slept"
        connection.close()
    assert int(project.ask("echo", "most")) >= 8


# ---- MCP ----


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_mcp_passes_every_method(project: Project, method: str) -> None:
    headers = {"X-Mine": "1", "Connection": "keep-alive, X-Hop", "X-Hop": "2", "Accept": "a/b"}
    body = b"\x00\xff{" if method in ("POST", "PUT", "PATCH") else None
    answer = project.server.request(method, "/tools/mcp?a=1&b=%20", body, headers)
    assert answer.status == 202
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["mcp-session-id"] == "abc"
    got = answer.json
    assert (got["method"], got["path"], got["query"]) == (method, "/tools/mcp", "a=1&b=%20")
    assert got["body"].encode("latin-1") == (body or b"")
    sent = {name.lower(): value for name, value in got["headers"]}
    assert sent["x-mine"] == "1" and sent["accept"] == "a/b"
    assert not {"connection", "x-hop", "transfer-encoding"} & set(sent)


def test_mcp_below_its_path_and_by_name(project: Project) -> None:
    assert project.server.get("/tools/mcp/").json["path"] == "/tools/mcp/"
    assert project.server.get("/tools/mcp/a/b").json["path"] == "/tools/mcp/a/b"
    assert project.server.post("/agents/tools/mcp", b"").json["path"] == "/tools/mcp"
    assert project.server.get("/agents/tools/mcp").json["path"] == "/tools/mcp"


def test_mcp_head_has_no_body(project: Project) -> None:
    answer = project.server.request("HEAD", "/tools/mcp")
    assert answer.status == 202 and answer.body == b""


def test_mcp_large_body_in_pieces(project: Project) -> None:
    data = bytes(range(256)) * 40000  # 10 MB: more than waits for a worker at once

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(data), 100000):
            yield data[at : at + 100000]

    connection = project.server.connection()
    connection.request(
        "POST",
        "/tools/mcp",
        pieces(),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    answer = connection.getresponse()
    got = json.loads(answer.read())
    assert got["body"].encode("latin-1") == data
    connection.close()


def test_mcp_may_answer_before_the_body_has_come(project: Project) -> None:
    answer = project.server.post("/tools/mcp/early", b"x" * 100)
    assert answer.status == 413
    assert answer.text == "enough"


def test_mcp_streams_and_is_cancelled(project: Project) -> None:
    connection = project.server.connection()
    connection.request("GET", "/tools/mcp/feed")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    assert answer.readline() == b"data: tick\n"
    connection.close()
    project.wait_until("tools", "in_flight", lambda n: n == 0)


def test_mcp_cannot_split_the_answer(project: Project) -> None:
    answer = project.server.get("/tools/mcp/split")
    assert answer.status == 502
    assert "set-cookie" not in answer.headers


# ---- the end ----


def test_drain_lets_requests_finish() -> None:
    with Project.serve(Agent("echo")) as project:
        connection = project.begin("/agents/echo", {"query": "sleep 1.5"})
        stream = project.begin("/agents/echo", {"query": 'tokens ["a"]', "stream": "text"})
        project.wait_until("echo", "in_flight", lambda n: n > 0)
        project.server.process.terminate()
        assert json.loads(connection.getresponse().read())["response"] == "slept"
        assert events(stream.getresponse().read().decode()) == ["a", DONE]
        assert project.server.process.wait(30) == 0
        project.server.listener.join(30)
        (ended,) = project.server.wait_said("worker_ended")
        assert "exit_code=0" in ended
