# SPDX-License-Identifier: Apache-2.0
"""Workers of the local engine from start to end: cancelling, closing, forking, the caller's death,
limits not to be had.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from engine_steps import hang, is_gone, pid, run
from eventually import eventually
from waiting import PATIENCE, wait_until

from husk import tool
from husk.engines.engine import ToolSpec
from husk.engines.local.engine import LocalEngine
from husk.tool_errors import ToolCrashed, ToolError, ToolResourceError


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    made = LocalEngine(max_workers=4)
    yield made
    made.close()


# ---- cancelling, closing, forking ----


def test_cancelling_ends_the_call(engine: LocalEngine, tmp_path: Path) -> None:
    file = tmp_path / "pid"

    async def main() -> None:
        task = asyncio.create_task(engine.call(ToolSpec("hang", hang), (str(file),), {}))
        await eventually(lambda: file.exists() and file.read_text(), "it runs")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert is_gone(int(file.read_text()))
    assert run(engine, pid)


@pytest.mark.parametrize("way", ["await", "remote"])
def test_a_call_that_is_cancelled_while_it_waits_for_a_worker_never_begins(
    way: str, tmp_path: Path
) -> None:
    engine = LocalEngine(max_workers=1)
    spec = ToolSpec("mkdir", os.mkdir)

    async def main() -> None:
        first = asyncio.create_task(engine.call(ToolSpec("nap", time.sleep), (0.3,), {}))
        await asyncio.sleep(0)
        if way == "await":
            second: Any = asyncio.create_task(engine.call(spec, (str(tmp_path / "2"),), {}))
        else:
            second = engine.remote_function(spec).remote(str(tmp_path / "2"))
        third = asyncio.create_task(engine.call(spec, (str(tmp_path / "3"),), {}))
        await asyncio.sleep(0)
        second.cancel()
        await first
        assert second.cancelled()
        await third

    try:
        asyncio.run(asyncio.wait_for(main(), PATIENCE))
        assert [made.name for made in tmp_path.iterdir()] == ["3"]
    finally:
        engine.close()


def test_closing_fails_what_runs_and_what_waits_and_can_be_followed_by_a_call() -> None:
    engine = LocalEngine(max_workers=1)
    errors: list[Exception] = []

    def call() -> None:
        try:
            run(engine, time.sleep, PATIENCE)
        except ToolError as error:
            errors.append(error)

    first = run(engine, pid)
    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: any(engine._waiting.values()), "a call waits")
    engine.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(errors) == 2
    assert is_gone(first)
    assert run(engine, pid) != first
    engine.close()


def test_a_worker_that_died_while_idle_is_not_noticed(engine: LocalEngine) -> None:
    first = run(engine, pid)
    os.kill(first, signal.SIGKILL)
    assert is_gone(first)
    wait_until(lambda: not engine._workers, "the engine has noticed")
    assert run(engine, pid) != first


def test_idle_workers_leave(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("husk.engines.local.engine.IDLE_SECONDS", 0.1)
    first = run(engine, pid)
    assert is_gone(first)
    assert run(engine, pid) != first


def test_a_forked_child_has_workers_of_its_own(engine: LocalEngine) -> None:
    parents = run(engine, pid)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = run(engine, pid)
            engine.close()
            os.write(write, str(found).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        children = int(pipe.read())
    os.waitpid(child, 0)
    assert children != parents
    assert run(engine, pid) == parents


SCRIPT = """
import os, sys, time
from husk import tool
@tool
def nested():
    import subprocess
    child = subprocess.Popen(["sleep", "1000"])
    return [os.getpid(), child.pid]
print(*nested.call_sync(), flush=True)
time.sleep(1000)
"""


def test_workers_and_what_they_started_end_with_the_caller(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = [int(word) for word in process.stdout.readline().split()]
        assert len(started) == 2
        process.kill()
    for number in started:
        assert is_gone(number)


def test_the_end_of_a_script_is_quiet_and_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("time.sleep(1000)", ""))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
    for word in done.stdout.split():
        assert is_gone(int(word))


def test_an_interrupt_ends_a_blocking_call(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import os, time
from husk import tool
@tool
def nap():
    print(os.getpid(), flush=True)
    time.sleep(1000)
try:
    nap.call_sync()
except KeyboardInterrupt:
    print("interrupted", flush=True)
""")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(PATIENCE) == 0
    assert is_gone(worker)


