# SPDX-License-Identifier: Apache-2.0
"""An MCP server with the datasets of this project."""

from pathlib import Path

from mcp.server import MCPServer

import rayai

FOLDER = Path(__file__).resolve().parents[2] / "datasets"
server = MCPServer("datasets")


@server.tool()
def list_datasets() -> list[str]:
    """List the names of the datasets."""
    return sorted(file.stem for file in FOLDER.glob("*.csv"))


@server.tool()
def import_dataset(name: str) -> str:
    """Return a dataset as CSV.

    Args:
        name: one of list_datasets.
    """
    if name not in list_datasets():  # a name is never used as a path before it is known
        raise ValueError(f"there is no dataset {name!r}")
    return (FOLDER / f"{name}.csv").read_text()


rayai.serve_mcp(server, name="datasets", num_cpus=1, memory="512MB")
