# SPDX-License-Identifier: Apache-2.0
"""AsyncSandbox: the same operations, awaited, and many at once."""

from __future__ import annotations

import asyncio
import functools
import gc
import io
import warnings
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from conftest import SdkServer
from eventually import eventually
from waiting import PATIENCE

from husk import AsyncClient, AsyncSandbox, errors, tool
from husk.http.transport import AsyncTransport, Request
from husk.http.wire import Answer

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


def test_first_output(server: SdkServer) -> None:
    async def main() -> str:
        async with AsyncSandbox() as s:
            return (await s.run("1+1")).text

    assert run(main()) == "2"


def test_every_kind_of_work(server: SdkServer) -> None:
    async def main() -> None:
        async with AsyncSandbox(memory="128Mi") as s:
            assert (await s.run("x = 20; x + 1")).value == 21
            assert (await s.shell("echo hi; exit 2")).exit_code == 2
            made = await s.handler("def handler(e): return e['a'] + x", {"a": 1})
            assert made.value == 21
            await s.files.write("d/f.txt", "text")
            assert await s.files.read_text("d/f.txt") == "text"
            assert [e.path for e in await s.files.list(recursive=True)] == ["d", "d/f.txt"]
            twin = await s.branch()
            assert (await s.run("x", context=twin.context_id)).value == 20
            point = await s.checkpoint()
            await s.reset()
            await s.restore(point)
            assert (await s.run("x")).value == 20
            assert (await s.stats()).executions >= 5
            assert (await s.receipt()).limits["memory_bytes"] == 128 << 20
            assert not (await s.interrupt()).interrupted
            assert (await s.extend(50)).timeout == 50

    run(main())


def test_streams_and_callbacks(server: SdkServer) -> None:
    async def main() -> None:
        async with AsyncSandbox() as s:
            stream = s.stream("print('a', flush=True); print('b'); 7")
            kinds = [event.kind async for event in stream]
            assert kinds[0] == "status" and kinds[-1] == "end"
            assert (await stream.result()).value == 7
            assert [t async for t in s.stream(command="echo one").text()] == ["one\n"]
            seen: list[str] = []

            async def on_stdout(text: str) -> None:
                await asyncio.sleep(0)
                seen.append(text)

            errors_seen: list[str] = []
            code = "import sys; print('x'); print('y', file=sys.stderr)"
            result = await s.run(code, on_stdout=on_stdout, on_stderr=errors_seen.append)
            assert "".join(seen) == "x\n" == result.stdout and "".join(errors_seen) == "y\n"
            file = io.StringIO()
            write: Any = file.write  # returns a number, which is nothing to wait for
            await s.run("print('z')", on_stdout=write)
            assert file.getvalue() == "z\n"

    run(main())


def test_many_at_once_overlap(server: SdkServer) -> None:
    """Four sandboxes wait for each other inside their runs: that ends only if all run at the same
    time.
    """

    async def main() -> None:
        async with AsyncClient() as client:
            boxes = [AsyncSandbox(client=client, memory="64Mi") for _ in range(4)]
            try:
                await asyncio.gather(*(box.start() for box in boxes))
                wait = (
                    "import os, time\nopen('in', 'w').close()\n"
                    "while not os.path.exists('go'): time.sleep(.01)\n'done'"
                )

                async def release() -> None:
                    for box in boxes:
                        await eventually(functools.partial(box.files.exists, "in"), "it runs")
                    for box in boxes:
                        await box.files.write("go", b"")

                results = await asyncio.gather(*(box.run(wait) for box in boxes), release())
                assert [r.value for r in results if r is not None] == ["done"] * 4
            finally:
                for box in boxes:
                    await box.close()

    run(main())


def test_tasks_that_come_first_together_make_one_session(server: SdkServer) -> None:
    async def main() -> None:
        s = AsyncSandbox()
        try:
            await asyncio.gather(*(s.run("n = globals().get('n', 0) + 1") for _ in range(8)))
            assert (await s.run("n")).value == 8
            async with AsyncClient() as client:
                assert len([x for x in await client.list_sessions(status="running")]) == 1
        finally:
            await s.close()

    run(main())


def test_one_object_in_two_event_loops(server: SdkServer) -> None:
    s = AsyncSandbox()

    async def first() -> None:
        await s.run("x = 1")

    async def second() -> None:
        assert (await s.run("x")).value == 1
        await s.close()

    run(first())
    run(second())


def test_cancelling_the_wait_interrupts_the_run(server: SdkServer) -> None:
    async def main() -> None:
        async with AsyncSandbox() as s:
            code = "kept = 5\nopen('in', 'w').close()\nimport time\ntime.sleep(3000)"
            task = asyncio.create_task(s.run(code, timeout=3600))
            await eventually(lambda: s.files.exists("in"), "it runs")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await s.run("kept")).value == 5

    run(main())


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("on_stdout", [None, print])
def test_cancelling_a_run_that_waits_leaves_the_one_before_it(
    server: SdkServer, durable: bool, on_stdout: Any
) -> None:
    async def main() -> None:
        async with AsyncSandbox(durable=durable) as s:
            code = (
                "import os, time\nopen('in', 'w').close()\n"
                "while not os.path.exists('go'): time.sleep(.01)\n'done'"
            )
            first = asyncio.create_task(s.run(code))
            await eventually(lambda: s.files.exists("in"), "it runs")
            second = asyncio.create_task(s.run("began = True", on_stdout=on_stdout))
            states = await eventually(lambda: s.executions(status="pending"), "it waits")
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await s.files.write("go", b"")
            assert (await first).value == "done"
            assert (await s.run("'began' in globals()")).value is False
            assert (await s.client.get_execution(next(iter(states)).id)).status == "cancelled"

    run(main())


