# SPDX-License-Identifier: Apache-2.0
"""A finance agent: fetches prices in parallel and lets the model analyse them in a sandbox."""

import json
import os
import random
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import rayai
from rayai.sandbox import execute_code

# By weight in the index. Replace both with calls of a market data service.
SHARES = ["NVDA", "MSFT", "AAPL", "AMZN", "META", "AVGO", "GOOGL"]


@rayai.tool(num_cpus=1, memory="256MB")
def get_top_shares(limit: int = 5) -> list[str]:
    """Get the symbols of the largest companies of the index.

    Args:
        limit: how many.
    """
    return SHARES[:limit]


@rayai.tool(num_cpus=1, memory="256MB")
def get_daily_prices(symbol: str, days: int = 20) -> list[float]:
    """Get the closing prices of a share, oldest first.

    Args:
        symbol: such as MSFT.
        days: how many days.
    """
    if symbol not in SHARES:
        raise ValueError(f"there is no share {symbol!r}")
    walk, price = random.Random(symbol), 100.0
    return [price := round(price * (1 + walk.gauss(0, 0.02)), 2) for _ in range(days)]


async def run_analysis_code(code: str, session_id: str = "finance") -> str:
    """Run Python code in a sandbox and return what it prints. Variables stay for the next call.

    Args:
        code: the source.
        session_id: calls with the same id share variables.
    """
    result = execute_code(code, session_id=session_id, timeout=30)
    if result.status == "success":
        return str(result.stdout)
    return f"Error: {result.get('stderr') or result.get('error')}"


# ---- the agent ----

PROMPT = """You answer questions about shares. Get the symbols and prices with the tools, then
compute with run_analysis_code; do not compute in your head."""

CODE = """
prices = {prices}
moves = {{name: max(p) / min(p) - 1 for name, p in prices.items()}}
name = max(moves, key=moves.get)
print(f"{{name}} moved most: {{moves[name]:.1%}} between its lowest and highest close")
"""


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for the language model: symbols, then prices, then code, then the answer."""
    answers: dict[str, list[Any]] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                answers.setdefault(part.tool_name, []).append(part.content)
    if "run_analysis_code" in answers:
        return ModelResponse(parts=[TextPart(str(answers["run_analysis_code"][0]).strip())])
    if "get_daily_prices" in answers:
        prices = dict(zip(answers["get_top_shares"][0], answers["get_daily_prices"]))
        code = CODE.format(prices=json.dumps(prices))
        return ModelResponse(parts=[ToolCallPart("run_analysis_code", {"code": code})])
    if "get_top_shares" in answers:
        calls = [
            ToolCallPart("get_daily_prices", {"symbol": s}) for s in answers["get_top_shares"][0]
        ]
        return ModelResponse(parts=calls)
    return ModelResponse(parts=[ToolCallPart("get_top_shares", {"limit": 3})])


agent = Agent(
    "openai:gpt-4o-mini" if os.environ.get("OPENAI_API_KEY") else FunctionModel(script),
    system_prompt=PROMPT,
    tools=[get_top_shares, get_daily_prices, run_analysis_code],
)

rayai.serve(agent, name="finance", num_cpus=1, memory="1GB")
