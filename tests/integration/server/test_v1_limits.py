# SPDX-License-Identifier: Apache-2.0
"""What /api/v1 answers when the server is full: 429, places in the queue, and work again
afterwards.
"""
from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from husk_server import Server
from v1_client import Answer, Api, check_error
from waiting import wait_until

LOOP = "print('on', flush=True)\nwhile True: pass"


@pytest.fixture(scope="module")
def small() -> Iterator[Api]:
    flags = ["--max-sessions", "4", "--max-executions", "1", "--queue-length", "1"]
    with Server.run(*flags) as running:
        yield Api(running.port)


@pytest.fixture
def v1(small: Api) -> Iterator[Api]:
    yield small
    while small.made:
        small.call("DELETE", f"/sessions/{small.made.pop()}")


def check_full(answer: Answer) -> None:
    check_error(answer, 429, "TooManyRequests")
    assert int(answer.headers["retry-after"]) >= 1


def test_more_sessions_than_allowed(v1: Api) -> None:
    sessions = [v1.session() for _ in range(4)]
    check_full(v1.post("/sessions", {"mode": "persistent"}))
    assert v1.get("/sessions?status=running")["total"] == 4
    v1.post(f"/sessions/{sessions[0]}/terminate")
    assert v1.run(v1.session(), "1 + 1")["return_value"] == 2


def test_more_templates_than_allowed() -> None:
    """Only new ones are refused: what is there can be changed, and gone ones make room."""
    with Server.run("--max-templates", "2") as server:
        api = Api(server.port)
        assert [api.post("/templates", {"id": name}).status for name in ("a", "b")] == [201, 201]
        full = api.post("/templates", {"id": "c"})
        check_full(full)
        assert "max_templates" in full["error_detail"], full.raw
        assert api.call("GET", "/templates/c").status == 404
        assert not list(server.store.glob("templates/c.*"))
        assert api.call("PUT", "/templates/a", {"default_timeout": 60}).status == 200
        assert api.call("DELETE", "/templates/b").status == 204
        assert api.post("/templates", {"id": "c"}).status == 201
        assert api.run(api.session(template_id="c"), "1 + 1")["return_value"] == 2


def test_more_executions_than_allowed(v1: Api) -> None:
    sessions = [v1.session() for _ in range(3)]
    first = v1.start(sessions[0], LOOP, timeout=600)
    v1.wait_output(first, "on")
    second = v1.start(sessions[1], "'its turn came'", timeout=60)
    waiting = v1.get(f"/executions/{second}/status")
    assert waiting["status"] == "pending" and waiting["queue_position"] == 1
    assert v1.get("/pool")["queue"] == 1
    for route in ("execute", "execute-sync", "execute-stream"):
        check_full(v1.post(f"/sessions/{sessions[2]}/{route}", {"code": "1"}))
    assert v1.get(f"/sessions/{sessions[2]}/executions")["total"] == 0
    assert v1.post(f"/executions/{first}/cancel")["status"] == "cancelled"
    v1.wait_status(second, "completed")
    assert v1.get(f"/executions/{second}")["return_value"] == "its turn came"
    assert v1.run(sessions[2], "3")["return_value"] == 3


def test_cancel_in_the_queue_frees_the_place(v1: Api) -> None:
    a, b, c = (v1.session() for _ in range(3))
    running = v1.start(a, LOOP, timeout=600)
    v1.wait_output(running, "on")
    waiting = v1.start(b, "1")
    assert v1.post(f"/executions/{waiting}/cancel")["status"] == "cancelled"
    third = v1.start(c, "'after'")
    v1.post(f"/executions/{running}/cancel")
    v1.wait_status(third, "completed")


def test_waiting_for_a_neighbour_counts_as_waiting(v1: Api) -> None:
    s = v1.session()
    running = v1.start(s, LOOP, timeout=600)
    v1.wait_output(running, "on")
    behind = v1.start(s, "'its turn came'", timeout=60)
    check_full(v1.post(f"/sessions/{s}/execute", {"code": "1"}))
    assert v1.post(f"/executions/{running}/cancel")["status"] == "cancelled"
    v1.wait_status(behind, "completed")
    assert v1.run(s, "3")["return_value"] == 3


