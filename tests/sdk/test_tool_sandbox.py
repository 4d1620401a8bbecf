# SPDX-License-Identifier: Apache-2.0
"""`tool(sandbox=True)`: source and JSON in, JSON, receipt and cost out; faults and what it
refuses.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from conftest import SdkServer
from eventually import eventually
from husk import Client, execute_tools, tool
from husk.tool_errors import (
    ToolArgumentError,
    ToolCrashed,
    ToolFunctionError,
    ToolOutOfMemory,
    ToolRaised,
    ToolResourceError,
    ToolResultError,
    ToolTimeout,
    ToolTraceback,
)

pytestmark = pytest.mark.usefixtures("server")

OUTSIDE = 5


@tool(sandbox=True, num_cpus=0.5, memory="96MB", timeout=20)
def measure(values: list[float], scale: float = 2.0) -> dict[str, Any]:
    """Adds up, in a box."""
    import os
    import statistics

    print("measuring")  # is kept
    return {"mean": statistics.mean(values) * scale, "user": os.getuid(), "text": '"""'}


def test_runs_in_a_box_with_receipt_and_cost() -> None:
    value = asyncio.run(measure([1, 2, 3]))
    assert value == {"mean": 4.0, "user": value["user"], "text": '"""'}
    run = measure.last_run
    assert run.value == value
    assert run.stdout == "measuring\n"
    assert run.receipt.isolation == "full"
    assert run.receipt.network == "none"
    assert run.receipt.limits["memory_bytes"] == 96 << 20
    assert run.receipt.limits["cpus"] == 0.5
    assert run.receipt.limits["timeout_ms"] == 20_000
    assert run.cost.cpu_time_ms > 0


def test_run_returns_everything_of_its_own_call() -> None:
    async def main() -> Any:
        return await asyncio.gather(measure.run([1]), measure.run([5]))

    first, second = asyncio.run(main())
    assert (first.value["mean"], second.value["mean"]) == (2.0, 10.0)


def test_without_a_loop_and_by_remote() -> None:
    assert measure.call_sync([2], scale=3)["mean"] == 6
    assert measure._remote_func.remote([2], scale=1).result(60)["mean"] == 2
    assert execute_tools([(measure, {"values": [1]})] * 2, parallel=True)[1]["mean"] == 2


def test_keeps_what_a_tool_has() -> None:
    assert measure._rayai_tool is True
    assert measure._tool_metadata["memory"] == "96MB"
    assert measure.__name__ == "measure"


def test_coroutines_recursion_nested_functions_and_foreign_annotations() -> None:
    @tool(sandbox=True)
    async def deep(n: int, hint: "SdkServer | None" = None) -> list[int]:
        import asyncio

        class Box:
            name = __name__
            doubled = [2 * x for x in range(5)]

        def inner(x: int) -> int:
            return Box.doubled[x] + n

        await asyncio.sleep(0)
        return [inner(n)] + (await deep(n - 1) if n else [])

    assert asyncio.run(deep(2)) == [6, 3, 0]


def test_boxes_are_gone_afterwards() -> None:
    measure.call_sync([1])
    with Client() as client:
        assert [s.id for s in client.list_sessions()] == []


# ---- faults ----


def test_raises() -> None:
    @tool(sandbox=True)
    def fails(x: int) -> int:
        def check(x: int) -> int:
            raise ValueError(f"{x} is wrong")

        return check(x)

    with pytest.raises(ValueError, match="7 is wrong") as caught:
        asyncio.run(fails(7))
    assert isinstance(caught.value.__cause__, ToolTraceback)
    assert "<tool fails>" in str(caught.value.__cause__)
    with pytest.raises(TypeError, match="missing 1 required"):
        fails.call_sync()


def test_raises_a_key_error_that_is_quoted_once() -> None:
    @tool(sandbox=True)
    def fails(key: str) -> None:
        raise KeyError(int(key) if key.isdigit() else key)

    for given, key in (("it's", "it's"), ("7", 7)):
        with pytest.raises(KeyError) as caught:
            fails.call_sync(given)
        assert caught.value.args == (key,)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="has no exception groups")
def test_raises_a_group() -> None:
    @tool(sandbox=True)
    def fails() -> None:
        group = getattr(__import__("builtins"), "ExceptionGroup")
        raise group("several", [ValueError("one")])

    with pytest.raises(ToolRaised, match="ExceptionGroup: several") as caught:
        fails.call_sync()
    assert caught.value.type_name == "ExceptionGroup"


