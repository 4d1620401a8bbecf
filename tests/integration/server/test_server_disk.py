# SPDX-License-Identifier: Apache-2.0
"""The disk of the data folder has no room: writes are refused in words, reads go on, and all is
well once there is room again.
"""
from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from audit import Audit, Ledger, kill_boxes, wait_next_huskd, wait_tree
from disk_faults import (
    fill,
    fill_inodes,
    kill_and_wait,
    names_in,
    new_template,
    small_disk,
    until_refused,
    wait_successor,
    wait_taken,
)
from husk_server import Server
from v1_client import WAITS, Api, check_error
from v1_files import put
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")

LARGE = 400_000  # bytes: more than the log of the store has room for without growing


class Scene:
    """A server with something of everything, all of it acknowledged."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.api = Api(server.port)
        self.audit = Audit(server)
        self.session = self.api.session()
        self.counted = 0  # executions that were acknowledged and add one to `count`
        self.ledger = Ledger(sessions={self.session})
        self.ledger.saw(self.api.run(self.session, "kept = 'before'\ncount = 0"))
        self.upload("before.bin", os.urandom(5000))
        assert self.api.post("/templates", new_template("mine")).status == 201
        self.template = self.api.get("/templates/mine").body

    def upload(self, path: str, data: bytes) -> None:
        assert put(self.api, self.session, path, data).status == 201
        self.ledger.files[self.session, path] = data

    def changes(self) -> list[tuple[str, str, Any]]:
        """Everything that needs the disk before it is answered."""
        below = f"/sessions/{self.session}"
        return [
            ("POST", "/sessions", {"mode": "persistent"}),
            ("POST", "/sessions", {"mode": "ephemeral"}),
            ("POST", f"{below}/execute", {"code": "count += 1"}),
            ("POST", f"{below}/execute-sync", {"code": "count += 1"}),
            *self.template_changes(),
        ]

    def template_changes(self) -> list[tuple[str, str, Any]]:
        return [
            ("POST", "/templates", new_template("another")),
            ("PUT", "/templates/mine", {"default_memory_mb": 256}),
        ]

    def check_refused(self, changes: list[tuple[str, str, Any]]) -> None:
        for method, path, body in changes:
            answer, taken = until_refused(self.api, method, path, body)
            check_error(answer, 503, "DiskFull")
            assert "retry-after" in answer.headers, answer
            for one in taken:
                self.note(path, one)

    def note(self, path: str, answer: Any) -> None:
        """It was acknowledged."""
        if path == "/sessions":
            self.ledger.sessions.add(answer["id"])
        elif "/execute" in path:
            self.ledger.accepted.add(answer["execution_id"])
            self.counted += 1

    def check_reads(self, ready: int) -> None:
        """ready: the status of a readiness probe."""
        self.audit.check_health()
        self.audit.check_ledger(self.ledger)
        wait_until(lambda: self.server.get("/api/v1/health/ready").status == ready, "it is seen")
        reason = self.server.get("/api/v1/health/ready").json["reason"]
        assert reason is None if ready == 200 else "disk" in reason
        items = self.api.get(f"/sessions/{self.session}/executions")["items"]
        assert {item["id"] for item in items} >= self.ledger.accepted
        assert self.api.get("/templates/mine").body == self.template
        assert self.api.get("/templates/another").status == 404

    def check_works_again(self) -> None:
        below = f"/sessions/{self.session}"
        self.ledger.saw(wait_taken(self.api, "POST", f"{below}/execute-sync", {"code": "1"}).body)
        self.server.wait_ready()
        assert self.api.run(self.session, "kept")["value"] == "'before'"
        for method, path, body in self.changes():
            answer = self.api.call(method, path, body)
            assert answer.status in (200, 201), (path, answer)
            self.note(path, answer)
        assert self.api.get("/templates/another").status == 200
        assert self.api.get("/templates/mine")["default_memory_mb"] == 256
        self.audit.check(self.ledger)


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_full_disk(kind: str) -> None:
    with small_disk("size=24m", kind=kind) as server:
        scene = Scene(server)
        filler = fill(server.data)
        scene.check_refused(scene.changes())
        scene.upload("meanwhile.bin", os.urandom(5000))  # the workspace is in the box's memory
        scene.check_reads(503)
        assert server.post("/run", {"code": "print(1)"}).json["stdout"] == "1\n"  # no record

        if kind == "tmpfs":
            kill_and_wait(server)
            scene.check_refused(scene.changes())
            scene.check_reads(503)
            filler.unlink()
        else:  # the index of the log may not fit: then it serves once there is room
            old = wait_tree(server)
            os.kill(old.huskd, signal.SIGKILL)
            wait_next_huskd(server, old)
            filler.unlink()
            wait_successor(server, old)
        ended = {line.split()[3] for line in server.lines if " daemon_ended " in line}
        assert ended <= {
            f"status={signal.SIGKILL};",
            "status=256;",
        }, "by us, or by its own decision"
        scene.check_works_again()
        # An execute-sync may run before its record fails, once in each round; all others run only
        # if taken.
        assert scene.counted <= int(scene.api.run(scene.session, "count")["value"])
        assert int(scene.api.run(scene.session, "count")["value"]) <= scene.counted + 2
        assert server.stop() == 0
        server.start()
        Audit(server).check(scene.ledger)


def creating(api: Api) -> int:
    return int(api.get("/sessions?status=creating")["total"])


def test_full_disk_and_a_session_that_is_being_made() -> None:
    """Neither that it runs nor that it failed can be recorded: it is refused, and made when it is
    asked for again.
    """
    flags = ("--session-pool-min", "0", "--session-pool-max", "0")
    with small_disk("size=24m", *flags) as server:
        api = Api(server.port)
        audit = Audit(server)
        body = {
            "mode": "persistent",
            "agent_id": "somebody",
            "env_vars": {f"V{i}": "x" * 4000 for i in range(100)},
        }
        answers: list[Any] = []

        def ask() -> None:
            answers.append(api.post("/sessions", body, key="made-once"))

        clients = [threading.Thread(target=ask) for _ in range(3)]
        tree = wait_tree(server)
        os.kill(tree.launcher, signal.SIGSTOP)
        try:
            for client in clients:
                client.start()
            wait_until(lambda: creating(api) == 1, "it is begun")
            filler = fill(server.data)
        finally:
            os.kill(tree.launcher, signal.SIGCONT)
        for client in clients:
            client.join()
        ask()
        for answer in answers:
            check_error(answer, 503, "DiskFull")
        assert server.pid_of_huskd() == tree.huskd
        filler.unlink()
        made = wait_taken(api, "POST", "/sessions", body, key="made-once")
        assert made["status"] == "running"
        assert api.post("/sessions", body)["id"] == made["id"], "it is the agent's"
        assert api.run(made["id"], "6 * 7")["value"] == "42"
        audit.check(Ledger(sessions={made["id"]}))


def test_full_disk_and_the_end_of_an_ephemeral_session() -> None:
    """The successor of a killed daemon cannot record that it is over: it does so when there is
    room.
    """
    with small_disk("size=24m") as server:
        api = Api(server.port)
        body = {f"V{i}": "x" * 4000 for i in range(100)}
        session = api.session(mode="ephemeral", env_vars=body)
        execution = api.start(session, "print('on', flush=True)\nwhile True: pass")
        api.wait_output(execution, "on")
        filler = fill(server.data)
        kill_and_wait(server)
        assert api.get(f"/sessions/{session}")["status"] == "running"
        filler.unlink()
        api.wait_status(execution, "lost")
        wait_until(
            lambda: str(api.get(f"/sessions/{session}")["status"]) == "completed",
            "its end is recorded",
        )
        Audit(server).check(Ledger(sessions={session}, accepted={execution}))


def test_full_disk_and_a_cell_under_way() -> None:
    """What it writes while there is no room is seen, and is on the disk as soon as there is
    room.
    """
    with small_disk("size=24m") as server:
        scene = Scene(server)
        api = scene.api
        execution = api.start(
            scene.session,
            f"print('first', flush=True)\n{WAITS}print('x' * {LARGE})\nprint('last', flush=True)",
        )
        scene.ledger.accepted.add(execution)
        api.wait_output(execution, "first\n")
        spool = server.store / "spool" / f"{execution}.out"
        assert spool.read_text() == "first\n"
        filler = fill(server.data)
        put(api, scene.session, "go", b"")
        api.wait_output(execution, "last\n")
        server.wait_said("result_not_recorded")
        assert api.get(f"/executions/{execution}")["stdout"] == f"first\n{'x' * LARGE}\nlast\n"
        filler.unlink()
        api.wait_status(execution, "completed")
        scene.ledger.saw(api.get(f"/executions/{execution}").body)
        kill_and_wait(server)
        scene.audit.check(scene.ledger)


def test_output_of_a_full_time_is_spooled_later() -> None:
    """More than fits, then room, then a kill: no byte of it is missing."""
    lines = 40_000  # 320 KB: more than the pages that the files have already
    code = (
        f"print('on', flush=True)\n{WAITS}"
        f"for i in range({lines}): print('%07d' % i)\n"
        "print('written', flush=True)\n"
        "while not os.path.exists('end'): time.sleep(0.02)\n"
    )
    expected = "on\n" + "".join(f"{i:07}\n" for i in range(lines)) + "written\n"
    with small_disk("size=24m") as server:
        api = Api(server.port)
        session = api.session()
        execution = api.start(session, code, timeout=60)
        api.wait_output(execution, "on\n")
        filler = fill(server.data)
        put(api, session, "go", b"")
        api.wait_output(execution, "written\n")
        server.wait_said("output_not_spooled")
        filler.unlink()
        spool = server.store / "spool" / f"{execution}.out"
        wait_until(lambda: spool.read_text() == expected, "the file has caught up")
        kill_and_wait(server)
        put(api, session, "end", b"")
        api.wait_status(execution, "completed")
        assert api.get(f"/executions/{execution}")["stdout"] == expected


def test_killed_on_a_full_disk_with_runs_that_nobody_can_finish() -> None:
    """They are lost, but that cannot be recorded yet: it is, once there is room, with the output
    that was seen.
    """
    with small_disk("size=24m") as server:
        api = Api(server.port)
        audit = Audit(server)
        session = api.session(mode="ephemeral")
        code = "import time\nprint('seen', flush=True)\ntime.sleep(600)"
        execution = api.start(session, code, timeout=600)
        api.wait_output(execution, "seen\n")
        filler = fill(server.data)
        until_refused(api, "POST", "/sessions", {"mode": "ephemeral"})
        kill_and_wait(server)
        server.wait_said("execution_not_settled")
        assert api.get(f"/executions/{execution}").status == 200
        filler.unlink()
        wait_until(
            lambda: str(api.get(f"/executions/{execution}")["status"]) == "lost",
            "its end is recorded by itself",
        )
        assert api.get(f"/executions/{execution}")["stdout"] == "seen\n"
        audit.check()


def test_no_inodes() -> None:
    """Records need no new file, templates and copies of workspaces do."""
    with small_disk("size=24m,nr_inodes=200") as server:
        scene = Scene(server)
        fillers = fill_inodes(server.data)
        scene.check_refused(scene.template_changes())
        scene.check_reads(200)
        execution = scene.api.run(scene.session, "print('out'); 6 * 7")
        assert (execution["stdout"], execution["value"]) == ("out\n", "42")
        scene.ledger.saw(execution)
        scene.ledger.accepted.add(scene.api.start(scene.session, "print('out')"))
        scene.ledger.sessions.add(scene.api.session())
        scene.upload("meanwhile.bin", os.urandom(5000))
        server.wait_said("workspace_not_saved")

        kill_and_wait(server)
        scene.check_refused(scene.template_changes())
        scene.check_reads(200)

        for filler in fillers:
            filler.unlink()
        scene.check_works_again()
        assert server.stop() == 0
        server.start()
        Audit(server).check(scene.ledger)


def test_a_refused_execution_does_not_spend_its_session() -> None:
    """An ephemeral session still has its execution."""
    with small_disk("size=24m") as server:
        api = Api(server.port)
        session = api.session(mode="ephemeral")
        filler = fill(server.data)
        until_refused(api, "POST", "/sessions", {"mode": "ephemeral"})
        execute, code = f"/sessions/{session}/execute", "1 #" + "x" * LARGE
        check_error(api.post(execute, {"code": code}), 503, "DiskFull")
        filler.unlink()
        execution = wait_taken(api, "POST", execute, {"code": code})["execution_id"]
        assert api.wait_status(execution, "completed")["status"] == "completed"


def test_purging_a_session_makes_room() -> None:
    with small_disk("size=24m") as server:
        api = Api(server.port)
        session = api.session()
        assert put(api, session, "large.bin", os.urandom(1 << 20)).status == 201
        copy = server.store / "workspaces" / f"{session}.tar"
        wait_until(copy.exists, "the copy is there")
        fill(server.data)
        until_refused(api, "POST", "/sessions", {"mode": "ephemeral"})
        assert api.call("DELETE", f"/sessions/{session}?purge=true").status == 204
        assert not copy.exists()
        assert api.get(f"/sessions/{session}").status == 404
        other = wait_taken(api, "POST", "/sessions", {"mode": "persistent"})
        assert api.run(other["id"], "1")["value"] == "1"


@pytest.mark.parametrize("by", ["timeout", "client"])
def test_a_session_does_not_end_without_its_files(by: str) -> None:
    """The only copy of an uploaded file is in the box: it stays until the disk can take it."""
    with small_disk("size=24m") as server:
        api = Api(server.port)
        session = api.session(timeout=1 if by == "timeout" else 600)
        filler = fill(server.data)
        data = os.urandom(100_000)
        assert put(api, session, "only.bin", data).status == 201
        if by == "client":
            check_error(api.call("DELETE", f"/sessions/{session}"), 503, "DiskFull")
        else:
            server.wait_said("workspace_not_saved")
        kill_and_wait(server)  # and the next daemon knows as well
        assert api.call("GET", f"/sessions/{session}/files/only.bin").raw == data
        filler.unlink()
        if by == "client":
            wait_taken(api, "DELETE", f"/sessions/{session}", None)
        else:
            wait_until(lambda: str(api.get(f"/sessions/{session}")["status"]) == "timeout", "over")
        assert "only.bin" in names_in(server.store / "workspaces" / f"{session}.tar")


def test_a_box_that_died_before_its_result_was_written_holds_no_request() -> None:
    """The execution keeps the dead box until the disk takes its result."""
    with small_disk("size=32m") as server:
        api = Api(server.port)
        session = api.session()
        run = api.start(session, f"print('x' * {LARGE} + 'on', flush=True)\n{WAITS}", timeout=60)
        api.wait_output(run, "on")
        filler = fill(server.data)
        kill_boxes(server)
        check_error(api.get(f"/sessions/{session}/files"), 503, "DiskFull")
        filler.unlink()
        api.wait_status(run, "crashed", "lost")
        assert api.get(f"/sessions/{session}/files").status == 200
