# SPDX-License-Identifier: Apache-2.0
"""Many sessions: how many a template may have, what each costs, what is refused and how."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from husk_server import Server
from procfs import below
from v1_client import Answer, Api

PER_SESSION = 10  # descriptors of one process; a launcher on control groups of version 1 has most


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def launcher_of(server: Server) -> int:
    """The first that the supervisor has started, and not one of its own children."""
    found = [p.pid for p in below(server.process.pid) if "launcher" in p.name]
    return min(found)


def create(api: Api, n: int, **body: object) -> list[Answer]:
    with ThreadPoolExecutor(4) as pool:
        return list(
            pool.map(lambda _: api.post("/sessions", {"mode": "persistent", **body}), range(n))
        )


def test_a_template_that_is_not_preloaded_may_have_many_boxes() -> None:
    with Server.run("--session-pool-min", "0", "--session-pool-max", "0") as server:
        api = Api(server.port)
        assert api.post("/templates", {"id": "own"}).status == 201
        made = create(api, 100, template_id="own")  # more than one ward of ids
        assert [a.status for a in made] == [201] * 100
        api.run(made[-1]["id"], "1")


def test_descriptors_of_an_idle_session() -> None:
    with Server.run(
        "--session-pool-min", "0", "--session-pool-max", "0", "--pool-max", "1", "--pool-min", "0"
    ) as server:
        api = Api(server.port)
        pids = {"huskd": server.pid_of_huskd(), "launcher": launcher_of(server)}
        for a in create(api, 5):
            api.run(a["id"], "1")
        before = {name: open_files(pid) for name, pid in pids.items()}
        for a in create(api, 20):
            api.run(a["id"], "1")
        for name, pid in pids.items():
            assert open_files(pid) - before[name] <= 20 * PER_SESSION, name


def test_a_refused_session_leaves_no_record() -> None:
    """There are few files to open: sessions are refused, one-shot runs go on."""
    server = Server(
        "--session-pool-min", "0", "--session-pool-max", "0", "--pool-max", "2", "--pool-min", "0"
    )
    server.before = ("/bin/bash", "-c", 'ulimit -n 4096; exec "$@"', "few-files")
    try:
        server.start()
        api = Api(server.port)
        answers = create(api, 480)
        made = [a for a in answers if a.status == 201]
        refused = [a for a in answers if a.status == 429]
        assert len(made) + len(refused) == 480 and len(made) > 300 and len(refused) > 20
        odd = [a.raw for a in refused if "limit of open files" not in a["error_detail"]]
        assert odd == []
        assert all(int(a.headers["retry-after"]) >= 1 for a in refused)
        assert api.get("/sessions?limit=1")["total"] == len(made)
        assert api.get("/sessions?status=failed")["total"] == 0
        with ThreadPoolExecutor(2) as pool:
            runs = list(pool.map(lambda _: server.post("/run", {"code": "print(1)"}), range(100)))
        assert [r.text for r in runs if r.status != 200] == []
    finally:
        server.remove()
