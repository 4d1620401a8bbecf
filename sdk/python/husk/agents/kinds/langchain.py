# SPDX-License-Identifier: Apache-2.0
"""Runnables of LangChain, including agents of `create_agent` and graphs of LangGraph.

The session is passed as `thread_id` (for LangGraph's checkpointers) and as `session_id` (for
RunnableWithMessageHistory). The input schema of a runnable decides how the query is passed: as a
list of messages, as a field of an object, or as text.
"""

from __future__ import annotations

import contextlib
from typing import Any, AsyncGenerator, Callable

from husk.agents.kinds import Adapter, as_text, type_name
from husk.errors import AgentTypeError

_QUESTION_KEYS = ("input", "query", "question", "prompt", "text", "topic")
_ANSWER_KEYS = ("output", "answer", "response", "result", "text")


def adapt(agent: Any) -> Adapter:
    make_input = _input_maker(agent)
    graph = any(
        c.__name__ == "PregelProtocol" or c.__name__ == "Pregel" for c in type(agent).__mro__
    )

    async def run(query: str, session_id: str) -> str:
        return _text(await agent.ainvoke(make_input(query), _config(session_id)))

    async def stream_text(query: str, session_id: str) -> AsyncGenerator[str, None]:
        texts = _graph_text if graph else _chunk_text
        async with contextlib.aclosing(
            texts(agent, make_input(query), _config(session_id))
        ) as chunks:
            async for chunk in chunks:
                yield chunk

    async def stream_events(query: str, session_id: str) -> AsyncGenerator[dict[str, Any], None]:
        raw = agent.astream_events(make_input(query), _config(session_id), version="v2")
        reader = _EventReader(graph)
        async with contextlib.aclosing(raw) as events:
            async for event in events:
                ours = reader.read(event)
                if ours is not None:
                    yield ours

    return Adapter("langchain", run=run, stream_text=stream_text, stream_events=stream_events)


def _config(session_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": session_id, "session_id": session_id}}


def _input_maker(agent: Any) -> Callable[[str], Any]:
    """Returns a function that converts a query to a runnable's input.

    Raises:
        AgentTypeError: it takes an object, and no key of it is clearly the query.
    """
    try:
        schema = agent.get_input_jsonschema()
    except Exception:  # types without a JSON schema: LangChain passes on pydantic's exceptions
        return lambda query: query
    properties = schema.get("properties")
    if schema.get("type") != "object" or not properties:
        return lambda query: query
    if "messages" in properties:
        return lambda query: {"messages": [{"role": "user", "content": query}]}
    wanted = schema.get("required") or list(properties)
    known = [key for key in _QUESTION_KEYS if key in properties]
    if len(wanted) != 1 and not known:
        raise AgentTypeError(
            f"{type_name(agent)} takes an object with the keys {', '.join(wanted)}, and it is not clear which of them "
            f"is the query; serve a function that calls it instead"
        )
    key = wanted[0] if len(wanted) == 1 else known[0]
    return lambda query: {key: query}


async def _graph_text(agent: Any, value: Any, config: dict[str, Any]) -> AsyncGenerator[str, None]:
    """Yields the tokens of a graph's models; for a graph without models, its answer."""
    said = False
    last: Any = None
    async for mode, data in agent.astream(value, config, stream_mode=["messages", "values"]):
        if mode == "values":
            last = data
        elif data[0].type in ("ai", "AIMessageChunk"):
            text = _message_text(data[0])
            if text:
                said = True
                yield text
    if not said and last is not None:
        yield _text(last)


async def _chunk_text(agent: Any, value: Any, config: dict[str, Any]) -> AsyncGenerator[str, None]:
    """Yields the pieces of a chain's answer; if none of them is text, the text of their sum."""
    said = False
    whole: Any = None
    async for chunk in agent.astream(value, config):
        text = _chunk(chunk)
        if text:
            said = True
            yield text
        if not said:
            whole = _joined(whole, chunk)
    if not said and whole is not None:
        yield _text(whole)


def _joined(whole: Any, chunk: Any) -> Any:
    """Adds like LangChain: a value that cannot be added replaces the sum."""
    if whole is None:
        return chunk
    try:
        return whole + chunk
    except TypeError:
        return chunk


class _EventReader:
    """Converts LangChain's events to ours. The text of a graph is that of its models; the text of a
    chain is its output.
    """

    def __init__(self, graph: bool) -> None:
        self._graph = graph
        # Runs of tools: text of a model inside a tool is not part of the answer.
        self._tools: set[str] = set()
        # Runs of models that streamed; for a chain its own run.
        self._spoken: set[str] = set()

    def read(self, event: dict[str, Any]) -> dict[str, Any] | None:
        kind, name, data = event["event"], event["name"], event["data"]
        if kind == "on_tool_start":
            self._tools.add(event["run_id"])
            return {"type": "tool_call", "tool": name, "input": data.get("input")}
        if kind == "on_tool_end":
            return {"type": "tool_result", "tool": name, "output": _tool_output(data.get("output"))}
        if kind == "on_tool_error":
            return {"type": "tool_result", "tool": name, "output": f"Error: {data.get('error')}"}
        text = self._model_text(event) if self._graph else self._own_text(event)
        return {"type": "text", "content": text} if text else None

    def _own_text(self, event: dict[str, Any]) -> str:
        if event["parent_ids"]:
            return ""
        if event["event"].endswith("_end"):
            return "" if self._spoken else _text(event["data"].get("output"))
        text = _chunk(event["data"].get("chunk")) if event["event"].endswith("_stream") else ""
        if text:
            self._spoken.add(event["run_id"])
        return text

    def _model_text(self, event: dict[str, Any]) -> str:
        kind, data = event["event"], event["data"]
        if kind == "on_chain_end" and not event["parent_ids"]:
            return "" if self._spoken else _text(data.get("output"))
        if not self._tools.isdisjoint(event["parent_ids"]):
            return ""
        text = ""
        if kind == "on_chat_model_stream":
            text = _message_text(data["chunk"])
        elif kind == "on_chat_model_end" and event["run_id"] not in self._spoken:
            text = _message_text(data["output"])
        if text:
            self._spoken.add(event["run_id"])
        return text


def _tool_output(output: Any) -> Any:
    return output.content if hasattr(output, "content") else output


def _chunk(chunk: Any) -> str:
    """Returns a piece of a chain's output; for an object only its answer, because an AgentExecutor
    also returns its steps.
    """
    if isinstance(chunk, dict):
        return next((_text(chunk[key]) for key in _ANSWER_KEYS if key in chunk), "")
    return _text(chunk)


def _text(value: Any) -> str:
    """Returns the answer in a runnable's result: text, a message, a graph's state, or an object with
    an answer.
    """
    if hasattr(value, "content") and hasattr(value, "type"):
        return _message_text(value)
    if isinstance(value, dict):
        messages = value.get("messages")
        if isinstance(messages, list) and messages:
            return _message_text(messages[-1])
        for key in _ANSWER_KEYS:
            if key in value:
                return _text(value[key])
        if len(value) == 1:
            return _text(next(iter(value.values())))
    return as_text(value)


def _message_text(message: Any) -> str:
    """Returns the text of a message; blocks of other kinds are left out."""
    content = getattr(message, "content", message)
    if not isinstance(content, list):
        return as_text(content)
    texts = (
        b if isinstance(b, str) else b.get("text", "")
        for b in content
        if isinstance(b, (str, dict))
    )
    return "".join(t for t in texts if isinstance(t, str))
