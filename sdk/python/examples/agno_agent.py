# SPDX-License-Identifier: Apache-2.0
"""An Agno agent whose tool runs the model's code in a sandbox.

    python sdk/python/examples/agno_agent.py

The model is a script, so this needs no key and no network; replace it with a real one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)
from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse

import husk

CODE = "import calendar\ncalendar.isleap(2100)"


@dataclass
class ScriptedModel(Model):
    """Stands in for the language model: writes code first, then a sentence with its result."""

    id: str = "scripted"

    def reply(self, messages: list[Message]) -> ModelResponse:
        """Returns the model's next answer."""
        last = messages[-1]
        if last.role == "tool":
            no = "" if last.content == "True" else "not "
            return ModelResponse(role="assistant", content=f"2100 is {no}a leap year.")
        function = {"name": "run_python", "arguments": json.dumps({"code": CODE})}
        call = {"id": "call-1", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    def invoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """One turn."""
        return self.reply(kwargs["messages"])

    async def ainvoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """One turn, awaited."""
        return self.reply(kwargs["messages"])

    def invoke_stream(self, *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
        """One turn, in one piece."""
        yield self.reply(kwargs["messages"])

    async def ainvoke_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ModelResponse]:
        """One turn, in one piece, awaited."""
        yield self.reply(kwargs["messages"])

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(content=str(response))

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return ModelResponse(content=str(response))


async def run_python(code: str) -> str:
    """Run Python code in a sandbox and return its output."""
    async with husk.AsyncSandbox() as sandbox:
        return (await sandbox.run(code)).text


agent = Agent(model=ScriptedModel(), tools=[run_python], telemetry=False)

if __name__ == "__main__":
    print(asyncio.run(agent.arun("Is 2100 a leap year?")).content)
