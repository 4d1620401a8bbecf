# SPDX-License-Identifier: Apache-2.0
"""An agent that analyses datasets of an MCP server: the data stays in a sandbox, the answer is what
the code prints.
"""

import os
from collections.abc import AsyncIterator
from typing import Any

import rayai
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from husk import AsyncSandbox

MCP = os.environ.get("ANALYZER_MCP", "http://127.0.0.1:8000/datasets/mcp")
CODE = """
import csv
totals = {}
for row in csv.DictReader(open("data.csv")):
    totals[row[KEY]] = totals.get(row[KEY], 0) + float(row["amount"])
for name, total in sorted(totals.items(), key=lambda item: -item[1]):
    print(f"{name}: {total:g}")
"""


async def ask(tool: str, **arguments: Any) -> Any:
    """Calls a tool of the MCP server."""
    async with streamable_http_client(MCP) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            result = await session.call_tool(tool, arguments)
            structured: Any = result.structured_content
            return structured["result"]


class Analyzer(rayai.Agent):
    """Answers queries of the form `DATASET by COLUMN`."""

    async def run(self, query: str) -> str:
        return "".join([text async for text in self.run_stream(query)])

    async def run_stream(self, query: str) -> AsyncIterator[str]:
        """Yields what the agent does, then the result."""
        name, _, column = query.partition(" by ")
        known = await ask("list_datasets")
        if name not in known or not column.isidentifier():
            yield f"Ask for DATASET by COLUMN; datasets: {', '.join(known)}."
            return
        async with AsyncSandbox() as sandbox:
            data = await ask("import_dataset", name=name)
            await sandbox.files.write("data.csv", data)
            yield f"{len(data.splitlines()) - 1} rows of {name} by {column}\n"
            result = await sandbox.run(f"KEY = {column!r}{CODE}")
            yield result.text


rayai.serve(Analyzer(), name="analyzer", num_cpus=1, memory="512MB")