def test_places_follow_the_settings_at_once() -> None:
    server = Server()
    settings = server.folder / "husk.conf"
    server.flags = ("--config", str(settings))

    def set_places(places: int, line: int, times: int) -> None:
        settings.write_text(f"max_executions = {places}\nqueue_length = {line}\n")
        if times > 0:
            os.kill(server.pid_of_huskd(), signal.SIGHUP)
            server.wait_said("settings_read", times)

    try:
        set_places(1, 1, 0)
        server.start()
        api = Api(server.port)
        a, b, c = (api.session() for _ in range(3))
        first = api.start(a, LOOP, timeout=600)
        api.wait_output(first, "on")
        second = api.start(b, LOOP, timeout=600)
        check_full(api.post(f"/sessions/{c}/execute", {"code": "1"}))
        set_places(2, 0, 1)
        api.wait_output(second, "on")  # it need not wait for the other one's end
        check_full(api.post(f"/sessions/{c}/execute", {"code": "1"}))
        set_places(1, 2, 2)
        third = api.start(c, "'its turn came'", timeout=60)
        assert api.post(f"/executions/{first}/cancel")["status"] == "cancelled"
        api.wait_status(first, "cancelled")
        assert api.get(f"/executions/{third}/status")["queue_position"] == 1
        api.post(f"/executions/{second}/cancel")
        api.wait_status(third, "completed")
    finally:
        server.remove()


def test_pools_follow_the_settings() -> None:
    server = Server()
    settings = server.folder / "husk.conf"
    server.flags = ("--config", str(settings))
    keys = ("pool_min", "pool_max", "session_pool_min", "session_pool_max", "se_pool")

    def set_sizes(*sizes: int) -> None:
        lines = [f"{key} = {size}" for key, size in zip(keys, sizes)]
        settings.write_text("\n".join(["pool_idle = 1s", *lines, ""]))

    def pools() -> list[tuple[str, int, int, int]]:
        found = [p for p in api.get("/pool")["pools"] if p["template_id"] == "python"]
        return sorted((p["mode"], p["min"], p["max"], p["size"]) for p in found)

    try:
        set_sizes(1, 4, 2, 2, 0)
        server.start()
        api = Api(server.port)
        wait_until(lambda: pools() == [("ephemeral", 1, 4, 1), ("persistent", 2, 2, 2)], "small")
        set_sizes(3, 3, 0, 1, 1)
        os.kill(server.pid_of_huskd(), signal.SIGHUP)
        server.wait_said("settings_read")
        now = [("ephemeral", 1, 3, 1), ("ephemeral", 3, 3, 3), ("persistent", 0, 1, 0)]
        wait_until(lambda: pools() == now, "as they are set now")
    finally:
        server.remove()


class FewFiles(Server):
    """Its limits are those that a caller may have left."""

    before = ("/bin/sh", "-c", 'ulimit -S -n 256; ulimit -H -n 1024; exec "$@"', "sh")


def test_sessions_until_there_are_no_files_left() -> None:
    """The launcher has the same limit, needs more, and says no while the daemon can still go on."""
    with FewFiles.run() as server:
        api = Api(server.port)
        made: list[str] = []
        answer = api.post("/sessions", {"mode": "persistent"})
        while answer.status == 201 and len(made) < 200:
            made.append(answer["id"])
            assert api.run(made[-1], "x = 1; x")["return_value"] == 1
            answer = api.post("/sessions", {"mode": "persistent"})
        check_error(answer, 429, "TooManyRequests", "LimitNOFILE")
        assert len(made) > 30, "only the hard limit counts"
        assert [api.run(s, "x")["return_value"] for s in made] == [1] * len(made)
        assert "daemon_ended" not in server.output
