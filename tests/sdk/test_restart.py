# SPDX-License-Identifier: Apache-2.0
"""The server dies under a held Sandbox: the next call works, or says exactly what was lost."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from audit import Tree, wait_tree
from conftest import SdkServer
from eventually import eventually
from waiting import PATIENCE, wait_until

from husk import AsyncSandbox, Client, Result, Sandbox, errors
from husk.client import drive


@pytest.fixture
def one() -> Iterator[SdkServer]:
    running = SdkServer("--drain-timeout", "1s")
    try:
        running.start()
        yield running
    finally:
        running.remove()


# Code that creates the file `in`, and ends when the file `go` exists.
UNTIL_GO = (
    "import os, time\nopen('in', 'w').close()\nwhile not os.path.exists('go'): time.sleep(.01)"
)


def socket_of(server: SdkServer) -> str:
    return f"unix://{server.socket}"


# ---- huskd alone: nothing is lost ----


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_huskd_killed_between_calls(one: SdkServer, way: str) -> None:
    with Sandbox(url=one.url if way == "tcp" else socket_of(one)) as s:
        s.run("x = 1")
        for n in range(2):
            one.kill_huskd()
            assert s.run("x += 1; x").value == n + 2, "the interpreter lives on, each run ran once"
        s.files.write("f", "1")
        one.kill_huskd()
        assert s.files.read("f") == b"1"
        one.kill_huskd()
        assert s.stats().executions == 3


def test_huskd_killed_during_a_run(one: SdkServer) -> None:
    """The answer of the run comes all the same, and it ran once."""
    with Sandbox(url=socket_of(one)) as s, Client(socket_of(one)) as other:
        s.run("n = 0")
        results: list[Result] = []
        thread = threading.Thread(target=lambda: results.append(s.run(f"n += 1\n{UNTIL_GO}\nn")))
        thread.start()
        wait_until(lambda: any(f.name == "in" for f in other.list_files(s.id)), "it runs")
        one.kill_huskd()
        other.write_file(s.id, "go", b"")
        thread.join(PATIENCE)
        assert results and results[0].ok and results[0].value == 1
        assert s.run("n").value == 1


def test_huskd_killed_during_a_stream(one: SdkServer) -> None:
    with Sandbox(url=socket_of(one)) as s:
        code = "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(.03)"
        text, kills = "", 0
        stream = s.stream(code)
        for piece in stream.text():
            text += piece
            if kills < 2 and text.count("\n") > 10 * (kills + 1):
                one.kill_huskd()
                kills += 1
        assert kills == 2
        assert text == "".join(f"{i}\n" for i in range(40)), "nothing lost, nothing twice"
        assert stream.result.ok and stream.result.stdout == text


def test_async(one: SdkServer) -> None:
    async def main() -> None:
        async with AsyncSandbox(url=socket_of(one)) as s:
            await s.run("x = 1")
            one.kill_huskd()
            assert (await s.run("x += 1; x")).value == 2
            slow = asyncio.create_task(s.run(f"{UNTIL_GO}\nx += 1; x"))
            await eventually(lambda: s.files.exists("in"), "it runs")
            one.kill_huskd()
            await s.files.write("go", b"")
            assert (await slow).value == 3
            text = ""
            async for piece in s.stream(
                "for i in range(20): print(i, flush=True); time.sleep(.05)"
            ).text():
                if not text:
                    one.kill_huskd()
                text += piece
            assert text == "".join(f"{i}\n" for i in range(20))

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_without_a_record_the_loss_is_said(one: SdkServer) -> None:
    """durable=False: a run that the kill cut is not repeated, since it may have happened."""
    with Sandbox(url=socket_of(one), durable=False) as s, Client(socket_of(one)) as other:
        s.run("n = 0")
        caught: list[BaseException] = []

        def work() -> None:
            try:
                s.run(f"n += 1\n{UNTIL_GO}")
            except errors.HuskError as e:
                caught.append(e)

        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: any(f.name == "in" for f in other.list_files(s.id)), "it runs")
        one.kill_huskd()
        thread.join(PATIENCE)
        other.write_file(s.id, "go", b"")
        assert len(caught) == 1 and isinstance(caught[0], errors.ConnectionLostError)
        assert "may have executed the request" in str(caught[0])
        assert s.run("n").value == 1, "the sandbox itself goes on"


# ---- more than huskd: the interpreter is lost, and that is said once ----


def check_interpreter_lost(s: Sandbox) -> None:
    with pytest.raises(errors.InterpreterLostError, match="all variables are lost") as caught:
        s.run("x")
    assert caught.value.session_id == s.id
    assert s.run("x = 5; x").value == 5, "the session goes on"
    assert s.run("x").value == 5
    assert s.files.read("kept.txt") == b"kept"


def saved(server: SdkServer, s: Sandbox) -> bool:
    return (server.store / "workspaces" / f"{s.id}.tar").exists()


def test_the_whole_server_restarted(one: SdkServer) -> None:
    with Sandbox(url=socket_of(one)) as s:
        s.run("x = 1")
        s.files.write("kept.txt", "kept")
        one.stop()
        one.start()
        check_interpreter_lost(s)


def test_the_whole_server_killed_during_a_run(one: SdkServer) -> None:
    with Sandbox(url=socket_of(one)) as s, Client(socket_of(one)) as other:
        s.run("x = 1")
        s.files.write("kept.txt", "kept")
        wait_until(lambda: saved(one, s), "the workspace is saved")
        caught: list[BaseException] = []

        def work() -> None:
            try:
                s.run("open('in', 'w').close()\nimport time; time.sleep(60)", timeout=100)
            except errors.HuskError as e:
                caught.append(e)

        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: any(f.name == "in" for f in other.list_files(s.id)), "it runs")
        huskd = one.pid_of_huskd()
        one.stop(signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{huskd}"), "huskd has followed")
        one.start()
        thread.join(PATIENCE)
        assert len(caught) == 1 and isinstance(caught[0], errors.InterpreterLostError)
        assert s.run("x = 5; x").value == 5


def test_the_launcher_killed(one: SdkServer) -> None:
    """No connection breaks then; the loss is noticed all the same."""
    with Sandbox(url=socket_of(one)) as s:
        s.run("x = 1")
        s.files.write("kept.txt", "kept")
        wait_until(lambda: saved(one, s), "the workspace is saved")
        old = wait_tree(one)
        os.kill(old.launcher, signal.SIGKILL)
        wait_until(
            lambda: (t := Tree.of(one)) is not None and t.launcher != old.launcher,
            "another launcher",
        )
        one.wait_ready()
        check_interpreter_lost(s)


def test_a_session_that_the_new_server_does_not_know(one: SdkServer) -> None:
    with Sandbox(url=socket_of(one)) as s, Client(socket_of(one)) as other:
        s.run("x = 1")
        other.purge_session(s.id)
        with pytest.raises(errors.SessionEndedError, match="does not know"):
            s.run("x")


def test_a_server_that_stays_away(one: SdkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "REPEAT_SECONDS", 1.0)
    s = Sandbox(url=socket_of(one))
    one.stop()
    with pytest.raises(errors.ServerNotFoundError):
        s.run("1")
    one.start()
    with pytest.raises(errors.InterpreterLostError):
        s.run("1")
    s.close()


def test_the_end_of_a_block_keeps_what_was_raised_in_it(
    one: SdkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "REPEAT_SECONDS", 0.5)
    with pytest.raises(KeyError, match="mine"), Sandbox(url=socket_of(one)) as s:
        one.stop()
        raise KeyError("mine")

    one.start()
    with pytest.raises(errors.ServerNotFoundError), Sandbox(url=socket_of(one)) as s:
        one.stop()
        try:
            s.run("1")
        finally:
            # From here on no call waits for a server that is known to be gone.
            monkeypatch.setattr(drive, "REPEAT_SECONDS", 10 * PATIENCE)
            begin = time.monotonic()
    assert time.monotonic() - begin < PATIENCE

    async def main() -> None:
        async with AsyncSandbox(url=socket_of(one)):
            one.stop()
            raise KeyError("mine")

    monkeypatch.setattr(drive, "REPEAT_SECONDS", 0.5)
    one.start()
    with pytest.raises(KeyError, match="mine"):
        asyncio.run(main())
