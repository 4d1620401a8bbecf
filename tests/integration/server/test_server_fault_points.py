# SPDX-License-Identifier: Apache-2.0
"""huskd is killed at every labelled point: nothing acknowledged is lost, nothing runs twice,
nothing is left over.
"""
from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fault_points import (
    Client,
    FaultyServer,
    QuickAudit,
    build,
    cut_off,
    in_background,
    labels_in_source,
    run,
)
from places import BIN
from waiting import PATIENCE, wait_until

# Passed by every start. A huskd that dies there before it was ever ready takes husk up with it.
START = [
    "start.folders_made",
    "start.engine_open",
    "store.checked",
    "store.epoch.before",
    "store.epoch.after",
    "start.store_open",
    "adopt.boxes_found",
    "adopt.rest.before",
    "adopt.rest.freed",
    "adopt.sessions_settled",
    "adopt.swept",
    "start.ready.before",
]
FIRST_START = ["store.migrate.before", "store.migrate.after"]  # of an empty data folder

# Passed by the successor of a huskd that was killed at work, and by the workload.
WORK = [
    "adopt.cell.before",
    "adopt.cell.resumed",
    "adopt.lost.before",
    "adopt.lost.handed_over",
    "adopt.session",
    "adopt.waiting.before",
    "box.asked.before",
    "box.born",
    "box.kept_without_contexts",
    "box.released",
    "execution.alone.after",
    "execution.alone.before",
    "execution.cell.before",
    "execution.cell.dropped",
    "execution.cell.finished",
    "execution.cell.kept",
    "execution.cell.sent",
    "execution.command.cell_not_kept",
    "execution.command.context_ended",
    "execution.command.context_made",
    "execution.end.before",
    "execution.end.recorded",
    "execution.record.after",
    "execution.record.before",
    "execution.spool_removed",
    "output.taken",
    "session.box.kept",
    "session.box.opened",
    "session.created",
    "session.end.box_closed",
    "session.end.idle",
    "session.end.recorded",
    "session.extended",
    "session.purge.before",
    "session.purge.recorded",
    "session.purge.removed",
    "session.recorded",
    "spool.written",
    "start.ready.after",
    "store.begin.before",
    "store.checkpoint.after",
    "store.checkpoint.before",
    "store.commit.after",
    "store.commit.before",
    "store.report.after",
    "template.delete.recorded",
    "template.delete.removed",
    "template.delete.renamed",
    "template.file.renamed",
    "template.file.written",
    "template.recorded",
    "upload.before",
    "upload.in_place",
    "upload.unpacked",
    "workspace.restore.after",
    "workspace.restore.before",
    "workspace.save.opened",
    "workspace.save.renamed",
    "workspace.save.synced",
    "zygote.begun",
    "zygote.start.before",
    "zygote.started",
]

# Passed by a huskd that is told to end.
STOP = ["stop.begun", "stop.drained", "stop.saved", "stop.left"]

# Passed by the successor of a huskd that was killed when it had recorded an end.
ENDED = ["adopt.ended.half"]

# Passed by a huskd whose cell is stopped, or ends its interpreter.
STOPPED = ["execution.cell.time_is_up", "execution.context.replaced"]

# Passed by one whose sessions are idle, and used again.
REST = ["session.frozen", "session.parked.after", "session.parked.before", "session.thawed"]

# Also with the fourth and fifth execution: one that is asked about later, and a command, which has
# a context of its own.
AGAIN = [
    "execution.cell.before",
    "execution.cell.dropped",
    "execution.cell.finished",
    "execution.cell.kept",
    "execution.cell.sent",
    "execution.end.before",
    "execution.end.recorded",
    "execution.spool_removed",
    "output.taken",
    "spool.written",
]
POINTS = [*START, *WORK, *[f"{label}:{n}" for label in AGAIN for n in (4, 5)]]

# A run that says that it has begun, and ends when it is told to.
WAITS = """
import os, time
print('begun', flush=True)
open('begun', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
print('over')
"""
COUNTED = "open('count-{0}', 'a').write('x')\nprint('x')"  # leaves a mark for each time that it ran
TEMPLATE = "made-by-a-client"


