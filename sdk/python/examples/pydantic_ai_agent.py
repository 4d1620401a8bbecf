# SPDX-License-Identifier: Apache-2.0
"""A Pydantic AI agent with two tools: one runs in a worker process with limits, one runs the
model's code in a sandbox.

    python sdk/python/examples/pydantic_ai_agent.py

The model is a script, so this needs no key and no network; replace it with the name of a real one.
"""

import asyncio

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import husk

CODE = "import statistics\nstatistics.mean(len(w) for w in 'a box of no network'.split())"


@husk.tool(num_cpus=1, memory="256MB")
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


async def run_python(code: str) -> str:
    """Run Python code in a sandbox and return its output."""
    async with husk.AsyncSandbox() as sandbox:
        return (await sandbox.run(code)).text


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for the language model: calls both tools first, then writes a sentence with their
    answers.
    """
    answers = {
        part.tool_name: part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    if not answers:
        return ModelResponse(
            parts=[
                ToolCallPart("count_words", {"text": "a box of no network"}),
                ToolCallPart("run_python", {"code": CODE}),
            ]
        )
    words, mean = answers["count_words"], answers["run_python"]
    return ModelResponse(parts=[TextPart(f"{words} words, {mean} letters each on average.")])


agent = Agent(FunctionModel(model), tools=[count_words, run_python])

if __name__ == "__main__":
    result = asyncio.run(
        agent.run("How many words has 'a box of no network', and how long are they?")
    )
    print(result.output)
