# SPDX-License-Identifier: Apache-2.0
"""A server whose huskd can be killed at named points, and a client that goes on when it is; see
src/base/fault.h.
"""
from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit import Audit, Ledger
from husk_server import Server
from places import BIN, ROOT
from procfs import pids_with
from v1_client import FINAL, Answer, Api
from waiting import wait_until

DROPPED = (OSError, http.client.HTTPException)


def labels_in_source() -> list[str]:
    """Every label, as often as it is there."""
    text = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.c")))
    return re.findall(r"FAULT_POINT\(\s*\"([^\"]*)\"\s*\)", text)


def build() -> Path:
    """The folder of programs with a huskd that has the points; the other programs are those under
    test.
    """
    folder = BIN.parent / "fault-points"
    if not (folder / "build.ninja").exists():
        run("meson", "setup", str(folder), str(ROOT), "-Dfault_points=true", "-Dbuildtype=debug")
    run("ninja", "-C", str(folder), "src/daemon/huskd")
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for source in (BIN / "husk", BIN / "husk-launcher", folder / "src/daemon/huskd"):
        shutil.copy2(source, programs / (source.name + ".new"))
        os.rename(programs / (source.name + ".new"), programs / source.name)
    return programs


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class FaultyServer(Server):
    """Its next huskd is killed at the label that arm() names, and only that one."""

    def __init__(self, programs: Path, *flags: str) -> None:
        super().__init__(*flags)
        self.programs = programs
        self.trigger = self.store / "husk.fault"  # where huskd may remove it
        self.variables = {
            "HUSK_TEST_FAULT_AT": str(self.trigger),
            "HUSK_LIB_DIR": str(BIN.parent / "lib" / "husk"),
        }

    def arm(self, point: str) -> None:
        """label or label:N, the Nth passing."""
        self.make_store()
        (self.folder / "fault").write_text(point)
        os.rename(self.folder / "fault", self.trigger)

    def deaths(self) -> int:
        """Of huskds that the supervisor saw end."""
        return sum("daemon_ended" in line for line in self.lines)

    def wait_deaths(self, n: int, why: str) -> None:
        wait_until(
            lambda: self.deaths() >= n, lambda: f"{why}: {n} deaths of huskd\n{self.output}", 10
        )

    def starts_and_dies(self, point: str) -> None:
        """husk up gives up when its first huskd does not become ready."""
        self.arm(point)
        try:
            self.start()
        except AssertionError as ended:
            assert "husk up ended with" in str(ended), ended
        else:
            raise AssertionError(f"{point} is not passed by a start:\n{self.output}")
        assert not self.trigger.exists()
        # Those in boxes have another environment.
        wait_until(lambda: not pids_with(str(self.trigger)), "nothing of it is left")


class Client:
    """Repeats what was cut off, and writes down what was acknowledged. What may be repeated safely
    is the caller's choice.
    """

    def __init__(self, server: FaultyServer) -> None:
        self.server = server
        self.api = Api(server.port)
        self.ledger = Ledger()
        self.cut_off = 0  # requests whose answer is unknown

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        key: str | None = None,
        raw: bytes | None = None,
        content_type: str = "application/octet-stream",
    ) -> Answer:
        headers = {"Idempotency-Key": key} if key else {}
        if raw is not None:
            headers["Content-Type"] = content_type
        for _ in range(5):
            try:
                return self.api.call(method, path, body, headers, raw)
            except DROPPED:
                self.cut_off += 1
                self.server.wait_ready()
        raise AssertionError(f"{method} {path} is cut off each time:\n{self.server.output}")

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.body

    # ---- sessions ----

    def session(self, key: str | None = None, **fields: Any) -> str:
        answer = self.ask("POST", "/sessions", {"mode": "persistent", **fields}, key)
        assert answer.status in (200, 201), answer
        session = str(answer["id"])
        self.ledger.sessions.add(session)
        return session

    def end(self, session: str) -> None:
        answer = self.ask("DELETE", f"/sessions/{session}")
        assert answer.status == 200, answer
        assert self.get(f"/sessions/{session}")["status"] == "terminated"
        self.ledger.files = {k: v for k, v in self.ledger.files.items() if k[0] != session}

    def purge(self, session: str, executions: list[str]) -> None:
        """Afterwards there is no trace of it."""
        self.ledger.sessions.discard(session)
        for name in executions:
            self.ledger.accepted.discard(name)
        answer = self.ask("DELETE", f"/sessions/{session}?purge=true")
        assert answer.status == 204 or (answer.status == 404 and self.cut_off > 0), answer
        assert self.ask("GET", f"/sessions/{session}").status == 404

    # ---- executions ----

    def run(self, session: str, key: str | None = None, **fields: Any) -> Any:
        """The execution, over. Without a key a repetition is another execution."""
        answer = self.ask("POST", f"/sessions/{session}/execute-sync", fields, key)
        assert answer.status == 200, answer
        if answer["status"] not in FINAL:  # the repetition of one that still runs
            self.wait_over(str(answer["execution_id"]))
            answer = self.ask("GET", f"/executions/{answer['execution_id']}")
        self.ledger.saw(answer.body, key)
        return answer.body

    def start(self, session: str, key: str | None = None, **fields: Any) -> str:
        answer = self.ask("POST", f"/sessions/{session}/execute", fields, key)
        assert answer.status == 201, answer
        self.ledger.saw(answer.body, key)
        return str(answer["execution_id"])

    def wait_over(self, execution: str) -> Any:
        path = f"/executions/{execution}"
        wait_until(lambda: self.get(path)["status"] in FINAL, f"{execution} is over")
        self.ledger.saw(over := self.get(path))
        return over

    def wait_output(self, execution: str, text: str) -> None:
        path = f"/executions/{execution}"
        wait_until(lambda: text in self.get(path)["stdout"], f"{execution} writes {text!r}")

    # ---- files ----

    def put(self, session: str, path: str, data: bytes) -> None:
        answer = self.ask("PUT", f"/sessions/{session}/files/{path}", raw=data)
        assert answer.status in (200, 201, 204), answer
        self.ledger.files[session, path] = data

    def has(self, session: str, path: str) -> bool:
        return self.ask("GET", f"/sessions/{session}/files/{path}").status == 200


class QuickAudit(Audit):
    """The audit of one moment: nothing is measured before."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.api = Api(server.port)


def cut_off(work: Callable[[], Any]) -> None:
    """A request whose answer a kill cuts off."""
    try:
        work()
    except DROPPED:
        pass


def in_background(work: Callable[[], Any]) -> None:
    threading.Thread(target=cut_off, args=(work,), daemon=True).start()
