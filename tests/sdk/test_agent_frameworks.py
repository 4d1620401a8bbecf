# SPDX-License-Identifier: Apache-2.0
"""Agents of the real frameworks with offline models: detected, run, streamed, their sessions and
errors.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_models import agno_model, langchain_model
from agent_ways import add, events, others, run, talk, text_of, texts

from husk.agents import kinds
from husk.agents.kinds.pydantic import History, trim

# ---- Pydantic AI ----


def pydantic_agent(**kwargs: Any) -> Any:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.test import TestModel

    return PydanticAgent(TestModel(), tools=[add], **kwargs)


def test_pydantic_ai() -> None:
    agent = pydantic_agent()
    assert kinds.detect(agent) == "pydantic_ai"
    assert run(agent) == '{"add":0}'
    pieces = texts(agent)
    assert "".join(pieces) == '{"add":0}' and len(pieces) > 1
    stream = events(agent)
    assert others(stream) == [
        {"type": "tool_call", "tool": "add", "input": {"x": 0, "y": 0}},
        {"type": "tool_result", "tool": "add", "output": 0},
    ]
    assert text_of(stream) == '{"add":0}'


def test_pydantic_ai_structured_output() -> None:
    import pydantic

    class City(pydantic.BaseModel):
        name: str

    agent = pydantic_agent(output_type=City)
    assert run(agent) == '{"name": "a"}'
    assert texts(agent) == ['{"name": "a"}']


def test_pydantic_ai_keeps_a_session() -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def count(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = [p for m in messages for p in m.parts if p.part_kind == "user-prompt"]
        return ModelResponse(parts=[TextPart(f"asked {len(asked)} times")])

    agent = PydanticAgent(FunctionModel(count))
    said = talk(agent, ("a", "s1"), ("b", "s1"), ("c", "s2"), ("d", "default"), ("e", "default"))
    assert said == [f"asked {n} times" for n in (1, 2, 1, 1, 1)]


def test_pydantic_ai_turns_of_a_session_follow_each_other() -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    async def count(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(0.01)
        asked = [p for m in messages for p in m.parts if p.part_kind == "user-prompt"]
        return ModelResponse(parts=[TextPart(str(len(asked)))])

    async def go() -> list[str]:
        adapter = await kinds.resolve(PydanticAgent(FunctionModel(count)))
        assert adapter.run is not None
        return list(await asyncio.gather(*(adapter.run("x", "s") for _ in range(5))))

    assert sorted(asyncio.run(go())) == ["1", "2", "3", "4", "5"]


def test_pydantic_ai_error() -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.function import FunctionModel

    def broken(messages: Any, info: Any) -> Any:
        raise RuntimeError("boom of the model")

    agent = PydanticAgent(FunctionModel(broken))
    with pytest.raises(RuntimeError, match="boom of the model"):
        run(agent, session="s")


def test_history_is_bounded() -> None:
    async def go() -> int:
        history = History(max_sessions=3, max_messages=10)
        for n in range(20):
            async with history.turn(f"s{n}") as session:
                history.keep(session, [])
        with pytest.raises(ValueError):
            for n in range(20):
                async with history.turn(f"f{n}"):
                    raise ValueError
        return len(history._sessions)

    assert asyncio.run(go()) <= 3


def test_trim_cuts_whole_turns_and_keeps_the_system_prompt() -> None:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    def turn(n: int, *first: Any) -> list[Any]:
        return [
            ModelRequest(parts=[*first, UserPromptPart(f"q{n}")]),
            ModelResponse(parts=[ToolCallPart("t", {}, tool_call_id=str(n))]),
            ModelRequest(parts=[ToolReturnPart("t", "r", tool_call_id=str(n))]),
            ModelResponse(parts=[TextPart(f"a{n}")]),
        ]

    messages = turn(0, SystemPromptPart("be brief")) + turn(1) + turn(2)
    assert trim(messages, 12) == messages
    kept = trim(messages, 7)  # the cut would be inside turn 1
    assert [p.part_kind for p in kept[0].parts] == ["system-prompt", "user-prompt"]
    assert kept[0].parts[1].content == "q2" and kept[1:] == messages[9:]
    assert trim(messages[:4], 2) == messages[:4]


# ---- LangChain and LangGraph ----


def langchain_agent(streaming: bool = True, **kwargs: Any) -> Any:
    from langchain.agents import create_agent
    from langchain_core.tools import tool

    return create_agent(langchain_model(streaming), [tool(add)], **kwargs)


@pytest.mark.parametrize("streaming", [True, False])
def test_langchain_agent(streaming: bool) -> None:
    agent = langchain_agent(streaming)
    assert kinds.detect(agent) == "langchain"
    assert run(agent).strip() == "the sum is 3"
    pieces = texts(agent)
    assert "".join(pieces).strip() == "the sum is 3"
    assert len(pieces) == (4 if streaming else 1)
    stream = events(agent)
    assert others(stream) == [
        {"type": "tool_call", "tool": "add", "input": {"x": 1, "y": 2}},
        {"type": "tool_result", "tool": "add", "output": "3"},
    ]
    assert text_of(stream).strip() == "the sum is 3"


def test_langgraph_thread_is_the_session() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    agent = langchain_agent(checkpointer=InMemorySaver())
    said = talk(agent, ("history", "s1"), ("history", "s1"), ("history", "s2"))
    assert [s.strip() for s in said] == ["asked 1 times", "asked 2 times", "asked 1 times"]


def test_langgraph_with_its_own_state() -> None:
    from typing_extensions import TypedDict

    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        question: str
        answer: str

    graph = StateGraph(State)
    graph.add_node("think", lambda state: {"answer": state["question"].upper()})
    graph.add_edge(START, "think")
    graph.add_edge("think", END)
    agent = graph.compile()
    assert run(agent, "why") == "WHY"
    assert texts(agent, "why") == ["WHY"]
    assert events(agent, "why") == [{"type": "text", "content": "WHY"}]


def test_langgraph_state_without_a_question_is_refused() -> None:
    from typing_extensions import TypedDict

    from langgraph.graph import START, StateGraph

    class State(TypedDict):
        left: str
        right: str

    graph = StateGraph(State)
    graph.add_node("think", lambda state: {"right": state["left"]})
    graph.add_edge(START, "think")
    with pytest.raises(TypeError, match="left, right"):
        run(graph.compile())


def test_langchain_chains() -> None:
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda

    prompt = ChatPromptTemplate.from_messages([("human", "history of {place}")])
    chain = prompt | langchain_model() | StrOutputParser()
    assert run(chain, "Rome").strip() == "asked 1 times"
    assert len(texts(chain, "Rome")) == 3
    assert text_of(events(chain, "Rome")).strip() == "asked 1 times"
    assert run(RunnableLambda(lambda text: text[::-1]), "abc") == "cba"
    assert run(langchain_model(), "history").strip() == "asked 1 times"


def test_langchain_chains_that_answer_with_an_object() -> None:
    from langchain_core.runnables import RunnableLambda, RunnableParallel

    one: Any = RunnableLambda(lambda text: {"city": text, "degrees": 7})
    two = RunnableParallel(a=RunnableLambda(lambda text: text), b=RunnableLambda(lambda text: 2))
    for agent in (one, two):
        whole = run(agent, "Oslo")
        assert "Oslo" in whole
        assert json.loads("".join(texts(agent, "Oslo"))) == json.loads(whole)
        assert json.loads(text_of(events(agent, "Oslo"))) == json.loads(whole)
    answer: Any = RunnableLambda(lambda text: {"answer": text, "degrees": 7})
    assert texts(answer, "Oslo") == ["Oslo"] and text_of(events(answer, "Oslo")) == "Oslo"


def test_langchain_session_of_message_history() -> None:
    from langchain_core.chat_history import InMemoryChatMessageHistory
    from langchain_core.runnables.history import RunnableWithMessageHistory

    stores: dict[str, InMemoryChatMessageHistory] = {}
    agent = RunnableWithMessageHistory(
        langchain_model(),
        lambda session_id: stores.setdefault(session_id, InMemoryChatMessageHistory()),
    )
    said = talk(agent, ("history", "s1"), ("history", "s1"), ("history", "s2"))
    assert [s.strip() for s in said] == ["asked 1 times", "asked 2 times", "asked 1 times"]
    assert sorted(stores) == ["s1", "s2"]


def test_langchain_error() -> None:
    for way in (run, texts, events):
        with pytest.raises(RuntimeError, match="boom of the model"):
            way(langchain_agent(), "boom")


# ---- Agno ----


def agno_agent(**kwargs: Any) -> Any:
    from agno.agent import Agent as AgnoAgent

    return AgnoAgent(model=agno_model(), tools=[add], telemetry=False, **kwargs)


def agno_team() -> Any:
    from agno.team import Team

    return Team(members=[agno_agent()], model=agno_model(), tools=[add], telemetry=False)


@pytest.mark.parametrize("make", [agno_agent, agno_team])
def test_agno(make: Any) -> None:
    agent = make()
    assert kinds.detect(agent) == "agno"
    assert run(agent).strip() == "the sum is 3"
    pieces = texts(agent)
    assert "".join(pieces).strip() == "the sum is 3" and len(pieces) == 4
    stream = events(agent)
    assert others(stream) == [
        {"type": "tool_call", "tool": "add", "input": {"x": 1, "y": 2}},
        {"type": "tool_result", "tool": "add", "output": "3"},
    ]
    assert text_of(stream).strip() == "the sum is 3"


def test_agno_session() -> None:
    from agno.db.in_memory import InMemoryDb

    database: Any = InMemoryDb
    agent = agno_agent(db=database(), add_history_to_context=True)
    said = talk(agent, ("history", "s1"), ("history", "s1"), ("history", "s2"))
    assert said == ["asked 1 times", "asked 2 times", "asked 1 times"]


@pytest.mark.parametrize("make", [agno_agent, agno_team])
def test_agno_error(make: Any) -> None:
    for way in (run, texts, events):
        with pytest.raises(RuntimeError, match="boom of the model"):
            way(make(), "boom")


def test_parts_of_frameworks_are_refused_by_name() -> None:
    from agno.workflow import Workflow
    from pydantic_ai import Tool
    from typing_extensions import TypedDict

    from langgraph.graph import StateGraph

    class State(TypedDict):
        question: str

    with pytest.raises(TypeError, match="StateGraph; compile"):
        kinds.detect(StateGraph(State))
    with pytest.raises(TypeError, match="agno.workflow.workflow.Workflow"):
        kinds.detect(Workflow(name="w"))
    with pytest.raises(TypeError, match="pydantic_ai.tools.Tool"):
        kinds.detect(Tool(add))


# ---- MCP ----


def test_mcp_servers_are_for_serve_mcp() -> None:
    from mcp.server import MCPServer

    with pytest.raises(TypeError, match="MCPServer is an MCP server; use serve_mcp"):
        kinds.detect(MCPServer("files"))
