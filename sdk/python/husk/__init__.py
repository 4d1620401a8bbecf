# SPDX-License-Identifier: Apache-2.0
"""husk: run untrusted code from Python.

    from husk import Sandbox

    with Sandbox() as s:
        print(s.run("1 + 1").text)

Importing this package imports nothing else: each name is loaded from its module on first use.
A name is one row in each of the two lists below, which a test compares.
"""

# Where things are:
#   locate       finds the programs and a server
#   http         connections and the wire format
#   calls        the operations of /api/v1: requests and parsers of answers
#   results      results, events and records
#   client       Client and AsyncClient: any session
#   sandbox      Sandbox and AsyncSandbox: one session
#   interpreter  the sandbox functions of the rayai API
#   tools        the decorator, batches, tools of frameworks
#   engines      run tools: local processes, Ray tasks, boxes
#   agents       kinds of agents, their discovery and the worker of huskd
#   serving      serve() and serve_mcp(), Ray Serve

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = {
    # client
    "Sandbox": "husk.sandbox",
    "AsyncSandbox": "husk.sandbox.aio",
    "Client": "husk.client",
    "AsyncClient": "husk.client",
    "Result": "husk.results.result",
    "Output": "husk.results.result",
    "Event": "husk.results.events",
    "HuskError": "husk.errors",
    "RunError": "husk.errors",
    "SharedEnvSandbox": "husk.sandbox.shared_env",
    # tools
    "tool": "husk.tools",
    "Tool": "husk.tools",
    "execute_tools": "husk.tools.batch",
    "batch_tool": "husk.tools.batch",
    "BatchTool": "husk.tools.batch",
    "ToolError": "husk.tool_errors",
    # agents
    "Agent": "husk.agents.base",
    "AgentProtocol": "husk.agents.base",
    "serve": "husk.serving",
    "serve_mcp": "husk.serving",
    # sandbox functions
    "CodeInterpreterExecutor": "husk.interpreter",
    "cleanup_session": "husk.interpreter",
    "create_execute_python_tool": "husk.interpreter",
    "execute_code": "husk.interpreter",
    "execute_shell": "husk.interpreter",
    "get_session_stats": "husk.interpreter",
    "upload_file": "husk.interpreter",
}

if TYPE_CHECKING:
    from husk.agents.base import Agent as Agent
    from husk.agents.base import AgentProtocol as AgentProtocol
    from husk.client import AsyncClient as AsyncClient
    from husk.client import Client as Client
    from husk.errors import HuskError as HuskError
    from husk.errors import RunError as RunError
    from husk.interpreter import cleanup_session as cleanup_session
    from husk.interpreter import CodeInterpreterExecutor as CodeInterpreterExecutor
    from husk.interpreter import create_execute_python_tool as create_execute_python_tool
    from husk.interpreter import execute_code as execute_code
    from husk.interpreter import execute_shell as execute_shell
    from husk.interpreter import get_session_stats as get_session_stats
    from husk.interpreter import upload_file as upload_file
    from husk.results.events import Event as Event
    from husk.results.result import Output as Output
    from husk.results.result import Result as Result
    from husk.sandbox.aio import AsyncSandbox as AsyncSandbox
    from husk.sandbox import Sandbox as Sandbox
    from husk.sandbox.shared_env import SharedEnvSandbox as SharedEnvSandbox
    from husk.serving import serve_mcp as serve_mcp
    from husk.serving import serve as serve
    from husk.tool_errors import ToolError as ToolError
    from husk.tools.batch import batch_tool as batch_tool
    from husk.tools.batch import BatchTool as BatchTool
    from husk.tools.batch import execute_tools as execute_tools
    from husk.tools import Tool as Tool
    from husk.tools import tool as tool

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'husk' has no attribute '{name}'")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
