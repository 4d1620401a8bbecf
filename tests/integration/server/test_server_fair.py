# SPDX-License-Identifier: Apache-2.0
"""Which runs get a place: code that sleeps leaves its own to others, and each client has its part.

Two clients: what comes over TCP from loopback is one, the user on the unix socket is another.
"""
from __future__ import annotations

from typing import Any

from husk_server import Server
from v1_client import Api

PLACES = 4
SLEEPS = "import time\ntime.sleep(600)"
# Uses a processor until there is a file `go`.
WORKS = "import os\nwhile not os.path.exists('go'): pass\n"


def test_sleepers_leave_their_places_to_others() -> None:
    with Server.run("--max-executions", str(PLACES)) as server:
        api = Api(server.port)
        sleepers = [api.start(api.session(), SLEEPS, timeout=600) for _ in range(3 * PLACES)]
        other = api.session()
        for i in range(5):
            assert api.run(other, f"{i} + 1")["return_value"] == i + 1
        assert server.post("/run", {"code": "print(7)"}).json["stdout"] == "7\n"
        for x in sleepers:  # all of them sleep at the same time, in four places
            api.wait_status(x, "running")
        assert api.run(other, "'beside them all'")["return_value"] == "beside them all"
        figures = api.get("/pool").body
        assert figures["queue"] == 0


def test_a_client_gets_in_though_another_has_taken_all_places() -> None:
    with Server.run("--max-executions", str(PLACES), "--queue-length", "8") as server:
        greedy = Api(server.port)
        working = [greedy.start(greedy.session(), WORKS, timeout=600) for _ in range(PLACES)]
        for x in working:
            greedy.wait_status(x, "running")
        waiting = [greedy.start(greedy.session(), WORKS, timeout=600) for _ in range(8)]
        full = greedy.post(f"/sessions/{greedy.session()}/execute", {"code": "1"})
        assert full.status == 429 and "queue_length" in full["error_detail"]

        for i in range(5):
            polite = server.over_socket("POST", "/run", {"code": f"print({i})"})
            assert polite.status == 200 and polite.json["stdout"] == f"{i}\n"
        state: dict[str, Any] = {x: greedy.get(f"/executions/{x}/status").body for x in waiting}
        assert {s["status"] for s in state.values()} == {"pending"}, "they wait all the time"
        assert [s["queue_position"] for s in state.values()] == list(range(1, 9))
