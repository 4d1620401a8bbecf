# SPDX-License-Identifier: Apache-2.0
"""Tools as Ray tasks: options, results, exceptions, crashes, time limits, what cannot be sent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from ray_support import CPUS, ray_cluster  # noqa: F401
from waiting import wait_until

from husk.engines import engine
from husk.engines.ray.engine import RayEngine
from husk.tool_errors import (
    ToolArgumentError,
    ToolCrashed,
    ToolFunctionError,
    ToolRaised,
    ToolResourceError,
    ToolResultError,
    ToolTimeout,
    ToolTraceback,
)
from rayai import batch_tool, execute_tools, tool

pytestmark = pytest.mark.usefixtures("ray_cluster")


class Custom(Exception):
    def __init__(self, text: str, number: int) -> None:
        super().__init__(text, number)
        self.number = number


class Unsendable(Exception):
    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class Unbuildable(Exception):
    def __init__(self, text: str, number: int) -> None:
        super().__init__(f"{text} {number}")


@tool(num_cpus=0.1)
def where() -> int:
    """Which process this is."""
    return os.getpid()


@tool(num_cpus=0.1)
async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


@tool(num_cpus=0.1)
def fail(how: str) -> Any:
    if how == "value":
        raise ValueError("bad value")
    if how == "custom":
        raise Custom("two", 2)
    if how == "timeout":
        raise TimeoutError("my own")
    if how == "unsendable":
        raise Unsendable()
    if how == "unbuildable":
        raise Unbuildable("both", 2)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "stop":
        raise StopIteration(3)
    if how == "generator":
        return (number for number in range(3))
    return threading.Lock()


@tool(num_cpus=0.1)
async def flow() -> AsyncIterator[int]:
    yield 1


def test_ray_is_in_force() -> None:
    assert engine.current().name == "ray"
    assert asyncio.run(where()) != os.getpid()


def test_async_functions_run_to_their_end() -> None:
    assert asyncio.run(later(1)) == 2
    assert later.call_sync(2) == 3


def test_remote_func_is_rays(ray_cluster: Any) -> None:  # noqa: F811
    assert ray_cluster.get(later._remote_func.remote(4)) == 5
    real = later._get_remote_func()
    assert type(real).__module__ == "ray.remote_function"
    assert ray_cluster.get(real.options(num_cpus=0).remote(5)) == 6


def test_limits_become_options(ray_cluster: Any) -> None:  # noqa: F811
    @tool(num_cpus=0.5, memory="100MB")
    def resources() -> dict[str, Any]:
        import ray

        found: dict[str, Any] = ray.get_runtime_context().get_assigned_resources()
        return found

    assert asyncio.run(resources()) == {"CPU": 0.5, "memory": 100 << 20}


def test_calls_run_at_the_same_time(tmp_path: Path) -> None:
    @tool(num_cpus=0.5)
    def meet(name: str, other: str) -> bool:
        (tmp_path / name).touch()
        deadline = time.monotonic() + 60
        while not (tmp_path / other).exists():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    async def both() -> list[bool]:
        return list(await asyncio.gather(meet("a", "b"), meet("b", "a")))

    assert asyncio.run(both()) == [True, True]
    calls = [(meet, {"name": "c", "other": "d"}), (meet, {"name": "d", "other": "c"})]
    assert execute_tools(calls, parallel=True) == [True, True]


@tool(num_cpus=1, timeout=40)
def nested(depth: int) -> int:
    return 1 + nested.call_sync(depth - 1) if depth else 0


@tool(num_cpus=1, timeout=40)
async def nested_later(depth: int) -> int:
    return 1 + await nested_later(depth - 1) if depth else 0


def test_tools_that_wait_for_tools_do_not_hold_the_cpus() -> None:
    assert nested.call_sync(CPUS + 1) == CPUS + 1
    assert nested_later.call_sync(CPUS + 1) == CPUS + 1


def test_the_event_loop_goes_on_while_a_task_runs(tmp_path: Path) -> None:
    @tool(num_cpus=0.1, timeout=60)
    def slow() -> str:
        (tmp_path / "runs").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)
        return "done"

    async def run() -> str:
        task = asyncio.ensure_future(slow())
        await eventually((tmp_path / "runs").exists, "the tool runs")
        (tmp_path / "go").touch()
        result: str = await task
        return result

    assert asyncio.run(run()) == "done"


def test_batches_run_on_ray() -> None:
    batch = batch_tool([later])
    answer = batch("later", [{"x": n} for n in range(5)] + [{"y": 1}])
    assert answer["results"][:5] == [1, 2, 3, 4, 5]
    assert answer["errors"][:5] == [None] * 5 and "y" in str(answer["errors"][5])


# ---- failures ----


@pytest.mark.parametrize(
    "how, kind, text",
    [
        ("value", ValueError, "bad value"),
        ("custom", Custom, "two"),
        ("timeout", TimeoutError, "my own"),
        ("unsendable", ToolRaised, "Unsendable"),
        ("unbuildable", ToolRaised, "Unbuildable: both 2"),
        ("interrupt", ToolRaised, "KeyboardInterrupt"),
        ("stop", ToolRaised, "StopIteration"),
        ("result", ToolResultError, "cannot pickle"),
        ("generator", ToolResultError, "cannot pickle 'generator'"),
    ],
)
@pytest.mark.parametrize("sync", [False, True])
def test_what_a_tool_raises_comes_back(
    how: str, kind: type[Exception], text: str, sync: bool
) -> None:
    with pytest.raises(kind, match=text) as caught:
        fail.call_sync(how) if sync else asyncio.run(fail(how))
    assert type(caught.value) is kind
    assert isinstance(caught.value.__cause__, ToolTraceback)
    if kind is not ToolResultError:
        assert "in fail" in str(caught.value.__cause__)
        assert "\x1b" not in str(caught.value.__cause__)
    if isinstance(caught.value, ToolRaised):
        assert caught.value.type_name.rpartition(".")[2] in text
    if isinstance(caught.value, Custom):
        assert caught.value.number == 2


def test_an_async_generator_is_no_result() -> None:
    with pytest.raises(ToolResultError, match="cannot pickle 'async_generator'"):
        flow.call_sync()


def test_arguments_that_cannot_be_sent_are_named() -> None:
    lock: Any = threading.Lock()
    with pytest.raises(ToolArgumentError, match="'x'") as caught:
        asyncio.run(later(lock))
    assert caught.value.argument == "x"
    with pytest.raises(ToolArgumentError, match="'how'"):
        asyncio.run(fail(how=lock))


def test_functions_that_cannot_be_sent_are_refused() -> None:
    lock = threading.Lock()

    @tool
    def holds() -> bool:
        return lock.locked()

    with pytest.raises(ToolFunctionError, match="holds"):
        asyncio.run(holds())


def test_time_limit_ends_the_task(tmp_path: Path) -> None:
    @tool(num_cpus=0.1, timeout=1)
    def hang() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        while True:
            time.sleep(0.1)

    with pytest.raises(ToolTimeout, match="1 s"):
        asyncio.run(hang())
    _wait_gone(int((tmp_path / "pid").read_text()))


def test_time_limit_covers_the_wait_for_a_worker_and_says_so(tmp_path: Path) -> None:
    @tool(num_cpus=CPUS)
    def busy() -> None:
        (tmp_path / "busy").touch()
        time.sleep(600)

    @tool(num_cpus=CPUS, timeout=1)
    def never() -> None:
        pass

    async def run() -> None:
        task = asyncio.ensure_future(busy())
        await eventually((tmp_path / "busy").exists, "the cluster is full")
        with pytest.raises(
            ToolTimeout, match="1 s and was killed: this includes the time until Ray scheduled it"
        ):
            await never()
        task.cancel()

    asyncio.run(run())


def test_cancelling_the_await_ends_the_task(tmp_path: Path) -> None:
    @tool(num_cpus=0.1)
    def hang() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    async def run() -> None:
        task = asyncio.ensure_future(hang())
        await eventually((tmp_path / "pid").exists, "the tool runs")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    _wait_gone(int((tmp_path / "pid").read_text()))


def test_cancelling_while_a_task_is_sent_ends_it(
    ray_cluster: Any, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    sending, left, refs = threading.Event(), threading.Event(), []
    submit = RayEngine._submit

    def slow(*given: Any) -> Any:
        refs.append(submit(*given))
        sending.set()
        assert left.wait(60)
        return refs[0]

    @tool(num_cpus=0.1)
    def hang() -> None:
        time.sleep(600)

    async def run() -> None:
        task = asyncio.ensure_future(hang())
        await asyncio.to_thread(sending.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left.set()

    monkeypatch.setattr(RayEngine, "_submit", slow)
    asyncio.run(run())
    ended = (ray_cluster.exceptions.TaskCancelledError, ray_cluster.exceptions.WorkerCrashedError)
    with pytest.raises(ended):
        ray_cluster.get(refs[0], timeout=20)


def test_cancelling_before_a_task_is_sent_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, left, done = threading.Event(), threading.Event(), threading.Event()
    function_of, submit = RayEngine.remote_function, RayEngine._submit

    def slow(*given: Any) -> Any:  # as a Ray that is being started is
        starting.set()
        assert left.wait(60)
        return function_of(*given)

    def watched(*given: Any) -> Any:
        sent.append(submit(*given))
        done.set()

    @tool(num_cpus=0.1)
    def begins() -> None:
        pass

    async def run() -> None:
        task = asyncio.ensure_future(begins())
        await asyncio.to_thread(starting.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left.set()
        await asyncio.to_thread(done.wait)

    sent: list[Any] = []
    monkeypatch.setattr(RayEngine, "remote_function", slow)
    monkeypatch.setattr(RayEngine, "_submit", watched)
    asyncio.run(run())
    assert sent == [None]


@pytest.mark.parametrize("way", ["await", "remote"])
def test_a_task_that_is_cancelled_in_the_queue_never_begins(
    way: str,
    ray_cluster: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    @tool(num_cpus=CPUS)
    def holds() -> None:
        (tmp_path / "held").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)

    @tool(num_cpus=CPUS)
    def begins(name: str) -> None:
        (tmp_path / name).touch()

    async def main() -> None:
        first = asyncio.ensure_future(holds())
        await eventually((tmp_path / "held").exists, "the first tool runs")
        if way == "await":
            second = asyncio.ensure_future(begins("second"))
            await eventually(lambda: len(sent) == 2, "the second call is sent")
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
        else:
            ray_cluster.cancel(begins._remote_func.remote("second"))
        (tmp_path / "go").touch()
        await first
        await begins("third")

    def watched(*given: Any) -> Any:
        sent.append(submit(*given))
        return sent[-1]

    sent: list[Any] = []
    submit = RayEngine._submit
    monkeypatch.setattr(RayEngine, "_submit", watched)
    asyncio.run(main())
    assert (tmp_path / "third").exists() and not (tmp_path / "second").exists()


def _wait_gone(pid: int) -> None:
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{pid} is gone")


def count_and_die(file: Path) -> None:
    with file.open("a") as out:
        out.write("x")
    if len(file.read_text()) < 3:
        os._exit(3)


def test_a_call_whose_worker_dies_runs_once_unless_the_tool_says_more(tmp_path: Path) -> None:
    @tool(num_cpus=0.1)
    def once() -> str:
        count_and_die(tmp_path / "once")
        return "too often"

    @tool(num_cpus=0.1, retries=2)
    def thrice() -> str:
        count_and_die(tmp_path / "thrice")
        return "third try"

    with pytest.raises(ToolCrashed):
        asyncio.run(once())
    assert (tmp_path / "once").read_text() == "x"
    assert asyncio.run(thrice()) == "third try"
    assert (tmp_path / "thrice").read_text() == "xxx"


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"num_cpus": CPUS + 1}, f"asks for {CPUS + 1} CPUs, and the largest node has {CPUS}"),
        ({"num_gpus": 1}, "asks for 1 GPUs, and the largest node has 0"),
        ({"memory": "100TB"}, "bytes of memory"),
    ],
)
def test_more_than_the_cluster_has_is_refused(limits: dict[str, Any], says: str) -> None:
    def one() -> int:
        return 1

    large = tool(one, **limits)
    for call in (lambda: asyncio.run(large()), large.call_sync):
        with pytest.raises(ToolResourceError, match=says):
            call()


def test_what_fits_only_when_others_have_ended_waits(tmp_path: Path) -> None:
    @tool(num_cpus=CPUS)
    def all_of_it(n: int) -> int:
        return n

    async def both() -> list[int]:
        return list(await asyncio.gather(all_of_it(1), all_of_it(2)))

    assert asyncio.run(both()) == [1, 2]


def test_a_worker_that_always_dies_is_reported() -> None:
    @tool(num_cpus=0.1)
    def dies() -> None:
        os._exit(3)

    with pytest.raises(ToolCrashed, match="dies"):
        asyncio.run(dies())
    assert asyncio.run(later(1)) == 2  # others go on


# ---- the choice of the engine ----


def test_the_variable_wins_over_an_initialised_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_ENGINE", "local")
    assert engine.current().name == "local"
    monkeypatch.setenv("HUSK_ENGINE", "ray")
    assert isinstance(engine.current(), RayEngine)


def test_ray_is_started_at_the_first_call_when_asked_for() -> None:
    code = (
        "import asyncio, sys, husk\n"
        "@husk.tool(num_cpus=0.1)\n"
        "def add(a, b): return a + b\n"
        "assert 'ray' not in sys.modules\n"
        "print(asyncio.run(add(1, b=2)))\n"
        "print(asyncio.run(add(3, b=4)))  # Ray outlives the event loop that started it\n"
        "import ray\n"
        "print(ray.is_initialized())\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "HUSK_ENGINE": "ray"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["3", "7", "True"], done.stderr
