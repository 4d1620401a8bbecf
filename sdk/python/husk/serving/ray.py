# SPDX-License-Identifier: Apache-2.0
"""Serves agents on Ray Serve: the same routes and bodies as `husk agents up`, on every node of a
Ray cluster.

Each agent is an application of Ray Serve with its own replicas, CPUs, GPUs and memory. Ray Serve
handles restarts, health and queues. `GET /agents` is a separate application. Importing this file
does not import Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import ipaddress
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from husk.engines.ray import pickling as ray_pickle
from husk.engines.ray import start as ray_start
from husk.errors import ServeError
from husk.serving.ray_app import AgentApp, Receive, Send
from husk.serving.register import Deployment

__all__ = ["delete", "deploy"]

LIST_APP = "husk.agents"  # no agent can have a dot in its name
LIST_PREFIX = "/agents"
CONSTRUCTOR_TRIES = 3
_KV_NAMESPACE = b"husk.agents"
_NOT_COUNTED = ("in_flight", "queued", "requests", "errors", "restarts")


def deploy(
    deployments: Sequence[Deployment], host: str = "127.0.0.1", port: int = 8000, block: bool = True
) -> None:
    """Deploys agents and MCP servers, and with `block` serves until a signal arrives.

    If Ray and Ray Serve are not running, they are started, and stopped at the end of a blocking
    call. A running Serve keeps its host and port; others are rejected.

    Raises:
        ServeError: an agent does not start or cannot be sent to a replica, Serve listens at another
            address, or the host is not loopback and HUSK_INSECURE_LISTEN is not true.
    """
    check_host(host)
    owns_ray = not ray_start.module().is_initialized()
    ray_start.started()
    serve = _serve()
    owns_serve = _start(serve, host, port)
    if not block:
        _deploy_all(serve, deployments)
        return
    # Handle signals from now on: one during the start also ends the agents in order.
    with _signals() as ended:
        try:
            _deploy_all(serve, deployments)
            for deployment in deployments:
                tail = "/mcp" if deployment.kind == "mcp" else "/"
                url = f"http://{host}:{port}{deployment.route_prefix}{tail}"
                print(f"{deployment.name}: {url}", flush=True)
            while not ended.wait(1.0):  # in steps, because an endless wait would block the handlers
                pass
        finally:
            delete([deployment.name for deployment in deployments])
            if owns_serve:
                serve.shutdown()
            if owns_ray:
                ray_start.module().shutdown()


def check_host(host: str) -> None:
    """Refuses an address that others can reach, unless the user has accepted that."""
    with contextlib.suppress(ValueError):  # a name
        if ipaddress.ip_address(host).is_loopback:
            return
    if host != "localhost" and os.environ.get("HUSK_INSECURE_LISTEN") != "true":
        raise ServeError(
            f"{host} is not loopback, and there is no authentication",
            solution="Listen on 127.0.0.1, or accept it with --insecure-listen or "
            "HUSK_INSECURE_LISTEN=true.",
        )


def _deploy_all(serve: Any, deployments: Sequence[Deployment]) -> None:
    for deployment in deployments:
        _deploy_one(serve, deployment)
    _deploy_list(serve)


def delete(names: Sequence[str]) -> None:
    """Removes agents from service."""
    serve = _serve()
    for name in names:
        _kv()._internal_kv_del(name.encode(), namespace=_KV_NAMESPACE)
        if name in serve.status().applications:
            serve.delete(name)


def _serve() -> Any:
    try:
        return importlib.import_module("ray.serve")
    except ImportError as error:
        raise ServeError(
            "Ray Serve is not installed", detail=str(error), solution="pip install 'ray[serve]'"
        ) from error


def _start(serve: Any, host: str, port: int) -> bool:
    """Starts Serve, or checks that a running one listens at this address; returns whether it was
    started.
    """
    context = importlib.import_module("ray.serve.context")
    running = context._get_global_client(raise_if_no_controller_running=False)
    if running is None:
        serve.start(http_options={"host": host, "port": port})
        return True
    there = running.http_config
    if (there.host, there.port) not in ((host, port), ("0.0.0.0", port)):
        raise ServeError(
            f"Ray Serve already runs on {there.host}:{there.port} and cannot move to {host}:{port}",
            solution="Use its address, or stop it with `serve shutdown`.",
        )
    return False


def _deploy_one(serve: Any, deployment: Deployment) -> None:
    _run(serve, application(deployment), deployment.name, deployment.route_prefix)


def _app(deployment: Deployment) -> AgentApp:
    cloudpickle = importlib.import_module("ray.cloudpickle")
    if deployment.agent is None:  # not loaded here: its file runs in the replica, on every node
        return AgentApp(deployment, from_file="module", on_ready=_announce)
    app = AgentApp(deployment, on_ready=_announce)
    ray_pickle.share(deployment.agent)
    try:
        cloudpickle.dumps(app)
    except Exception as error:
        if not deployment.file:
            raise ServeError(
                f"the agent '{deployment.name}' cannot be sent to a replica: {error}",
                solution="Pass a function that returns the agent, or define it in a file.",
            ) from error
        # Run its file again in the replica; the file must then be on every node.
        how = "main" if deployment.file == _script() else "module"
        app = AgentApp(
            dataclasses.replace(deployment, agent=None), from_file=how, on_ready=_announce
        )
    return app


def application(deployment: Deployment) -> Any:
    """Returns the agent as an application of Ray Serve, for `ray.serve.run()`."""
    serve, app = _serve(), _app(deployment)
    options = {
        "name": deployment.name,
        "num_replicas": deployment.replicas,
        "max_ongoing_requests": deployment.max_in_flight,
        "max_queued_requests": deployment.queue_length if deployment.queue_length else 1,
        "max_constructor_retry_count": CONSTRUCTOR_TRIES,
        "ray_actor_options": {
            "num_cpus": deployment.num_cpus,
            "num_gpus": deployment.num_gpus,
            "memory": deployment.memory_bytes,
        },
    }
    return serve.deployment(**options)(serve.ingress(app)()).bind()


def _script() -> str:
    file = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.abspath(file) if file else ""


def _run(serve: Any, target: Any, name: str, prefix: str) -> None:
    try:
        serve.run(target, name=name, route_prefix=prefix)
    except RuntimeError as error:
        serve.delete(name)  # otherwise Serve would retry forever
        why = _kv()._internal_kv_get(_failed(name), namespace=_KV_NAMESPACE)
        said = why.decode() if why else str(error).strip()
        raise ServeError(f"'{name}' does not start on Ray Serve: {said}") from error
    finally:
        _kv()._internal_kv_del(_failed(name), namespace=_KV_NAMESPACE)


def _failed(name: str) -> bytes:
    """Returns the key for the start error of a replica, which cannot be the name of an agent."""
    return f"{name}.failed".encode()


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """Yields an event that SIGINT and SIGTERM set."""
    ended = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield ended  # only the main thread can handle signals
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in numbers}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- GET /agents ----


def _kv() -> Any:
    return importlib.import_module("ray.experimental.internal_kv")


def _announce(deployment: Deployment, facts: dict[str, Any]) -> None:
    """Called in a replica: records the agent's properties for `GET /agents`, or its start error."""
    if "error" in facts:
        error = str(facts["error"]).encode("utf-8", "replace")
        _kv()._internal_kv_put(_failed(deployment.name), error, namespace=_KV_NAMESPACE)
        return
    said = {
        "name": deployment.name,
        "kind": deployment.kind,
        "framework": facts["framework"],
        "route_prefix": deployment.route_prefix,
        "streams": facts["streams"],
        "chat": facts["chat"],
        "replicas": deployment.replicas,
    }
    _kv()._internal_kv_put(
        deployment.name.encode(), json.dumps(said).encode(), namespace=_KV_NAMESPACE
    )


