# SPDX-License-Identifier: Apache-2.0
"""One kind of call, again and again, measured by the program that makes it.

    calls.py BUILD KIND [SOCKET]

KIND is tool (husk.tool on the local engine), pool (ProcessPoolExecutor), ray (a Ray task) or sandbox (Sandbox.run at the
server behind SOCKET). For each packet on descriptor 3 one measurement is made and answered: "ok" and milliseconds, of the
clock for the first three, of this process's CPU time for the last. All are awaited on an event loop that lives on, as
tools are by agents, but for the sandbox, which is the blocking class.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

WORKERS = 2
SANDBOX_RUNS = 50  # in one measurement: the clock of CPU time is coarse beside one run
REHEARSALS = 50

Call = Callable[[], Awaitable[int]]


def add(a: int, b: int) -> int:
    """What all of them carry out, elsewhere."""
    return a + b


def tool_call() -> Call:
    """Through husk.tool: a worker process with limits."""
    import husk

    add_tool: Any = husk.tool(add)
    return lambda: add_tool(20, 22)


def pool_call() -> Call:
    """Through the pool of the standard library."""
    pool = ProcessPoolExecutor(WORKERS)
    return lambda: asyncio.get_running_loop().run_in_executor(pool, add, 20, 22)


def ray_call() -> Call:
    """Through a Ray task."""
    import ray

    ray.init("local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    remote: Any = ray.remote(add)
    return lambda: remote.remote(20, 22)


async def measure_calls(control: socket.socket, call: Call) -> None:
    """Answers with the time of one call each."""
    for _ in range(REHEARSALS):
        await call()
    control.send(b"ready")
    while control.recv(100):
        begun = time.perf_counter_ns()
        result = await call()
        took = time.perf_counter_ns() - begun
        control.send(b"ok %f" % (took / 1e6) if result == 42 else b"a wrong result")


def measure_sandbox(control: socket.socket) -> None:
    """Answers with this process's CPU time per run."""
    import husk

    with husk.Sandbox() as sandbox:
        for _ in range(REHEARSALS):
            sandbox.run("6 * 7")
        control.send(b"ready")
        while control.recv(100):
            begun = time.process_time_ns()
            texts = {sandbox.run("6 * 7").text for _ in range(SANDBOX_RUNS)}
            took = time.process_time_ns() - begun
            good = texts == {"42"}
            control.send(b"ok %f" % (took / 1e6 / SANDBOX_RUNS) if good else b"a wrong result")


def main() -> None:
    """Ends when the other side does."""
    build, kind = Path(sys.argv[1]), sys.argv[2]
    sdk = str(Path(__file__).resolve().parents[2] / "sdk" / "python")
    sys.path.insert(0, sdk)
    os.environ.update(HUSK_BIN=str(build / "bin"), HUSK_ENGINE="local", PYTHONPATH=sdk)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    control = socket.socket(fileno=3)
    control.set_inheritable(False)
    if kind == "sandbox":
        os.environ["HUSK_SOCKET"] = sys.argv[3]
        measure_sandbox(control)
        return
    calls = {"tool": tool_call, "pool": pool_call, "ray": ray_call}
    asyncio.run(measure_calls(control, calls[kind]()))


if __name__ == "__main__":
    main()
