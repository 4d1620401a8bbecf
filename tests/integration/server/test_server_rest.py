# SPDX-License-Identifier: Apache-2.0
"""An idle session is parked or frozen instead of ended, and goes on when it is used again."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from audit import Audit, check_all_gone, instance_cgroups, wait_tree
from disk_faults import kill_and_wait, wait_successor
from husk_server import Server
from procfs import below
from test_server_box_death import stall_download
from v1_client import Api, answer_to, check_error
from v1_files import get, put
from waiting import wait_settled, wait_until

# A process that counts in a file, so that it can be seen whether it runs.
COUNTER = """
import subprocess, sys
kept = 42
child = subprocess.Popen([sys.executable, '-c', '''
import time
n = 0
while True:
    n += 1
    open('n', 'w').write(str(n))
    time.sleep(0.005)
'''])
"""


@pytest.fixture
def one() -> Iterator[Server]:
    """Without pools every box is a session's."""
    flags = ["--pool-min", "0", "--pool-max", "0", "--se-pool", "0"]
    with Server.run(*flags, "--session-pool-min", "0", "--session-pool-max", "0") as running:
        yield running


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """With pools, as usual."""
    with Server.run() as running:
        yield running


def wait_state(api: Api, session: str, state: str) -> Any:
    """Looking at its record is no use of it."""

    def look() -> Any:
        s = api.get(f"/sessions/{session}").body
        assert s["status"] == "running", s
        return s if s["idle_state"] == state else None

    return wait_until(look, f"{session} is {state}")


def wait_ended(api: Api, session: str) -> Any:
    def look() -> Any:
        s = api.get(f"/sessions/{session}").body
        return s if s["status"] == "timeout" else None

    return wait_until(look, f"{session} has ended")


def resting(api: Api, on_idle: str, state: str, **fields: Any) -> str:
    """One with a variable and a file that is parked or frozen by now."""
    s = api.session(on_idle=on_idle, timeout=1, **fields)
    api.run(s, "kept = 42; open('file', 'w').write('x')")
    wait_state(api, s, state)
    return s


def wait_next_state(api: Api, session: str, state: str) -> None:
    """A long timeout does not rest again before the test has looked."""
    assert api.post(f"/sessions/{session}/extend", {"timeout": 600}).status == 200
    wait_state(api, session, state)


def metric(server: Server, state: str) -> int:
    text = server.get("/metrics").text
    name = f'husk_sessions_resting{{state="{state}"}} '
    return int(next(line for line in text.splitlines() if line.startswith(name))[len(name) :])


# ---- what clients see ----


def test_a_parked_session_comes_back_with_its_files(shared: Server) -> None:
    api = Api(shared.port)
    s = resting(api, "park", "parked")
    parked = api.get(f"/sessions/{s}").body
    assert parked["status"] == "running" and parked["on_idle"] == "park"
    assert parked["container_id"] is None and metric(shared, "parked") == 1
    assert parked["expires_at"] > parked["last_activity_at"]
    back = api.run(s, "open('file').read(), 'kept' in globals()")
    assert back["value"] == "('x', False)"
    assert (back["context_restarted"], back["restart_reason"]) == (True, "parked")
    wait_next_state(api, s, "active")
    assert api.run(s, "1")["context_restarted"] is False, "it was said once"
    assert metric(shared, "parked") == 0
    assert "session_parked" in shared.output


def test_a_frozen_session_goes_on_with_its_variables(shared: Server) -> None:
    api = Api(shared.port)
    s = resting(api, "freeze", "frozen")
    frozen = api.get(f"/sessions/{s}").body
    assert frozen["status"] == "running" and frozen["on_idle"] == "freeze"
    assert frozen["container_id"] is not None and metric(shared, "frozen") == 1
    back = api.run(s, "open('file').read(), kept")
    assert back["value"] == "('x', 42)" and back["context_restarted"] is False
    wait_next_state(api, s, "active")
    assert metric(shared, "frozen") == 0
    assert "session_frozen" in shared.output and "session_thawed" in shared.output


