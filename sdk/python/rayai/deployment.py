# SPDX-License-Identifier: Apache-2.0
"""An agent as an application of Ray Serve, for programs that run Ray Serve themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from husk.engines.resources import parse_memory
from husk.serving import ray as on_ray
from husk.serving.ray_app import AgentApp
from husk.serving.register import Deployment

__all__ = ["create_agent_app", "create_agent_deployment"]


def _deployment(
    agent_class: Any, name: str, num_replicas: int = 1, options: Mapping[str, Any] | None = None
) -> Deployment:
    wanted = dict(options or {})
    return Deployment(
        name=name,
        kind="agent",
        agent=agent_class,
        route_prefix=f"/agents/{name}",
        num_cpus=float(wanted.get("num_cpus", 1)),
        num_gpus=float(wanted.get("num_gpus", 0)),
        memory_bytes=parse_memory(wanted.get("memory", "2GB")),
        replicas=num_replicas,
        max_in_flight=64,
        queue_length=256,
        request_timeout_ms=300_000,
    )


def create_agent_app(agent_class: Any) -> AgentApp:
    """Returns the web application (ASGI) of an agent: `POST /chat`, `POST /`, `GET /health`.

    Args:
        agent_class: an agent of any kind that `serve` takes, or a class of one.
    """
    return AgentApp(_deployment(agent_class, getattr(agent_class, "__name__", "agent")))


def create_agent_deployment(
    agent_class: Any,
    agent_name: str,
    num_replicas: int = 1,
    ray_actor_options: Mapping[str, Any] | None = None,
    app_title: str | None = None,
) -> Any:
    """Returns an application for `ray.serve.run(app, name=..., route_prefix=...)`.

    Args:
        agent_class: an agent of any kind that `serve` takes, or a class of one.
        agent_name: its name.
        num_replicas: number of replicas.
        ray_actor_options: `num_cpus`, `num_gpus` and `memory` of a replica.
        app_title: accepted, and not used: there is no page that shows it.
    """
    return on_ray.application(_deployment(agent_class, agent_name, num_replicas, ray_actor_options))
