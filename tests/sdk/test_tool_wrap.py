# SPDX-License-Identifier: Apache-2.0
"""`tool` and the real frameworks: their tool objects become tools of husk, and tools of husk work
in their agents.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from typing import Any, Optional

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("pydantic_ai")
pytest.importorskip("agno")

import agno.tools
import pydantic_ai
from agno.tools.function import Function, FunctionCall
from agno.tools.toolkit import Toolkit
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from husk import tool
from husk.engines import engine
from husk.tool_errors import ToolFunctionError


@pytest.fixture(scope="module", autouse=True)
def stop_workers() -> Any:
    yield
    engine.shutdown()


@tool
def where(query: str, limit: int = 3) -> str:
    """Says where it runs.

    Args:
        query: what to look for.
        limit: how much of it.
    """
    return json.dumps([query, limit, os.getpid()])


def is_elsewhere(answer: str, query: str, limit: int) -> bool:
    words, number, pid = json.loads(answer)
    return (words, number) == (query, limit) and pid != os.getpid()


# ---- tools of husk in the frameworks ----


def test_pydantic_ai_agent_sees_parameters_and_calls_it() -> None:
    seen: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        last = messages[-1].parts[-1]
        if last.part_kind == "tool-return":
            return ModelResponse(parts=[TextPart(str(last.content))])
        return ModelResponse(parts=[ToolCallPart("where", {"query": "husk", "limit": 5})])

    agent = pydantic_ai.Agent(FunctionModel(model), tools=[where])
    assert is_elsewhere(agent.run_sync("go").output, "husk", 5)
    (known,) = seen[0].function_tools
    assert known.name == "where"
    assert known.description is not None and "Says where it runs." in known.description
    schema = known.parameters_json_schema
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"] == {"type": "string", "description": "what to look for."}
    assert schema["properties"]["limit"]["type"] == "integer"


def test_langchain_makes_a_tool_of_it() -> None:
    made = langchain_tool(where)
    assert made.name == "where"
    assert set(made.args) == {"query", "limit"}
    assert made.args["limit"]["default"] == 3
    assert is_elsewhere(asyncio.run(made.ainvoke({"query": "a"})), "a", 3)


def test_agno_makes_a_function_of_it() -> None:
    made = Function.from_callable(where)
    assert made.name == "where"
    assert set(made.parameters["properties"]) == {"query", "limit"}
    made.process_entrypoint()
    call = FunctionCall(function=made, arguments={"query": "b", "limit": 1})
    asyncio.run(call.aexecute())
    assert call.error is None
    assert is_elsewhere(str(call.result), "b", 1)


# ---- tools of the frameworks in husk ----


def test_langchain_decorated_function() -> None:
    @langchain_tool
    def look(query: str, limit: int = 2) -> str:
        """Looks something up."""
        return json.dumps([query, limit, os.getpid()])

    wrapped = tool(look, num_cpus=0.5)
    assert inspect.iscoroutinefunction(wrapped)
    assert wrapped.__name__ == "look"
    assert wrapped._tool_metadata["description"] == "Looks something up."
    assert wrapped._tool_metadata["num_cpus"] == 0.5
    assert list(inspect.signature(wrapped).parameters) == ["query", "limit"]
    assert is_elsewhere(asyncio.run(wrapped("x", limit=4)), "x", 4)


def test_langchain_coroutine_with_another_name() -> None:
    async def fetch(query: str) -> str:
        return json.dumps([query, 0, os.getpid()])

    made = StructuredTool.from_function(coroutine=fetch, name="fetch-it", description="Fetches.")
    wrapped = tool(made)
    assert wrapped.__name__ == "fetch-it"
    assert wrapped.__doc__ == "Fetches."
    assert is_elsewhere(asyncio.run(wrapped("y")), "y", 0)


class Inputs(BaseModel):
    """Arguments of the class below."""

    limit: int = 9
    query: str


class Lookup(BaseTool):
    """A tool as a class of its own."""

    name: str = "lookup"
    description: str = "Looks up."
    args_schema: Any = Inputs
    prefix: str = ""

    def _run(self, query: str, limit: int = 1, run_manager: Optional[Any] = None) -> str:
        return json.dumps([self.prefix + query, limit, os.getpid()])


def test_langchain_class_keeps_its_fields_and_its_schema() -> None:
    wrapped = tool(Lookup(prefix=">"))
    parameters = inspect.signature(wrapped).parameters
    assert list(parameters) == ["limit", "query"]
    assert parameters["limit"].default == 9
    assert is_elsewhere(asyncio.run(wrapped(query="q")), ">q", 9)


def test_langchain_function_that_wants_its_config() -> None:
    @langchain_tool
    def configured(query: str, config: RunnableConfig) -> str:
        """Uses the config."""
        return json.dumps([query, len(config.get("tags", [])), os.getpid()])

    wrapped = tool(configured)
    assert list(inspect.signature(wrapped).parameters) == ["query"]
    assert is_elsewhere(asyncio.run(wrapped(query="c")), "c", 0)


def test_langchain_open_ended_function_gets_parameters_from_its_schema() -> None:
    def anything(**kwargs: Any) -> str:
        return json.dumps([kwargs["query"], kwargs.get("limit", 0), os.getpid()])

    made = StructuredTool.from_function(
        anything, name="anything", description="Takes anything.", args_schema=Inputs
    )
    wrapped = tool(made)
    assert list(inspect.signature(wrapped).parameters) == ["limit", "query"]
    assert is_elsewhere(asyncio.run(wrapped(query="k", limit=2)), "k", 2)


def test_pydantic_ai_tool() -> None:
    def search(query: str, limit: int = 6) -> str:
        """Searches."""
        return json.dumps([query, limit, os.getpid()])

    wrapped = tool(pydantic_ai.Tool(search, name="find", description="Finds."), memory="1GB")
    assert wrapped.__name__ == "find"
    assert wrapped._tool_metadata["description"] == "Finds."
    assert wrapped._original_func is search
    assert is_elsewhere(asyncio.run(wrapped("p")), "p", 6)


def test_agno_tool() -> None:
    @agno.tools.tool(name="agno_search")
    def search(query: str, limit: int = 8) -> str:
        """Searches with Agno."""
        return json.dumps([query, limit, os.getpid()])

    wrapped = tool(search)
    assert wrapped.__name__ == "agno_search"
    assert wrapped._tool_metadata["description"] == "Searches with Agno."
    assert list(inspect.signature(wrapped).parameters) == ["query", "limit"]
    assert is_elsewhere(asyncio.run(wrapped("g")), "g", 8)


# ---- what would be lost ----


def test_a_tool_with_a_check_before_it_is_refused() -> None:
    def harmless(x: int) -> int:
        """Does nothing."""
        return x

    with pytest.raises(ToolFunctionError, match="requires_approval"):
        tool(pydantic_ai.Tool(harmless, requires_approval=True))
    with pytest.raises(ToolFunctionError, match="requires_confirmation"):
        tool(agno.tools.tool(requires_confirmation=True)(harmless))


def test_a_toolkit_is_refused() -> None:
    kit: Any = Toolkit(name="kit")
    with pytest.raises(TypeError, match="set of tools"):
        tool(kit)


def test_an_agent_is_no_tool() -> None:
    agent: Any = pydantic_ai.Agent("test")
    with pytest.raises(TypeError, match="pydantic_ai"):
        tool(agent)
