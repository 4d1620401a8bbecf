# SPDX-License-Identifier: Apache-2.0
"""`husk agents up` and `rayai up` with HUSK_ENGINE=ray: serves a project on Ray Serve.

Finds the agents and MCP servers as without Ray, each file in a process of its own; the replicas run
the files again, so these must be on every node at the same path.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from husk.agents.discover import discover, names, look_at
from husk.errors import HuskError
from husk.serving import ray as on_ray
from husk.serving.register import Deployment

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until a signal arrives; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m husk.serving.ray_up")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--file", help="instead of a project, serve what this script registers")
    parser.add_argument("--agents", default="")
    parser.add_argument("--servers", default="")
    parser.add_argument("--only", choices=("agents", "servers"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    if options.file:
        found = look_at(options.file, True, 120.0)
        plan: dict[str, Any] = {"agents": found.agents, "failed": found.failed}
    else:
        wanted = names(options.agents), names(options.servers)
        plan = discover(options.folder, *wanted, only=options.only)
    for failed in plan["failed"]:
        print(f"{failed['file']}: {failed['error']}\n{failed['traceback']}", file=sys.stderr)
    if not plan["agents"]:
        print("there is nothing to serve", file=sys.stderr)
        return 1
    os.chdir(options.folder)
    try:
        deployments = [deployment(entry) for entry in plan["agents"]]
        on_ray.deploy(deployments, options.host, options.port)
    except HuskError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def deployment(entry: dict[str, Any]) -> Deployment:
    """Returns an entry of the plan as a deployment whose file the replicas run."""
    same = ["name", "kind", "route_prefix", "num_cpus", "num_gpus", "memory_bytes", "replicas"]
    same += ["max_in_flight", "queue_length", "request_timeout_ms", "file"]
    return Deployment(agent=None, **{name: entry[name] for name in same})


if __name__ == "__main__":
    sys.exit(main())
