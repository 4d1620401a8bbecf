# SPDX-License-Identifier: Apache-2.0
"""rayai: the names of the rayai API, implemented by husk.

    import rayai

    @rayai.tool(num_cpus=1)
    def search(query: str) -> str: ...

    rayai.serve(agent, name="myagent", num_cpus=1, memory="2GB")

`rayai.Sandbox` is the sandbox for agents of `rayai.sandbox`, not `husk.Sandbox`. Importing this
package imports nothing else: each name is loaded from its module on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# The import of a submodule sets the attribute of its name, once: the module first, so that the name
# can then be the function. The module itself imports nothing else.
import rayai.serve as _serve_module

_MODULES = {
    "Agent": "husk.agents.base",
    "AgentProtocol": "husk.agents.base",
    "BatchTool": "husk.tools.batch",
    "batch_tool": "husk.tools.batch",
    "execute_tools": "husk.tools.batch",
    "serve": "husk.serving",
    "serve_mcp": "husk.serving",
    "tool": "husk.tools",
    "Sandbox": "husk.interpreter.agent_sandbox",
    "__version__": "husk",
}

del _serve_module
globals().pop("serve", None)

if TYPE_CHECKING:
    from husk import __version__ as __version__
    from husk.agents.base import Agent as Agent
    from husk.agents.base import AgentProtocol as AgentProtocol
    from husk.interpreter.agent_sandbox import Sandbox as Sandbox
    from husk.serving import serve_mcp as serve_mcp
    from husk.serving import serve as serve
    from husk.tools.batch import batch_tool as batch_tool
    from husk.tools.batch import BatchTool as BatchTool
    from husk.tools.batch import execute_tools as execute_tools
    from husk.tools import tool as tool

__all__ = [*_MODULES, "sandbox"]


def __getattr__(name: str) -> Any:
    if name == "sandbox":
        return importlib.import_module("rayai.sandbox")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'rayai' has no attribute '{name}'")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
