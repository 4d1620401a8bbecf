# SPDX-License-Identifier: Apache-2.0
"""Whether a node of the Ray cluster can run a tool at all.

Ray lets a task wait for ever that asks for more than any node has, in case such a node joins.
"""

from __future__ import annotations

import time
from typing import Any

from husk.engines.engine import ToolSpec
from husk.engines.ray import start as ray_start
from husk.tool_errors import ToolResourceError

__all__ = ["check"]

JOIN_SECONDS = 3.0  # a node may be about to join
LOOK_SECONDS = 0.1
KNOWN_SECONDS = 10.0  # for how long an answer counts
_UNITS = {"CPU": "CPUs", "GPU": "GPUs", "memory": "bytes of memory"}


def check(spec: ToolSpec) -> None:
    """Raises `ToolResourceError` if no node is large enough, and the cluster does not grow."""
    wanted = {"CPU": spec.num_cpus, "GPU": spec.num_gpus, "memory": spec.memory_bytes or 0}
    deadline = time.monotonic() + min(JOIN_SECONDS, spec.timeout or JOIN_SECONDS)
    while time.monotonic() > spec.cache.get("ray.fits_until", 0.0):
        nodes = [n["Resources"] for n in ray_start.module().nodes() if n["Alive"]]
        if any(_fits(wanted, node) for node in nodes) or _can_grow():
            spec.cache["ray.fits_until"] = time.monotonic() + KNOWN_SECONDS
        elif time.monotonic() > deadline:
            raise ToolResourceError(
                f"no node of the Ray cluster can run the tool {spec.name}",
                detail=_reason(wanted, nodes),
                solution="Ask for less, or add a node that has it.",
            )
        else:
            time.sleep(LOOK_SECONDS)


def _fits(wanted: dict[str, float], node: dict[str, float]) -> bool:
    return all(node.get(name, 0) >= amount for name, amount in wanted.items())


def _reason(wanted: dict[str, float], nodes: list[dict[str, float]]) -> str:
    most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in wanted}
    short = [
        f"it asks for {amount:g} {_UNITS[name]}, and the largest node has {most[name]:g}"
        for name, amount in wanted.items()
        if amount > most[name]
    ]
    together = ", ".join(f"{amount:g} {_UNITS[name]}" for name, amount in wanted.items() if amount)
    return "; ".join(short) or f"no single node has {together}"


def _can_grow() -> bool:
    """Returns whether an autoscaler can add nodes; Ray says so only since some version."""
    state: Any = getattr(ray_start.module()._private.state, "state", None)
    config: Any = getattr(state, "get_cluster_config", lambda: None)()
    return bool(config is not None and config.node_group_configs)
