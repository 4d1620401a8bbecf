# SPDX-License-Identifier: Apache-2.0
"""kill -9 of huskd under load, again and again: every request with a key is answered, its code ran
once, and no end is unknown.

HUSK_TEST_KILLS and HUSK_TEST_SEED repeat a longer run or a certain one.
"""
from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from audit import Audit, Ledger, wait_next_huskd, wait_tree
from husk_server import Server
from v1_client import FINAL, WAITS, Answer, Api
from v1_files import put
from waiting import wait_until

KILLS = int(os.environ.get("HUSK_TEST_KILLS", 12))
SEED = int(os.environ.get("HUSK_TEST_SEED", 18))
CLIENTS = 6

MARK = "open('ran', 'a').write('{key}\\n')\n"  # in the workspace: it outlives the interpreter


@dataclass
class Work:
    """One execution and how it must end. {key} is its key."""

    body: dict[str, Any]
    status: str = "completed"
    stdout: str = ""
    value: str | None = None

    def of(self, key: str) -> Work:
        body = {
            k: v.replace("{key}", key) if isinstance(v, str) else v for k, v in self.body.items()
        }
        return Work(body, self.status, self.stdout.replace("{key}", key), self.value)


KINDS = [
    Work({"code": MARK}),
    Work({"code": MARK + "print('{key}')"}, stdout="{key}\n"),
    Work(
        {
            "code": MARK
            + "import time\nfor i in range(3):\n    print(i, flush=True); time.sleep(.02)"
        },
        stdout="0\n1\n2\n",
    ),
    Work({"command": "echo {key} >> ran; echo {key}"}, stdout="{key}\n"),
    Work({"code": MARK + "input()", "stdin": "{key}"}, value="{key}"),
    Work({"code": MARK + "raise ValueError('{key}')"}, "failed"),
    Work({"code": MARK + "import os\nos._exit(3)"}, "failed"),
    Work({"code": MARK + "import os\nos.kill(os.getpid(), 11)"}, "crashed"),
    Work({"code": MARK + "while True: pass", "timeout": 1}, "timeout"),
]
WEIGHTS = [8, 8, 4, 3, 2, 2, 1, 1, 1]


class Client(threading.Thread):
    """Works in a session of its own, with a few executions in line, until it is told to stop."""

    def __init__(self, server: Server, number: int, seed: int) -> None:
        super().__init__()
        self.server = server
        self.api = Api(server.port)
        self.name = f"c{number}"
        self.chance = random.Random(seed)
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.session = ""
        self.keys: list[str] = []
        self.ends: Counter[str] = Counter()

    def run(self) -> None:
        try:
            self.session = self.insist("POST", "/sessions", {"mode": "persistent"}, self.name)["id"]
            while not self.stop.is_set():
                self.round()
        except BaseException as error:  # shown by the test
            self.error = error

    def insist(self, method: str, path: str, body: Any, key: str) -> Any:
        """Until there is an answer: a connection that breaks says nothing about what happened."""

        def ask() -> Answer | None:
            try:
                return self.api.call(method, path, body, {"Idempotency-Key": key} if key else {})
            except (OSError, http.client.HTTPException):
                return None

        answer = wait_until(ask, f"an answer to {key or path}")
        assert answer.status in (200, 201), (key, answer)
        return answer.body

    def works(self) -> Iterator[tuple[str, Work]]:
        for work in self.chance.choices(KINDS, WEIGHTS, k=self.chance.randrange(1, 5)):
            key = f"{self.name}-{len(self.keys)}"
            self.keys.append(key)
            yield key, work.of(key)

    def round(self) -> None:
        """Some in line, and the last one waited for."""
        works = list(self.works())
        started = []
        for key, work in works[:-1]:
            answer = self.insist("POST", f"/sessions/{self.session}/execute", work.body, key)
            started.append((answer["execution_id"], key, work))
        key, work = works[-1]
        over = self.insist("POST", f"/sessions/{self.session}/execute-sync", work.body, key)
        started.append((over["execution_id"], key, work))
        for execution, key, work in started:
            self.check(self.wait(execution), key, work)

    def wait(self, execution: str) -> Any:
        def look() -> Any:
            result = self.insist("GET", f"/executions/{execution}", None, "")
            return result if result["status"] in FINAL else None

        return wait_until(look, f"{execution} is over")

    def check(self, result: Any, key: str, work: Work) -> None:
        self.ends[result["status"]] += 1
        seen = (result["status"], result["stdout"], result["value"] if work.value else None)
        value = repr(key) if work.value else None
        assert seen == (work.status, work.stdout, value), json.dumps([key, work.body, result])

    def ran(self) -> list[str]:
        return str(self.api.run(self.session, "print(open('ran').read())")["stdout"]).split()


