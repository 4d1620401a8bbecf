# SPDX-License-Identifier: Apache-2.0
"""Offline models for frameworks that have none that calls tools: they call add(x=1, y=2) once,
then say the sum.

A query with "boom" in it makes them fail; "history" makes them say how many messages of users they
were given.
"""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterator


def langchain_model(streaming: bool = True) -> Any:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

    def reply(messages: list[Any]) -> AIMessage:
        asked = [m for m in messages if m.type == "human"]
        if messages[-1].type == "tool":
            return AIMessage(content=f"the sum is {messages[-1].content}")
        if "boom" in asked[-1].content:
            raise RuntimeError("boom of the model")
        if "history" in asked[-1].content:
            return AIMessage(content=f"asked {len(asked)} times")
        call = {"name": "add", "args": {"x": 1, "y": 2}, "id": "call-1"}
        return AIMessage(content="", tool_calls=[call])

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "offline"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> Any:
            return ChatResult(generations=[ChatGeneration(message=reply(messages))])

    class StreamingModel(Model):
        def _stream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> Any:
            said = reply(messages)
            if said.tool_calls:
                yield ChatGenerationChunk(
                    message=AIMessageChunk(content="", tool_calls=said.tool_calls)
                )
            for word in str(said.content).split():
                yield ChatGenerationChunk(message=AIMessageChunk(content=word + " "))

    return StreamingModel() if streaming else Model()


def agno_model() -> Any:
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    def reply(messages: list[Any]) -> Any:
        asked = [m for m in messages if m.role == "user"]
        if messages[-1].role == "tool":
            return ModelResponse(content=f"the sum is {messages[-1].content}")
        if "boom" in str(asked[-1].content):
            raise RuntimeError("boom of the model")
        if "history" in str(asked[-1].content):
            return ModelResponse(content=f"asked {len(asked)} times")
        function = {"name": "add", "arguments": '{"x": 1, "y": 2}'}
        return ModelResponse(
            tool_calls=[{"id": "call-1", "type": "function", "function": function}]
        )

    class Offline(Model):
        def invoke(self, messages: Any = None, **kwargs: Any) -> Any:
            return reply(messages)

        async def ainvoke(self, messages: Any = None, **kwargs: Any) -> Any:
            return reply(messages)

        def invoke_stream(self, messages: Any = None, **kwargs: Any) -> Iterator[Any]:
            said = reply(messages)
            if not said.content:
                yield said
                return
            for word in said.content.split():
                yield ModelResponse(content=word + " ")

        async def ainvoke_stream(self, messages: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
            for part in self.invoke_stream(messages):
                yield part

        def _parse_provider_response(self, response: Any, **kwargs: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

    return Offline(id="offline")