def test_the_files_of_a_resting_session_can_be_used(shared: Server) -> None:
    api = Api(shared.port)
    for on_idle, state, value in (("park", "parked", "False"), ("freeze", "frozen", "True")):
        s = resting(api, on_idle, state)
        api.post(f"/sessions/{s}/extend", {"timeout": 600})
        wait_state(api, s, state)  # that is no use of its box
        assert get(api, s, "file").raw == b"x"
        wait_state(api, s, "active")
        kill_and_wait(shared)
        after = api.run(s, "'kept' in globals()")
        assert after["value"] == value
        assert after["restart_reason"] == ("parked" if on_idle == "park" else None)


def test_without_on_idle_a_session_ends(shared: Server) -> None:
    api = Api(shared.port)
    made = api.post("/sessions", {"mode": "persistent", "timeout": 1})
    assert made["on_idle"] == "end" and made["idle_state"] == "active"
    ended = wait_ended(api, made["id"])
    assert ended["idle_state"] is None


def test_what_cannot_rest_is_refused(shared: Server) -> None:
    api = Api(shared.port)
    for on_idle in ("park", "freeze"):
        body = {"mode": "ephemeral", "on_idle": on_idle}
        check_error(api.post("/sessions", body), 422, "InvalidParameter", "on_idle", "ephemeral")
    check_error(api.post("/sessions", {"on_idle": "sleep"}), 422, "InvalidParameter", "on_idle")
    s = api.session()
    path = f"/sessions/{s}/extend"
    check_error(api.post(path, {"timeout": 3601}), 422, "InvalidParameter", "3600")
    assert api.post(path, {"timeout": 60, "on_idle": "park"})["on_idle"] == "park"
    check_error(api.post("/sessions", {"timeout": 3601}), 422, "InvalidParameter", "3600")
    check_error(api.post("/sessions", {"timeout": 86401}), 422, "InvalidParameter", "86400")
    changed = api.post(path, {"timeout": 60, "on_idle": "freeze"})
    if changed.status != 200:  # unless boxes have a directory in the v2 tree from the start
        check_error(changed, 409, "Conflict", "on_idle", "park")
        assert api.get(f"/sessions/{s}")["on_idle"] == "park"


def test_settings_of_idle_sessions() -> None:
    flags = ("--max-session-timeout", "24h", "--session-timeout", "24h")
    with Server.run(*flags, "--session-on-idle", "park") as server:
        api = Api(server.port)
        made = api.post("/sessions", {"mode": "persistent"})
        assert made["timeout"] == 86400 and made["on_idle"] == "park"
        assert api.post("/sessions", {"timeout": 86400})["on_idle"] == "end", "ephemeral"
        s = resting(api, "park", "parked")
        assert api.post(f"/sessions/{s}/extend", {"timeout": 86400})["timeout"] == 86400
        kill_and_wait(server)
        after = api.get(f"/sessions/{s}").body
        assert (after["on_idle"], after["timeout"], after["idle_state"]) == (
            "park",
            86400,
            "parked",
        )


def test_a_resting_session_ends_at_its_age() -> None:
    with Server.run("--session-lifetime", "3s") as server:
        api = Api(server.port)
        for on_idle in ("park", "freeze"):
            s = api.session(on_idle=on_idle, timeout=1)
            api.run(s, "1")
            ended = wait_ended(api, s)
            assert "lifetime" in ended["reason"]


# ---- what the kernel sees ----


def counts(api: Api, server: Server, session: str) -> Callable[[], str]:
    """What the process of COUNTER has written, read from outside."""
    roots = [Path(f"/proc/{pid}/root/workspace/n") for pid in wait_tree(server).boxes]
    (file,) = [root for root in roots if root.exists()]
    return file.read_text