def work_and_kill(server: Server, kills: int, seed: int) -> list[Client]:
    chance = random.Random(seed)
    clients = [Client(server, i, chance.randrange(1 << 32)) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 0.6))  # a moment of the load, not a wait for something
        if any(client.error is not None for client in clients):
            break
        old = wait_tree(server)
        os.kill(old.huskd, signal.SIGKILL)
        wait_next_huskd(server, old)
        if chance.random() < 0.8:  # else the next one dies on its way
            server.wait_ready()
    server.wait_ready()
    for client in clients:
        client.stop.set()
    for client in clients:
        client.join(180)
    return clients


def test_no_end_is_unknown() -> None:
    print(f"{KILLS} kills, seed {SEED}")
    # Fewer places than clients: some executions wait for one, others for those before them.
    with Server.run("--max-executions", "4") as server:
        clients = work_and_kill(server, KILLS, SEED)
        errors = [c.error for c in clients if c.error is not None]
        assert errors == [], "\n".join([*map(str, errors), server.output])
        ends: Counter[str] = sum((c.ends for c in clients), Counter())
        print(dict(ends))
        assert set(ends) <= {"completed", "failed", "crashed", "timeout"}
        for client in clients:
            assert sorted(client.ran()) == sorted(client.keys), "each ran once"
        Audit(server).check(Ledger(sessions={c.session for c in clients}))


def kill(server: Server, *more: int) -> None:
    """huskd, and with it other processes of the server."""
    old = wait_tree(server)
    for pid in (old.huskd, *more):
        os.kill(pid, signal.SIGKILL)
    wait_next_huskd(server, old)
    server.wait_ready()


def test_what_waits_in_line_keeps_its_place() -> None:
    """Also while one huskd after the other is killed."""
    with Server.run("--max-executions", "1", "--queue-timeout", "1m") as server:
        api = Api(server.port)
        sessions = [api.session() for _ in range(3)] + [api.session(mode="ephemeral")]
        first = api.start(sessions[0], WAITS)
        api.wait_status(first, "running")
        mark = "print(open('ran', 'a').write('x'))"
        line = [
            api.start(sessions[1], mark),
            api.start(sessions[3], mark),
            api.post(f"/sessions/{sessions[2]}/execute", {"command": "echo x | tee -a ran"})[
                "execution_id"
            ],
            api.start(sessions[2], mark),
        ]
        for _ in range(2):
            kill(server)
            assert [api.get(f"/executions/{x}/status")["queue_position"] for x in line] == [
                1,
                2,
                3,
                4,
            ]
        put(api, sessions[0], "go")
        for execution in [first, *line]:
            api.wait_status(execution, "completed")
        over = [api.get(f"/executions/{x}") for x in line]
        assert [x["stdout"] for x in over] == ["1\n", "1\n", "x\n", "1\n"]
        assert [x["started_at"] for x in over] == sorted(x["started_at"] for x in over)
        for session, ran in ((sessions[1], b"x"), (sessions[2], b"x\nx")):
            assert api.get(f"/sessions/{session}/files/ran").raw == ran
        Audit(server).check(Ledger(accepted={first, *line}))


def test_what_was_in_line_of_another_launcher_does_not_run() -> None:
    """Whether it was sent to one of its boxes cannot be known."""
    with Server.run("--max-executions", "1", "--queue-timeout", "1m") as server:
        api = Api(server.port)
        sessions = [api.session(), api.session()]
        first = api.start(sessions[0], WAITS)
        api.wait_status(first, "running")
        line = api.start(sessions[1], "open('ran', 'a').write('x')")
        kill(server, wait_tree(server).launcher)
        for execution in (first, line):
            api.wait_status(execution, "lost")
        assert api.run(sessions[1], "import os; os.path.exists('ran')")["value"] == "False"
        Audit(server).check(Ledger(accepted={first, line}))