def test_raises_what_only_the_box_knows() -> None:
    @tool(sandbox=True)
    def fails() -> None:
        class Own(Exception):
            pass

        raise Own("only here")

    with pytest.raises(ToolRaised, match="Own: only here") as caught:
        fails.call_sync()
    assert caught.value.type_name.endswith("Own")


def test_hangs() -> None:
    @tool(sandbox=True, timeout=1)
    def hangs() -> None:
        while True:
            pass

    with pytest.raises(ToolTimeout, match="1 s"):
        hangs.call_sync()


def test_exceeds_its_memory() -> None:
    @tool(sandbox=True, memory="64MB")
    def eats() -> int:
        return len([b"x" * 1_000_000 for _ in range(500)])

    with pytest.raises(ToolOutOfMemory):
        eats.call_sync()


@pytest.mark.parametrize("how", ["os._exit(3)", "raise SystemExit(3)"])
def test_exits(how: str, tmp_path: Any) -> None:
    # The source has to be in a file.
    file = tmp_path / "exits.py"
    file.write_text(f"def exits():\n    import os\n    {how}\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(ToolCrashed) as caught:
        tool(names["exits"], sandbox=True).call_sync()
    assert caught.value.exit_code == 3


def test_has_no_network_and_no_files_of_the_host() -> None:
    @tool(sandbox=True)
    def looks(path: str) -> list[str]:
        import os
        import socket

        found = []
        try:
            socket.create_connection(("1.1.1.1", 53), 1)
            found.append("network")
        except OSError:
            pass
        if os.path.exists(path):
            found.append(path)
        return found

    assert looks.call_sync(__file__) == []


def test_large_values_go_both_ways() -> None:
    @tool(sandbox=True)
    def back(text: str) -> str:
        return text[::-1]

    text = "".join(chr(0x4E00 + n % 1000) for n in range(300_000))
    assert back.call_sync(text) == text[::-1]


def test_results_that_are_no_json() -> None:
    @tool(sandbox=True)
    def odd(kind: str) -> Any:
        return {"set": {1, 2}, "keys": {1: 2}, "deep": [{"a": [b"x"]}], "fine": (1, None)}[kind]

    with pytest.raises(ToolResultError, match="is a set"):
        odd.call_sync("set")
    with pytest.raises(ToolResultError, match="the key 1"):
        odd.call_sync("keys")
    with pytest.raises(ToolResultError, match=r"\[0\]\['a'\]\[0\] is a bytes"):
        odd.call_sync("deep")
    assert odd.call_sync("fine") == [1, None]


# ---- what is refused ----


def test_names_from_outside_are_named() -> None:
    inner = 1

    with pytest.raises(ToolFunctionError, match="OUTSIDE, inner, json") as caught:

        @tool(sandbox=True)
        def uses(x: int = OUTSIDE) -> str:
            def nested() -> str:
                return json.dumps(inner)

            return nested()

    assert isinstance(caught.value, TypeError)


def test_what_has_no_definition() -> None:
    with pytest.raises(ToolFunctionError, match="defined with def"):
        tool(lambda x: x, sandbox=True)
    with pytest.raises(ToolFunctionError, match="source"):
        tool(len, sandbox=True)


def test_arguments_that_are_no_json_are_named() -> None:
    with pytest.raises(ToolArgumentError, match=r"'values' .*values\[1\] is a set") as caught:
        measure.call_sync([1, {2}])
    assert caught.value.argument == "values"
    thing: Any = object()
    with pytest.raises(ToolArgumentError) as caught:
        asyncio.run(measure([1], scale=thing))
    assert caught.value.argument == "scale"


def test_limits_that_boxes_do_not_have() -> None:
    def nothing() -> None:
        pass

    with pytest.raises(ToolResourceError, match="GPU"):
        tool(nothing, sandbox=True, num_gpus=1)
    with pytest.raises(ValueError, match="3600"):
        tool(nothing, sandbox=True, timeout=4000)


def test_cancelling_ends_the_box() -> None:
    @tool(sandbox=True, timeout=60)
    def hangs() -> None:
        import time

        time.sleep(1000)

    async def main() -> None:
        task = asyncio.create_task(hangs())
        with Client() as client:
            await eventually(lambda: [*client.list_sessions(status="running")], "it runs")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [s.id for s in client.list_sessions()] == []

    asyncio.run(asyncio.wait_for(main(), 60))