def test_no_process_of_a_frozen_box_runs(one: Server) -> None:
    api = Api(one.port)
    s = api.session(on_idle="freeze", timeout=1)
    api.run(s, COUNTER)
    wait_state(api, s, "frozen")
    read = counts(api, one, s)
    before = wait_settled(read, "it does not count any more", looks=20)
    assert api.run(s, "kept")["value"] == "42"
    wait_until(lambda: read() not in (before, ""), "it counts again")
    wait_state(api, s, "frozen")
    usage = api.get(f"/sessions/{s}/stats").body
    assert usage["memory_bytes"] > 1 << 20, "its memory stays"


def test_no_process_of_a_parked_box_is_left(one: Server) -> None:
    api = Api(one.port)
    s = api.session(on_idle="park", timeout=1)
    api.run(s, COUNTER)
    wait_state(api, s, "parked")
    wait_until(lambda: wait_tree(one).boxes == [], "its box is gone")
    assert int(get(api, s, "n").raw) > 0, "its files are as it left them"


def end(api: Api, server: Server, session: str) -> None:
    assert api.call("DELETE", f"/sessions/{session}").status == 200


def purge(api: Api, server: Server, session: str) -> None:
    assert api.call("DELETE", f"/sessions/{session}?purge=true").status == 204


def kill_zygotes(api: Api, server: Server, session: str) -> None:
    for pid in wait_tree(server).zygotes:
        os.kill(pid, signal.SIGKILL)


def kill_launcher(api: Api, server: Server, session: str) -> None:
    old = wait_tree(server)
    os.kill(old.launcher, signal.SIGKILL)
    wait_successor(server, old)


def kill_first(api: Api, server: Server, session: str) -> None:
    for pid in wait_tree(server).boxes:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kill", [end, purge, kill_zygotes, kill_launcher, kill_first])
def test_a_frozen_box_can_be_killed(one: Server, kill: Callable[[Api, Server, str], None]) -> None:
    api = Api(one.port)
    s = api.session(on_idle="freeze", timeout=1)
    api.run(s, COUNTER)
    wait_state(api, s, "frozen")
    tree = wait_tree(one)
    left = [p for box in tree.boxes for p in below(box)]
    assert len(left) >= 2
    kill(api, one, s)
    check_all_gone(left, [], "the box was killed")
    if kill not in (end, purge):
        after = api.run(s, "'kept' in globals(), int(open('n').read()) > 0")
        assert after["value"] == "(False, True)"
        assert after["restart_reason"] == "box_lost"


def test_nothing_is_left_of_a_server_with_frozen_sessions() -> None:
    with Server.run() as server:
        api = Api(server.port)
        sessions = [resting(api, "freeze", "frozen") for _ in range(3)]
        tree = wait_tree(server)
        left = [p for box in tree.boxes for p in below(box)]
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        check_all_gone(left, [tree.launcher], "husk up was killed")
        wait_until(lambda: instance_cgroups(tree.launcher) == [], "no cgroup is left")
        server.start()
        for s in sessions:
            after = api.run(s, "open('file').read()")
            assert (after["value"], after["restart_reason"]) == ("'x'", "box_lost")


# ---- a killed huskd, and races ----


@pytest.mark.parametrize("on_idle,state", [("park", "parked"), ("freeze", "frozen")])
def test_a_resting_session_rests_on_when_huskd_is_killed(
    one: Server, on_idle: str, state: str
) -> None:
    api = Api(one.port)
    audit = Audit(one)
    s = resting(api, on_idle, state)
    for _ in range(2):
        kill_and_wait(one)
        assert api.get(f"/sessions/{s}")["idle_state"] == state
    api.post(f"/sessions/{s}/extend", {"timeout": 600})
    after = api.run(s, "open('file').read(), 'kept' in globals()")
    assert after["value"] == f"('x', {on_idle == 'freeze'})"
    assert after["restart_reason"] == ("parked" if on_idle == "park" else None)
    api.call("DELETE", f"/sessions/{s}")
    audit.check()