class ListApp:
    """`GET /agents`. Counters that Ray Serve has elsewhere (its dashboard, its metrics) are null."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        from husk.serving.ray_app import _reply

        if scope["type"] == "lifespan":
            for _ in range(2):
                await send({"type": f"{(await receive())['type']}.complete"})
        elif str(scope["path"]).rstrip("/") not in ("", LIST_PREFIX):
            name = str(scope["path"]).removeprefix(LIST_PREFIX).strip("/").partition("/")[0]
            await _reply(send, 404, {"detail": f'there is no agent "{name}"'})
        elif scope["method"] not in ("GET", "HEAD"):
            await _reply(send, 405, {"detail": "Method Not Allowed"})
        else:
            await _reply(send, 200, {"agents": await asyncio.to_thread(_list), "failed": []})


def _list() -> list[dict[str, Any]]:
    applications = _serve().status().applications
    agents = []
    for key in sorted(_kv()._internal_kv_list(b"", namespace=_KV_NAMESPACE)):
        raw = _kv()._internal_kv_get(key, namespace=_KV_NAMESPACE)
        state = applications.get(key.decode())
        if raw is None or state is None:
            continue
        said = json.loads(raw)
        counts: dict[str, int] = {}
        for deployment in state.deployments.values():
            counts.update({str(kind): count for kind, count in deployment.replica_states.items()})
        ready = counts.get("RUNNING", 0)
        starting = str(getattr(state.status, "value", state.status)) == "DEPLOYING"
        said["status"] = "healthy" if ready else "starting" if starting else "unhealthy"
        said["ready"] = ready
        said.update({name: None for name in _NOT_COUNTED})
        said["detail"] = state.message or None
        agents.append(said)
    return agents


def _deploy_list(serve: Any) -> None:
    if LIST_APP in serve.status().applications:
        return
    options = {"name": "list", "ray_actor_options": {"num_cpus": 0}}
    built = serve.deployment(**options)(serve.ingress(ListApp())())
    _run(serve, built.bind(), LIST_APP, LIST_PREFIX)
