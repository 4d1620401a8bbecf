# SPDX-License-Identifier: Apache-2.0
"""`execute_tools` and `batch_tool`: order, errors, many inputs, plain functions, from code with and
without a loop.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from pathlib import Path
from typing import Any

import pytest

from husk import BatchTool, batch_tool, execute_tools, tool
from husk.engines import engine


@pytest.fixture(scope="module", autouse=True)
def stop_workers() -> Any:
    yield
    engine.shutdown()


@tool
def double(x: int) -> int:
    """Doubles."""
    return x * 2


@tool
def careful(x: int) -> int:
    """Refuses negative numbers."""
    if x < 0:
        raise ValueError("Negative not allowed")
    return x


def triple(x: int) -> int:
    """A plain function."""
    return x * 3


async def later(x: int) -> int:
    """A plain coroutine function."""
    await asyncio.sleep(0)
    return x * 4


def log(file: Path, word: str) -> None:
    with file.open("a") as out:
        out.write(word)


# ---- execute_tools ----


@pytest.mark.parametrize("parallel", [False, True])
def test_results_come_in_order(parallel: bool) -> None:
    calls = [(double, {"x": 1}), (triple, {"x": 2}), (later, {"x": 3}), (double, {"x": 4})]
    assert execute_tools(calls, parallel=parallel) == [2, 6, 12, 8]
    assert execute_tools([], parallel=parallel) == []


def test_parallel_calls_overlap(tmp_path: Path) -> None:
    @tool
    def meet(name: str) -> int:
        (tmp_path / name).touch()
        deadline = time.monotonic() + 60
        while len(os.listdir(tmp_path)) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
        return len(os.listdir(tmp_path))

    assert execute_tools([(meet, {"name": n}) for n in "abc"], parallel=True) == [3, 3, 3]


def test_one_after_another_stops_at_the_first_error(tmp_path: Path) -> None:
    file = tmp_path / "log"
    calls = [
        (log, {"file": file, "word": "a"}),
        (careful, {"x": -1}),
        (log, {"file": file, "word": "b"}),
    ]
    with pytest.raises(ValueError, match="Negative"):
        execute_tools(calls)
    assert file.read_text() == "a"


def test_parallel_raises_the_first_error_in_order(tmp_path: Path) -> None:
    file = tmp_path / "log"
    calls = [
        (careful, {"x": 1}),
        (careful, {"x": -1}),
        (triple, {}),
        (log, {"file": file, "word": "b"}),
    ]
    with pytest.raises(ValueError, match="Negative"):
        execute_tools(calls, parallel=True)
    assert file.read_text() == "b"


def test_what_is_no_tool() -> None:
    with pytest.raises(TypeError, match="int"):
        execute_tools([(5, {})])


def test_inside_a_running_loop() -> None:
    async def main() -> list[Any]:
        return execute_tools([(double, {"x": 1}), (double, {"x": 2})], parallel=True)

    assert asyncio.run(main()) == [2, 4]


# ---- batch_tool ----


def test_batch() -> None:
    batch = batch_tool([double])
    assert batch(tool_name="double", tool_inputs=[{"x": 1}, {"x": 2}, {"x": 3}]) == {
        "results": [2, 4, 6],
        "errors": [None, None, None],
        "tool_name": "double",
        "count": 3,
    }


def test_alias_and_positional_use() -> None:
    assert isinstance(BatchTool, type)
    batch = BatchTool(tools=[double, triple, later])
    assert batch("double", [{"x": 5}])["results"] == [10]
    assert batch("triple", [{"x": 5}])["results"] == [15]
    assert batch("later", [{"x": 5}])["results"] == [20]


def test_no_inputs() -> None:
    batch = batch_tool([double])
    assert batch("double", []) == {
        "results": [],
        "errors": [],
        "tool_name": "double",
        "count": 0,
    }


def test_unknown_tool_is_one_error_per_input() -> None:
    result = batch_tool([double])("nothing", [{"x": 1}, {"x": 2}])
    assert result["results"] == [None, None]
    assert result["errors"] == ["Tool 'nothing' not found; available: double"] * 2
    assert (result["tool_name"], result["count"]) == ("nothing", 2)


def test_errors_stay_with_their_input() -> None:
    inputs: list[Any] = [{"x": 1}, {"x": -1}, {"y": 1}, "text", {"x": 2}]
    result = batch_tool([careful])("careful", inputs)
    assert result["results"] == [1, None, None, None, 2]
    first, *middle, last = result["errors"]
    assert (first, last) == (None, None)
    assert middle[0] == "ValueError: Negative not allowed"
    assert middle[1] is not None and middle[1].startswith("TypeError: ") and "'y'" in middle[1]
    assert middle[2] is not None and "must be a dict, not str" in middle[2]


def test_an_error_that_has_no_text_stays_with_its_input() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def mute(x: int) -> int:
        if x == 1:
            raise Mute
        return x

    result = batch_tool([mute])("mute", [{"x": n} for n in range(3)])
    assert result["results"] == [0, None, 2]
    assert result["errors"] == [None, "Mute: (its __str__ failed)", None]


def test_a_crash_is_the_error_of_one_input() -> None:
    @tool
    def fragile(x: int) -> int:
        if x == 1:
            os._exit(9)
        return x

    result = batch_tool([fragile])("fragile", [{"x": n} for n in range(4)])
    assert result["results"] == [0, None, 2, 3]
    assert "exited with code 9" in str(result["errors"][1])


def test_a_thousand_inputs() -> None:
    result = batch_tool([double])("double", [{"x": n} for n in range(1000)])
    assert result["results"] == [2 * n for n in range(1000)]
    assert result["errors"] == [None] * 1000
    assert result["count"] == 1000


def test_name_description_and_parameters_for_a_model() -> None:
    named = batch_tool([double], name="many", description="Does many.")
    assert (named.__name__, named.name, named.__doc__) == ("many", "many", "Does many.")
    assert named.description == "Does many."
    default = batch_tool([double, triple])
    assert default.__name__ == "batch"
    assert "double, triple" in default.description
    assert list(inspect.signature(default).parameters) == ["tool_name", "tool_inputs"]


def test_two_tools_of_one_name() -> None:
    with pytest.raises(ValueError, match="double"):
        batch_tool([double, double])


def test_in_a_pydantic_ai_agent() -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if last.part_kind == "tool-return":
            result: Any = last.content
            return ModelResponse(parts=[TextPart(str(result["results"]))])
        inputs = {"tool_name": "double", "tool_inputs": [{"x": 1}, {"x": 2}]}
        return ModelResponse(parts=[ToolCallPart("batch", inputs)])

    agent = Agent(FunctionModel(model), tools=[batch_tool([double])])
    assert agent.run_sync("go").output == "[2, 4]"