@pytest.mark.parametrize("work", ["cell", "command", "tool"])
def test_cancelling_what_waits_for_a_place_keeps_it_from_beginning(
    work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for(client: AsyncClient, sessions: int) -> list[Any]:
        """Executions that wait in that many sessions."""

        async def find() -> list[Any]:
            found = [*await client.list_sessions(status="running")]
            waiting = [
                x for s in found for x in await client.list_executions(s.id, status="pending")
            ]
            return waiting if len(found) == sessions else []

        waiting: list[Any] = await eventually(find, "an execution waits")
        return waiting

    async def main() -> None:
        async with AsyncSandbox() as before, AsyncSandbox() as s:
            code = "import os, time\nwhile not os.path.exists('go'): time.sleep(.01)"
            first = asyncio.create_task(before.run(code))
            await eventually(lambda: before.executions(status="running"), "it runs")
            if work == "cell":
                second: asyncio.Task[Any] = asyncio.create_task(s.run("open('began', 'w').close()"))
            elif work == "command":
                second = asyncio.create_task(s.shell("touch began"))
            else:
                second = asyncio.create_task(tool(sandbox=True)(nothing)())
            waiting = await wait_for(s.client, 3 if work == "tool" else 2)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await before.files.write("go", b"")
            assert (await first).ok
            if work == "tool":  # gone with its session
                assert len([*await s.client.list_sessions(status="running")]) == 2
            else:
                assert (await s.client.get_execution(waiting[0].id)).status == "cancelled"
                assert not await s.files.exists("began")

    crowded = SdkServer("--max-executions", "1")
    try:
        crowded.start()
        monkeypatch.setenv("HUSK_URL", f"unix://{crowded.socket}")
        run(main())
    finally:
        crowded.remove()


def test_cancelling_before_the_request_has_come(
    server: SdkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = AsyncTransport.exchange

    async def main() -> None:
        async with AsyncSandbox() as s:
            sending: asyncio.Future[Request] = asyncio.get_running_loop().create_future()

            async def hold(self: AsyncTransport, request: Request) -> Answer:
                if "execute-sync" in request.target:
                    sending.set_result(request)
                    await asyncio.Event().wait()
                return await exchange(self, request)

            monkeypatch.setattr(AsyncTransport, "exchange", hold)
            task = asyncio.create_task(s.run("began = True"))
            request = await sending
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.setattr(AsyncTransport, "exchange", exchange)
            assert (await exchange(s.client.transport, request)).status == 409  # it comes after all
            assert (await s.run("'began' in globals()")).value is False

    run(main())


def test_cancelling_while_the_session_is_made_leaves_none(
    server: SdkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = AsyncTransport.exchange

    async def main() -> None:
        made, left = asyncio.Event(), asyncio.Event()

        async def slow(self: AsyncTransport, request: Request) -> Answer:
            answer = await exchange(self, request)
            if request.method == "POST" and request.target.endswith("/sessions"):
                made.set()
                await left.wait()
            return answer

        async def use() -> None:
            async with AsyncSandbox():
                pass

        async def call() -> None:
            await tool(sandbox=True)(nothing)()

        monkeypatch.setattr(AsyncTransport, "exchange", slow)
        async with AsyncClient() as client:
            for work in (use, call):
                task = asyncio.create_task(work())
                await made.wait()
                assert len([*await client.list_sessions(status="running")]) == 1
                task.cancel()
                await asyncio.sleep(0)
                left.set()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert [*await client.list_sessions(status="running")] == []
                made.clear()
                left.clear()

    run(main())


def test_cancelling_while_the_session_is_ended_ends_it(
    server: SdkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = AsyncTransport.exchange

    async def main() -> None:
        ending, left = asyncio.Event(), asyncio.Event()

        async def slow(self: AsyncTransport, request: Request) -> Answer:
            if request.target.endswith("/terminate"):
                ending.set()
                await left.wait()
            return await exchange(self, request)

        async def use() -> None:
            async with AsyncSandbox():
                pass

        monkeypatch.setattr(AsyncTransport, "exchange", slow)
        async with AsyncClient() as client:
            task = asyncio.create_task(use())
            await ending.wait()
            task.cancel()
            await asyncio.sleep(0)
            left.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [*await client.list_sessions(status="running")] == []

    run(main())


def nothing() -> None:
    """A tool."""


def test_owner_rule_and_errors(server: SdkServer) -> None:
    async def main() -> None:
        async with AsyncSandbox() as maker:
            async with await AsyncSandbox.attach(maker.id) as guest:
                with pytest.raises(errors.NotOwnerError):
                    await guest.terminate()
            assert (await maker.run("1")).value == 1
            await maker.terminate()
            with pytest.raises(errors.SessionEndedError):
                await AsyncSandbox.attach(maker.id)
        with pytest.raises(errors.TemplateNotFoundError):
            async with AsyncSandbox("no-such-template"):
                pass

    run(main())


def test_unclosed_is_warned_about(server: SdkServer) -> None:
    async def main() -> str:
        s = AsyncSandbox()
        await s.start()
        return s.id

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = run(main())
        gc.collect()
    assert any(
        issubclass(w.category, ResourceWarning) and session in str(w.message) for w in caught
    )

    async def tidy() -> None:
        async with AsyncClient() as client:
            await client.terminate_session(session)

    run(tidy())


def test_a_session_that_is_over_says_so(server: SdkServer) -> None:
    async def main() -> None:
        async with AsyncSandbox() as s:
            await s.client.terminate_session(s.id)
            with pytest.raises(errors.SessionEndedError):
                await s.stream("1").result()
            with pytest.raises(errors.SessionEndedError):
                await s.files.read("f")
            with pytest.raises(errors.SessionEndedError):
                await s.branch()

    run(main())