def test_a_stopped_server_keeps_the_files_of_resting_sessions(one: Server) -> None:
    api = Api(one.port)
    sessions = [resting(api, "park", "parked"), resting(api, "freeze", "frozen")]
    assert one.stop() == 0
    one.start()
    reasons = []
    for s in sessions:
        after = api.run(s, "open('file').read()")
        assert after["value"] == "'x'"
        reasons.append(after["restart_reason"])
    assert reasons == ["parked", "box_lost"]


def test_a_session_does_not_rest_while_it_is_used(one: Server) -> None:
    api = Api(one.port)
    for on_idle in ("park", "freeze"):
        s = api.session(on_idle=on_idle, timeout=1, memory="256Mi", disk="128Mi")
        api.run(s, "open('big', 'wb').write(b'x' * 60_000_000)")
        download = stall_download(api, s, "big")
        other = api.session(on_idle=on_idle, timeout=1)
        api.run(other, "1")
        wait_state(api, other, "parked" if on_idle == "park" else "frozen")
        assert api.get(f"/sessions/{s}")["idle_state"] == "active", "a download runs"
        download.close()
        wait_state(api, s, "parked" if on_idle == "park" else "frozen")


@pytest.mark.parametrize("on_idle", ["park", "freeze"])
def test_uses_that_race_with_resting_all_succeed(one: Server, on_idle: str) -> None:
    """Pauses of about a timeout: many uses come while it is being parked or frozen."""
    api = Api(one.port)
    twin = api.session(on_idle=on_idle, timeout=1)
    s = api.session(on_idle=on_idle, timeout=1)
    api.run(s, "n = 0")
    assert put(api, s, "f", b"0").status == 201
    failures: list[str] = []
    rests = 0

    def use(i: int) -> None:
        client = Api(one.port)
        if i % 3 == 0:
            answer = client.post(f"/sessions/{s}/execute-sync", {"code": "1 + 1"})
            ok = answer.status == 200 and answer["value"] == "2"
        elif i % 3 == 1:
            answer = client.post(f"/sessions/{s}/execute-sync", {"command": "cat f"})
            ok = answer.status == 200 and answer["stdout"] == "0"
        else:
            answer = get(client, s, "f")
            ok = answer.status == 200 and answer.raw == b"0"
        if not ok:
            failures.append(f"{i}: {answer.status} {answer.raw[:300]!r}")

    state = "parked" if on_idle == "park" else "frozen"
    for round_ in range(6):
        if round_ % 2 == 0:  # as soon as it rests
            wait_state(api, s, state)
            rests += 1
        else:  # when another does that was used right before it
            api.run(twin, "1")
            api.run(s, "1")
            wait_state(api, twin, state)
        threads = [threading.Thread(target=use, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert failures == [] and rests == 3
    if on_idle == "freeze":
        assert api.run(s, "n")["value"] == "0", "all variables are there"


@pytest.mark.parametrize("on_idle", ["park", "freeze"])
def test_an_end_beside_the_next_use(one: Server, on_idle: str) -> None:
    api = Api(one.port)
    audit = Audit(one)
    for _ in range(4):
        s = resting(api, on_idle, "parked" if on_idle == "park" else "frozen")
        use = api.begin("POST", f"/sessions/{s}/execute-sync", {"code": "1"})
        assert api.call("DELETE", f"/sessions/{s}?purge=true").status == 204
        assert answer_to(use).status in (200, 404, 409)
    audit.check()


def test_extending_wakes_no_box(one: Server) -> None:
    api = Api(one.port)
    s = resting(api, "freeze", "frozen")
    api.post(f"/sessions/{s}/extend", {"timeout": 600, "on_idle": "park"})
    after = api.get(f"/sessions/{s}").body
    assert after["idle_state"] == "frozen" and after["on_idle"] == "park"
    assert api.run(s, "kept")["value"] == "42"