@pytest.fixture(scope="session")
def programs() -> Path:
    return build()


@pytest.fixture(scope="session")
def seed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a server that was stopped: of its session "kept" there is only the saved copy."""
    server = FaultyServer(programs)
    try:
        server.start()
        client = Client(server)
        client.session(id="kept")
        client.put("kept", "saved", b"saved")
        assert server.stop() == 0
        folder = tmp_path_factory.mktemp("seed") / "data"
        run("cp", "-a", str(server.data), str(folder))  # huskd is another user, and owns them
    finally:
        server.remove()
    return folder


@contextmanager
def seeded(programs: Path, seed: Path) -> Iterator[FaultyServer]:
    server = FaultyServer(programs)
    try:
        run("cp", "-a", str(seed), str(server.data))
        server.start()
        yield server
    finally:
        server.remove()


# ---- the points themselves ----


def test_every_label_is_listed_once() -> None:
    found = labels_in_source()
    assert sorted(found) == sorted({*found}), "a label is there twice"
    assert sorted(found) == sorted([*START, *FIRST_START, *WORK, *STOP, *ENDED, *STOPPED, *REST])
    assert all(part.replace("_", "a").isalpha() for label in found for part in label.split("."))
    assert [label for label in found if label != label.lower()] == []


def test_only_test_builds_have_them(programs: Path) -> None:
    assert b"FAULT_AT" in (programs / "huskd").read_bytes()
    for program in [*BIN.iterdir(), *(BIN.parent / "lib" / "husk").glob("*")]:
        if program.is_file():
            data = program.read_bytes()
            assert b"FAULT_AT" not in data and b"store.commit.before" not in data, program


# ---- the work around a kill ----


def prelude(client: Client) -> dict[str, str]:
    """What a killed huskd leaves: a cell that goes on, one in line behind it, one whose end is
    unknown, one without a record.
    """
    client.ledger.sessions.add("kept")
    calm = client.session()
    client.run(calm, code="kept = 41")
    client.put(calm, "a", b"before")
    going_on = client.start(calm, code=WAITS)
    in_line = client.start(calm, code="print(open('in-line', 'a').write('x'))")
    alone = client.session(mode="ephemeral")
    lost = client.start(alone, code=WAITS)
    waiting = client.session()
    in_background(
        lambda: client.api.post(f"/sessions/{waiting}/execute-sync", {"code": WAITS, "timeout": 50})
    )
    for execution in (going_on, lost):
        client.wait_output(execution, "begun")
    wait_until(lambda: client.has(waiting, "begun"), "the call without a record runs")
    return {
        "calm": calm,
        "going_on": going_on,
        "in_line": in_line,
        "lost": lost,
        "waiting": waiting,
    }


def tar_of(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def use_session(client: Client) -> str:
    session = client.session(key="a-session")
    client.run(session, code="x = 1\nprint('out')")
    for n in range(2):
        client.run(session, key=f"sync-{n}", code=COUNTED.format(f"sync-{n}"))
    execution = client.start(session, key="async", code=COUNTED.format("async"))
    client.wait_over(execution)
    client.wait_over(client.start(session, key="command", command="echo x | tee -a count-command"))
    client.put(session, "b", b"b" * 100000)
    answer = client.ask(
        "PUT",
        f"/sessions/{session}/archive?path=",
        raw=tar_of("c", b"packed"),
        content_type="application/x-tar",
    )
    assert answer.status in (200, 201, 204), answer
    client.ledger.files[session, "c"] = b"packed"
    assert client.ask("POST", f"/sessions/{session}/extend", {"timeout": 900}).status == 200
    return session


def use_template(client: Client) -> None:
    """Made, changed, used, removed; what a cut-off request left does not stand in the way of its
    repetition.
    """
    answer = client.ask("POST", "/templates", {"id": TEMPLATE, "description": "one"})
    assert answer.status == 201 or (answer.status == 409 and client.cut_off > 0), answer
    assert client.get(f"/templates/{TEMPLATE}")["origin"] == "api"
    answer = client.ask("PUT", f"/templates/{TEMPLATE}", {"description": "two"})
    assert answer.status == 200, answer
    assert client.get(f"/templates/{TEMPLATE}")["description"] == "two"
    about = (client.server.store / "templates" / f"{TEMPLATE}.template").read_text()
    assert "about = two\n" in about
    session = client.session(template_id=TEMPLATE)
    assert client.run(session, code="6 * 7")["value"] == "42"
    client.end(session)
    answer = client.ask("DELETE", f"/templates/{TEMPLATE}")
    assert answer.status == 204 or (answer.status == 404 and client.cut_off > 0), answer
    assert client.ask("GET", f"/templates/{TEMPLATE}").status == 404


def work(client: Client) -> str:
    assert client.ask("GET", "/sessions/kept/files/saved").raw == b"saved"
    client.ledger.files["kept", "saved"] = b"saved"
    session = use_session(client)
    alone = client.session(mode="ephemeral")
    client.wait_over(client.start(alone, key="alone", code="print('x')"))
    gone = client.session()
    client.put(gone, "d", b"d")
    execution = client.run(gone, code="2")["execution_id"]
    client.end(gone)  # saves a copy of the file
    client.purge(gone, [execution])
    use_template(client)
    ended = client.session()
    client.run(ended, code="3")
    client.end(ended)
    return session


def check_work(client: Client, before: dict[str, str], session: str) -> None:
    """What was running ended once and whole; nothing with a key ran twice; the interpreters never
    noticed.
    """
    for name in ("calm", "waiting"):
        client.put(before[name], "go", b"")
    over = client.wait_over(before["going_on"])
    assert over["status"] == "completed" and over["stdout"] == "begun\nover\n", over
    over = client.wait_over(before["in_line"])
    assert (over["status"], over["stdout"]) == ("completed", "1\n"), over
    assert client.ask("GET", f"/sessions/{before['calm']}/files/in-line").raw == b"x"
    over = client.wait_over(before["lost"])
    assert over["status"] == "lost" and over["stdout"] == "begun\n", over
    wait_until(
        lambda: [x["status"] for x in executions(client, before["waiting"])] == ["completed"],
        "the call without a record ends, and is recorded",
    )
    assert client.run(before["calm"], code="kept")["value"] == "41"
    client.ledger.keys.pop("alone", None)  # its files are gone with its box
    for key, execution in client.ledger.keys.items():
        result = client.get(f"/executions/{execution}")
        count = client.ask("GET", f"/sessions/{session}/files/count-{key}")
        times = count.raw.count(b"x") if count.status == 200 else 0
        assert (result["status"], times, result["stdout"]) == ("completed", 1, "x\n"), (key, result)
    for name in (before["calm"], before["waiting"], session):
        assert len(client.get(f"/sessions/{name}/contexts")["items"]) == 1, name
    left = [path.name for path in (client.server.store / "templates").iterdir()]
    assert left == [], "files of templates without a record"


def executions(client: Client, session: str) -> list[Any]:
    items: list[Any] = client.get(f"/sessions/{session}/executions")["items"]
    return items


@pytest.mark.parametrize("point", POINTS)
def test_kill_at(point: str, programs: Path, seed: Path) -> None:
    with seeded(programs, seed) as server:
        client = Client(server)
        before = prelude(client)
        server.arm(point)
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        server.wait_ready()
        session = work(client)
        server.wait_deaths(2, f"{point} is never passed")
        server.wait_ready()
        check_work(client, before, session)
        QuickAudit(server).check(client.ledger)
        assert server.deaths() == 2


@pytest.mark.parametrize("point", STOP)
def test_kill_on_the_way_out(point: str, programs: Path, seed: Path) -> None:
    """The boxes are about to end: another huskd saves the files that are in them only."""
    with seeded(programs, seed) as server:
        client = Client(server)
        server.arm(point)
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        server.wait_ready()
        client.ledger.sessions.add("kept")
        session = client.session()
        client.run(session, code="open('made', 'w').write('by the cell')")
        client.put(session, "a", b"put a moment ago")
        running = client.start(session, code=WAITS)
        client.wait_output(running, "begun")
        assert server.stop() == 0
        server.listener.join(PATIENCE)  # what it said last is heard a moment later
        assert server.deaths() == 2, server.output
        server.start()
        assert client.ask("GET", f"/sessions/{session}/files/a").raw == b"put a moment ago"
        assert client.ask("GET", f"/sessions/{session}/files/made").raw == b"by the cell"
        over = client.wait_over(running)
        assert over["status"] == "lost" and over["stdout"] == "begun\n", over
        QuickAudit(server).check(client.ledger)


@pytest.mark.parametrize("point", ["execution.cell.kept", "execution.cell.sent"])
def test_a_cell_on_its_way_runs_once(point: str, programs: Path, seed: Path) -> None:
    """The launcher knows of it before its box does, and its interpreter says whether it came."""
    with seeded(programs, seed) as server:
        client = Client(server)
        session = client.session()
        client.run(session, code="kept = 41")
        server.arm(point)
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        body = {"code": WAITS + "print(open('ran', 'a').write('x'), kept)"}
        cut_off(lambda: client.api.post(f"/sessions/{session}/execute", body))
        server.wait_deaths(2, "it runs the cell")
        client.put(session, "go", b"")
        execution = executions(client, session)[0]["execution_id"]  # the newest comes first
        over = client.wait_over(execution)
        assert (over["status"], over["stdout"]) == ("completed", "begun\nover\n1 41\n"), over
        assert client.ask("GET", f"/sessions/{session}/files/ran").raw == b"x"
        QuickAudit(server).check(client.ledger)


@pytest.mark.parametrize("point", STOPPED)
@pytest.mark.parametrize(
    "code, status, exit_code",
    [
        ("while True: pass", "timeout", 124),
        ("import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass", "timeout", 124),
        ("import os\nos._exit(3)", "failed", 3),
    ],
)
def test_how_a_cell_was_stopped_is_known(
    point: str, code: str, status: str, exit_code: int, programs: Path, seed: Path
) -> None:
    """Also by a successor of the huskd that stopped it: it neither waits for it nor repeats it."""
    with seeded(programs, seed) as server:
        client = Client(server)
        session = client.session()
        server.arm(point)
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        body = {"code": f"open('ran', 'a').write('x')\n{code}", "timeout": 1}
        execution = client.start(session, key="a", **body)
        over = client.wait_over(execution)
        assert (over["status"], over["exit_code"]) == (status, exit_code), over
        assert client.ask("GET", f"/sessions/{session}/files/ran").raw == b"x"
        after = client.run(session, code="1 + 1", timeout=10)
        assert (after["status"], after["value"]) == ("completed", "2")
        QuickAudit(server).check(client.ledger)


@pytest.mark.parametrize("point", ["execution.cell.sent", "execution.cell.kept"])
def test_half_a_cell_runs_once(point: str, programs: Path, seed: Path) -> None:
    """The rest is gone: huskd does not wait for it, and does not take the next cell for it. The
    cell has not begun, so it runs, in another interpreter.
    """
    with seeded(programs, seed) as server:
        client = Client(server)
        session = client.session()
        pid = client.run(session, code="import os, signal\nkept = 41\nos.getpid()")["value"]
        other = client.ask("POST", f"/sessions/{session}/contexts/0/branch")["context_id"]
        client.run(session, code=f"os.kill({pid}, signal.SIGSTOP)", context_id=other)
        server.arm(point)
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        # More than a socket holds.
        long = {"code": "open('ran', 'a').write('x')\n" + "#" * 900_000, "timeout": 60}
        cut_off(lambda: client.api.post(f"/sessions/{session}/execute", long))
        server.wait_deaths(2, "it hands over the cell")
        client.run(session, code=f"os.kill({pid}, signal.SIGCONT)", context_id=other)
        over = client.wait_over(executions(client, session)[-3]["execution_id"])
        assert over["status"] == "completed", over
        assert client.ask("GET", f"/sessions/{session}/files/ran").raw == b"x"
        assert client.run(session, code="kept", context_id=other)["value"] == "41"
        QuickAudit(server).check(client.ledger)


@pytest.mark.parametrize("point", ENDED)
def test_kill_while_an_end_is_cleared_away(point: str, programs: Path, seed: Path) -> None:
    """The context of a command goes, whichever daemon gets to it."""
    with seeded(programs, seed) as server:
        client = Client(server)
        session = client.session()
        server.arm("execution.end.recorded")
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        server.wait_ready()
        server.arm(point)
        cut_off(lambda: client.api.post(f"/sessions/{session}/execute", {"command": "echo x"}))
        server.wait_deaths(3, f"{point} is never passed")
        server.wait_ready()
        assert len(client.get(f"/sessions/{session}/contexts")["items"]) == 1
        assert [x["status"] for x in executions(client, session)] == ["completed"]
        QuickAudit(server).check(client.ledger)


@pytest.mark.parametrize("point", REST)
def test_kill_while_it_begins_or_ends_to_rest(point: str, programs: Path, seed: Path) -> None:
    """Its files are there in any case, its variables if it was not parked."""
    on_idle = "park" if "parked" in point else "freeze"
    with seeded(programs, seed) as server:
        client = Client(server)
        server.arm(point)
        server.kill_huskd()
        server.wait_deaths(1, "our own kill")
        server.wait_ready()
        session = client.session(timeout=1, on_idle=on_idle)
        client.run(session, code="kept = 42")
        client.put(session, "a", b"a")

        def look() -> bool:
            return str(client.get(f"/sessions/{session}")["idle_state"]) != "active"

        wait_until(look, "it rests")
        after = client.run(session, code="globals().get('kept')")
        server.wait_deaths(2, f"{point} is never passed")
        reasons = {"park": ("parked", "box_lost"), "freeze": (None,)}
        assert after["restart_reason"] in reasons[on_idle], after
        assert after["value"] == (None if on_idle == "park" else "42")
        assert client.ask("GET", f"/sessions/{session}/files/a").raw == b"a"
        client.end(session)
        QuickAudit(server).check(client.ledger)
        assert server.deaths() == 2


# ---- again and again ----


def test_twenty_deaths_in_a_row_before_the_first_answer(programs: Path, seed: Path) -> None:
    server = FaultyServer(programs)
    try:
        run("cp", "-a", str(seed), str(server.data))
        for point in (START * 2)[:20]:
            server.starts_and_dies(point)
        server.start()
        client = Client(server)
        client.ledger.sessions.add("kept")
        client.ledger.files["kept", "saved"] = b"saved"
        assert client.run("kept", code="1 + 1")["value"] == "2"
        QuickAudit(server).check(client.ledger)
    finally:
        server.remove()


@pytest.mark.parametrize("label", FIRST_START)
def test_kill_at_the_first_start(label: str, programs: Path) -> None:
    server = FaultyServer(programs)
    try:
        server.starts_and_dies(label)
        server.start()
        client = Client(server)
        assert client.run(client.session(), code="1 + 1")["value"] == "2"
        QuickAudit(server).check(client.ledger)
    finally:
        server.remove()


def test_deaths_in_a_row_while_boxes_wait(programs: Path, seed: Path) -> None:
    """One supervisor, one successor after the other dies on its way; what runs in boxes is taken
    over by the last.
    """
    labels = ["adopt.session", "adopt.lost.handed_over", "adopt.cell.resumed", "adopt.swept"]
    with seeded(programs, seed) as server:
        client = Client(server)
        before = prelude(client)
        server.arm(labels[0])
        server.kill_huskd()
        for label in labels[1:]:
            wait_until(lambda: not server.trigger.exists(), "the successor has begun")
            server.arm(label)
        server.wait_deaths(1 + len(labels), "each of them dies")
        server.wait_ready()
        check_work(client, before, use_session(client))
        QuickAudit(server).check(client.ledger)
