# SPDX-License-Identifier: Apache-2.0
"""Serving agents, and the agents that files have registered in this process.

Nothing is imported before a name is used: the package imports this module early, so that
`rayai.serve` stays the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from husk.serving.register import Deployment as AgentConfig
    from husk.serving.register import serve as serve

__all__ = ["AgentConfig", "clear_registered_agents", "get_registered_agents", "run", "serve"]


def get_registered_agents() -> list[AgentConfig]:
    """Returns the agents and MCP servers that were registered in this process, in order."""
    from husk.serving import register

    return list(register.registered)


def clear_registered_agents() -> None:
    """Forgets the registered agents."""
    from husk.serving import register

    register.registered.clear()


def run(port: int = 8000, host: str = "127.0.0.1") -> None:
    """Serves the registered agents on Ray Serve until a signal arrives; without any, does nothing."""
    from husk.serving import ray

    if found := get_registered_agents():
        ray.deploy(found, host=host, port=port)


def __getattr__(name: str) -> Any:
    from husk.serving import register

    if name == "serve":
        return register.serve
    if name == "AgentConfig":
        return register.Deployment
    raise AttributeError(f"module 'rayai.serve' has no attribute '{name}'")