# ---- limits that are not available ----


def test_no_husk_program(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HUSK_BIN", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="husk"):
        run(engine, pid)


def test_no_descriptor_for_a_worker_costs_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LocalEngine(max_workers=1)
    first = run(engine, pid)  # the engine's own descriptors are open from here on

    def refuse(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    try:
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not engine._workers, "the engine has noticed")
        with monkeypatch.context() as patched:
            patched.setattr(os, "pipe2", refuse)
            with pytest.raises(OSError, match="Too many open files"):
                run(engine, pid)
        assert not engine._workers
        assert run(engine, pid) != first
    finally:
        engine.close()


def test_a_refusal_of_husk_limited_reaches_the_caller(engine: LocalEngine) -> None:
    with pytest.raises(ToolCrashed, match="could not be started: .+"):
        run(engine, pid, memory_bytes=1)


def test_gpus_that_are_not_there(engine: LocalEngine) -> None:
    none = LocalEngine(gpus=[])
    with pytest.raises(ToolResourceError, match="1 GPUs and this machine has 0"):
        run(none, pid, num_gpus=1)


def visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def test_gpus_are_handed_to_one_worker_each() -> None:
    engine = LocalEngine(gpus=["4", "7"])
    spec = ToolSpec("visible", visible, num_gpus=1)

    async def main() -> Any:
        return await asyncio.gather(*(engine.call(spec, (), {}) for _ in range(6)))

    try:
        assert set(asyncio.run(main())) <= {"4", "7"}
        # Both are held by idle workers now, which have to leave for this one.
        assert sorted(run(engine, visible, num_gpus=2).split(",")) == ["4", "7"]
        assert run(engine, visible, num_gpus=0.5) in ("4", "7")
        with pytest.raises(ToolResourceError):
            run(engine, visible, num_gpus=3)
    finally:
        engine.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_weaker_limits_and_is_told(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    script = tmp_path / "script.py"
    script.write_text("""
import json, os, warnings
os.setgid(65534); os.setuid(65534)
os.environ["HOME"] = "/"
from husk import tool
@tool(memory="400MB")
def eat(n):
    return len(bytearray(n << 20))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fine = eat.call_sync(1)
    try:
        eat.call_sync(800)
        error = "none"
    except MemoryError as e:
        error = type(e).__name__
    eat.call_sync(1)
print(json.dumps([fine, error, [w.category.__name__ for w in caught]]))
""")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    fine, error, warned = json.loads(done.stdout)
    assert fine == 1 << 20
    assert error in ("MemoryError", "ToolOutOfMemory")
    assert warned == ["LimitsWarning"]  # once: no cgroups are delegated to the user `nobody`


# ---- repeated calls ----


def test_a_call_whose_worker_dies_runs_once_unless_the_tool_says_more(tmp_path: Path) -> None:
    def count_and_die(name: str) -> str:
        with (tmp_path / name).open("a") as out:
            out.write("x")
        if len((tmp_path / name).read_text()) % 3:
            os._exit(3)
        return "third try"

    once, thrice = tool(count_and_die), tool(count_and_die, retries=2)
    with pytest.raises(ToolCrashed):
        once.call_sync("once")
    assert (tmp_path / "once").read_text() == "x"
    assert thrice.call_sync("sync") == asyncio.run(thrice("async")) == "third try"
    assert (tmp_path / "sync").read_text() == (tmp_path / "async").read_text() == "xxx"
    future = thrice._remote_func.remote("future")
    assert future.result(60) == "third try"


@pytest.mark.parametrize("arguments", [{"retries": -1}, {"retries": 1.5}, {"retries": True}])
def test_retries_that_make_no_sense(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="retries"):
        tool(**arguments)
    with pytest.raises(ValueError, match="sandbox"):
        tool(sandbox=True, retries=1)
