# SPDX-License-Identifier: Apache-2.0
"""The local engine under faults: each one ends in a typed error, other calls go on, the worker is
replaced.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

import tool_samples
from engine_steps import hang, is_gone, pid, run
from waiting import PATIENCE
from husk import tool
from husk.engines.engine import ToolSpec
from husk.engines.local import process as tool_process
from husk.engines.local.engine import LocalEngine
from husk.engines.local.exchange import died
from husk.engines.local.process import Ending
from husk.tool_errors import (
    ToolCrashed,
    ToolOutOfMemory,
    ToolOutputTooLarge,
    ToolRaised,
    ToolResultError,
    ToolTimeout,
    ToolTraceback,
)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    made = LocalEngine(max_workers=4)
    yield made
    made.close()


def meet(folder: str, name: str, others: int) -> list[str]:
    """Waits until that many calls are in here at the same time."""
    Path(folder, name).touch()
    deadline = time.monotonic() + PATIENCE
    while len(os.listdir(folder)) < others:
        if time.monotonic() > deadline:
            raise TimeoutError("the others did not come")
        time.sleep(0.005)
    return sorted(os.listdir(folder))


# ---- many at once ----


def test_parallel_calls_run_at_the_same_time(engine: LocalEngine, tmp_path: Path) -> None:
    spec = ToolSpec("meet", meet)

    async def main() -> Any:
        return await asyncio.gather(
            *(engine.call(spec, (str(tmp_path), str(n), 4), {}) for n in range(4))
        )

    assert asyncio.run(main()) == [["0", "1", "2", "3"]] * 4


def test_a_worker_is_used_again(engine: LocalEngine) -> None:
    assert run(engine, pid) == run(engine, pid)


def test_calls_beyond_the_workers_wait_in_line(engine: LocalEngine) -> None:
    spec = ToolSpec("pid", pid)

    async def main() -> Any:
        return await asyncio.gather(*(engine.call(spec, (), {}) for _ in range(200)))

    assert len(set(asyncio.run(main()))) <= 4


def test_several_loops_and_threads_at_once(engine: LocalEngine) -> None:
    spec = ToolSpec("plain", tool_samples.plain)
    results: list[int] = []

    async def loop_main(base: int) -> None:
        results.extend(
            await asyncio.gather(*(engine.call(spec, (base + n,), {}) for n in range(25)))
        )

    def sync_main(base: int) -> None:
        results.extend(engine.call_sync(spec, (base + n,), {}) for n in range(25))

    threads = [
        threading.Thread(target=lambda b=base: asyncio.run(loop_main(b))) for base in (0, 100)
    ]
    threads += [threading.Thread(target=sync_main, args=(base,)) for base in (200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    expected = sorted(base + n + 100 for base in (0, 100, 200, 300) for n in range(25))
    assert sorted(results) == expected


def test_large_arguments_and_results(engine: LocalEngine) -> None:
    data = os.urandom(1 << 20) * 20
    spec = ToolSpec("back", lambda x: x[::-1])
    assert engine.call_sync(spec, (data,), {}) == data[::-1]
    assert asyncio.run(engine.call(spec, (data,), {})) == data[::-1]


def test_other_limits_make_room_when_all_places_are_taken() -> None:
    engine = LocalEngine(max_workers=1)
    try:
        first = run(engine, pid)
        assert run(engine, pid, num_cpus=0.5) != first
        assert is_gone(first)
    finally:
        engine.close()


# ---- faults ----


def raises() -> None:
    raise KeyError("missing")


def test_raises(engine: LocalEngine) -> None:
    before = run(engine, pid)
    with pytest.raises(KeyError, match="missing") as caught:
        run(engine, raises)
    assert isinstance(caught.value.__cause__, ToolTraceback)
    assert "in raises" in str(caught.value.__cause__)
    assert run(engine, pid) == before


def test_exceptions_keep_type_and_fields() -> None:
    with pytest.raises(tool_samples.SampleError) as caught:
        tool_samples.fail.call_sync(42)
    assert caught.value.number == 42


def test_exceptions_that_cannot_be_rebuilt_are_told() -> None:
    with pytest.raises(ToolRaised, match="Unrebuildable: this and that") as caught:
        tool_samples.fail_badly.call_sync()
    assert caught.value.type_name == "tool_samples.Unrebuildable"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, StopIteration])
def test_exceptions_that_would_mean_something_else_here(
    engine: LocalEngine, kind: type[BaseException]
) -> None:
    def interrupts() -> None:
        raise kind("x")

    with pytest.raises(ToolRaised) as caught:
        run(engine, interrupts)
    assert caught.value.type_name == kind.__name__

    async def awaits() -> None:
        await engine.call(ToolSpec("interrupts", interrupts), (), {})

    with pytest.raises(ToolRaised):
        asyncio.run(awaits())


def test_cancelled_error_of_a_tool_is_no_cancellation(engine: LocalEngine) -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ToolRaised, match="CancelledError"):
        asyncio.run(engine.call(ToolSpec("cancels", cancels), (), {}))


@pytest.mark.parametrize("how", ["sync", "async"])
def test_hangs(engine: LocalEngine, tmp_path: Path, how: str) -> None:
    spec = ToolSpec("hang", hang, timeout=0.5)
    file = tmp_path / "pid"
    with pytest.raises(ToolTimeout, match="0.5 s") as caught:
        if how == "sync":
            engine.call_sync(spec, (str(file),), {})
        else:
            asyncio.run(engine.call(spec, (str(file),), {}))
    assert isinstance(caught.value, TimeoutError)
    assert is_gone(int(file.read_text()))
    assert run(engine, pid) != int(file.read_text())


def test_timeout_does_not_count_the_start_of_the_worker(engine: LocalEngine) -> None:
    # Starting an interpreter takes longer than this.
    assert run(engine, pid, timeout=0.02) != os.getpid()


def leaves(code: Any) -> None:
    raise SystemExit(code)


def exits(code: int) -> None:
    os._exit(code)


@pytest.mark.parametrize(("func", "code"), [(exits, 3), (leaves, 4), (exits, 0), (leaves, None)])
def test_exits(engine: LocalEngine, func: Any, code: Any) -> None:
    before = run(engine, pid)
    with pytest.raises(ToolCrashed) as caught:
        run(engine, func, code)
    assert (caught.value.exit_code, caught.value.signal, caught.value.oom) == (
        code or 0,
        None,
        False,
    )
    assert run(engine, pid) != before


def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_dies_of_a_signal(engine: LocalEngine) -> None:
    with pytest.raises(ToolCrashed, match="SIGSEGV") as caught:
        run(engine, kills_itself)
    assert (caught.value.exit_code, caught.value.signal) == (None, signal.SIGSEGV)
    assert run(engine, pid)


def test_a_fault_leaves_other_calls_alone(engine: LocalEngine, tmp_path: Path) -> None:
    meeting = ToolSpec("meet", meet)
    exiting = ToolSpec("exits", exits)

    async def main() -> Any:
        waiting = asyncio.create_task(engine.call(meeting, (str(tmp_path), "a", 2), {}))
        with pytest.raises(ToolCrashed):
            await engine.call(exiting, (1,), {})
        return await asyncio.gather(waiting, engine.call(meeting, (str(tmp_path), "b", 2), {}))

    assert asyncio.run(main()) == [["a", "b"], ["a", "b"]]


def floods() -> None:
    line = b"x" * 65535 + b"\n"
    while True:
        os.write(1, line)


def test_floods_output(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool_process, "OUTPUT_LIMIT", 1 << 20)
    with pytest.raises(ToolOutputTooLarge):
        run(engine, floods)
    assert run(engine, pid)
    # Not much more than the limit came through.
    assert 1 << 20 <= len(capsys.readouterr().out) < 4 << 20


def eats(size: int) -> int:
    held = [b"x" * (1 << 20) for _ in range(size)]
    return len(held)


def test_exceeds_its_memory(engine: LocalEngine) -> None:
    with pytest.raises(ToolOutOfMemory) as caught:
        run(engine, eats, 400, memory_bytes=128 << 20)
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, ToolCrashed)
    assert caught.value.oom
    assert run(engine, eats, 20, memory_bytes=128 << 20) == 20


def test_a_child_that_exceeded_the_memory_is_not_the_worker() -> None:
    spec = ToolSpec("eats", eats, memory_bytes=128 << 20)
    worker = tool_process.WorkerProcess(tool_process.Limits(1, 128 << 20, 0), ())
    for ending in (Ending(exit_code=3, oom=True), Ending(signal=signal.SIGSEGV, oom=True)):
        error = died(spec, worker, ending, False)
        assert type(error) is ToolCrashed, error
        assert (error.exit_code, error.signal) == (ending.exit_code, ending.signal)
    assert isinstance(
        died(spec, worker, Ending(signal=signal.SIGKILL, oom=True), False), ToolOutOfMemory
    )


def burns(seconds: float) -> float:
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        pass
    return time.process_time()


def test_stays_within_its_cpus(engine: LocalEngine) -> None:
    before = run(engine, time.process_time, num_cpus=0.25)
    after = run(engine, burns, 1.0, num_cpus=0.25)
    # A quarter of a second, with room for the last period; without the limit it would be a whole
    # one.
    assert after - before < 0.5


def test_results_that_are_too_large(tmp_path: Path) -> None:
    script = tmp_path / "large.py"
    script.write_text(
        "from husk import tool\nfrom husk.tool_errors import ToolResultError\n"
        "@tool\ndef large(n):\n    return b'x' * n\n"
        "try:\n    large.call_sync(2000)\nexcept ToolResultError as error:\n    print(error)\n"
        "print(len(large.call_sync(500)))\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "HUSK_TOOL_RESULT_LIMIT": "1000"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "the limit is 1000" in done.stdout
    assert done.stdout.endswith("500\n")


def test_results_that_cannot_be_rebuilt_here(engine: LocalEngine) -> None:
    class Stays:
        def __reduce__(self) -> Any:
            return compile, ("1 +", "nowhere", "eval")

    with pytest.raises(ToolResultError, match="SyntaxError"):
        run(engine, Stays)
    assert run(engine, pid)


# ---- output ----


def talks() -> None:
    print("to stdout")
    print("to stderr", file=sys.stderr)
    os.system("echo from a child")


def test_output_is_passed_on_before_the_result(
    engine: LocalEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    run(engine, talks)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["to stdout", "from a child"]
    assert shown.err.splitlines() == ["to stderr"]


def test_tools_with_the_same_function_share_what_a_worker_has_loaded(engine: LocalEngine) -> None:
    specs = [ToolSpec("plain", tool_samples.plain) for _ in range(3)]
    assert [engine.call_sync(spec, (n,), {}) for n, spec in enumerate(specs)] == [100, 101, 102]
    (worker,) = engine._workers
    assert len(worker.defined) == 1


def test_decorated_with_limits_end_to_end() -> None:
    @tool(num_cpus=1, memory="256MB", timeout=30)
    def square(x: int) -> int:
        return x * x

    assert asyncio.run(square(12)) == 144


def test_output_without_flush_costs_no_result(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lines:
        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> None:
            self.text += text

    lines = Lines()
    # Only the caller shows the output then, and it would lose the result.
    monkeypatch.setattr(tool_process.Keeper, "_pump", lambda *_: None)
    monkeypatch.setattr(sys, "stdout", lines)
    run(engine, talks)
    assert lines.text.splitlines() == ["to stdout", "from a child"]
