# SPDX-License-Identifier: Apache-2.0
"""A LangGraph agent: model and tools take turns until the model has an answer. Its code runs in a
sandbox.

    python sdk/python/examples/langgraph_agent.py

The model is a script, so this needs no key and no network; replace it with a real chat model.
"""

import asyncio
from typing import Any

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import husk

CODE = "sum(n for n in range(1000) if n % 3 == 0 or n % 5 == 0)"


class ScriptedModel(BaseChatModel):
    """Stands in for the language model: writes code first, then a sentence with its result."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(f"The sum is {last.content}.")
        else:
            call = {"name": "run_python", "args": {"code": CODE}, "id": "call-1"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


async def run_python(code: str) -> str:
    """Run Python code in a sandbox and return its output."""
    async with husk.AsyncSandbox() as sandbox:
        return (await sandbox.run(code)).text


model = ScriptedModel()


async def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
    """One turn of the model."""
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("think", think)
builder.add_node("tools", ToolNode([run_python]))
builder.add_edge(START, "think")
builder.add_conditional_edges("think", tools_condition)
builder.add_edge("tools", "think")
agent = builder.compile()

if __name__ == "__main__":
    question = HumanMessage("What is the sum of the multiples of 3 or 5 below 1000?")
    state = asyncio.run(agent.ainvoke({"messages": [question]}))
    for message in state["messages"]:
        print(f"{message.type}: {message.content or message.tool_calls[0]['args']['code']}")
