# SPDX-License-Identifier: Apache-2.0
"""Operations on templates and on the server itself; see call.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from husk.calls.call import Call, get, given, nothing, page, record, send, target_of
from husk.http.transport import Request
from husk.http.wire import Answer
from husk.results.models import Container, Health, Page, PoolState, Pools, Template, Version

# ---- templates ----


def _template_body(**fields: Any) -> dict[str, Any]:
    names = {"cpus": "default_cpu_cores", "memory_mb": "default_memory_mb"}
    names |= {"disk_mb": "default_disk_mb", "timeout": "default_timeout", "env": "default_env_vars"}
    if fields["preload"] is not None:
        fields["preload"] = list(fields["preload"])
    return {names.get(name, name): value for name, value in given(**fields).items()}


def create_template(
    id: str,
    *,
    base: str = "python",
    name: str | None = None,
    description: str | None = None,
    preload: Sequence[str] | None = None,
    cpus: float | None = None,
    memory_mb: int | None = None,
    disk_mb: int | None = None,
    timeout: int | None = None,
    env: Mapping[str, str] | None = None,
    image_url: str | None = None,
) -> Call[Template]:
    """Create a template.

    Args:
        id: its id, with which sessions select it.
        base: the template that provides root and runtime.
        name: a readable name.
        description: its purpose.
        preload: modules to import before any code runs.
        cpus: CPU cores of its sandboxes.
        memory_mb: their memory in MiB.
        disk_mb: their disk in MiB.
        timeout: idle seconds after which a session ends.
        env: environment variables.
        image_url: rejected by servers without a container back end.
    """
    body = _template_body(
        id=id,
        base=base,
        name=name,
        description=description,
        preload=preload,
        cpus=cpus,
        memory_mb=memory_mb,
        disk_mb=disk_mb,
        timeout=timeout,
        env=env,
        image_url=image_url,
    )
    return send("POST", target_of("templates"), body, record(Template), can_repeat=False)


def update_template(
    id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    preload: Sequence[str] | None = None,
    cpus: float | None = None,
    memory_mb: int | None = None,
    disk_mb: int | None = None,
    timeout: int | None = None,
    env: Mapping[str, str] | None = None,
    image_url: str | None = None,
) -> Call[Template]:
    """Change the given fields of a template. Arguments as for `create_template`."""
    body = _template_body(
        name=name,
        description=description,
        preload=preload,
        cpus=cpus,
        memory_mb=memory_mb,
        disk_mb=disk_mb,
        timeout=timeout,
        env=env,
        image_url=image_url,
    )
    return send("PUT", target_of("templates", id), body, record(Template), can_repeat=True)


def list_templates(*, limit: int = 50, offset: int = 0) -> Call[Page[Template]]:
    """List templates, sorted by id; `missing` says why one cannot run on this host."""
    return get(target_of("templates", limit=limit, offset=offset), page(Template))


def get_template(id: str) -> Call[Template]:
    """Get a template."""
    return get(target_of("templates", id), record(Template))


def delete_template(id: str) -> Call[None]:
    """Delete a template that no live session uses."""
    return send("DELETE", target_of("templates", id), None, nothing, can_repeat=False)


# ---- the server ----


def list_containers(
    *,
    status: str | None = None,
    runtime_type: str | None = None,
    limit: int = 50,
    offset: int = 0,
) -> Call[Page[Container]]:
    """List all live sandboxes, including parked ones.

    Args:
        status: only sandboxes in this state.
        runtime_type: only sandboxes of this back end.
        limit: number of sandboxes, up to 200.
        offset: number of sandboxes to skip.
    """
    target = target_of(
        "containers", status=status, runtime_type=runtime_type, limit=limit, offset=offset
    )
    return get(target, page(Container))


def get_container(container_id: str) -> Call[Container]:
    """Get a sandbox with its receipt."""
    return get(target_of("containers", container_id), record(Container))


def container_logs(container_id: str, tail: int = 100, since: str | None = None) -> Call[str]:
    """Get the last lines of output of a sandbox.

    Args:
        container_id: the sandbox.
        tail: number of lines.
        since: only executions that were still running at this time (RFC 3339).
    """
    target = target_of("containers", container_id, "logs", tail=tail, since=since)
    return get(target, lambda answer: str(json.loads(answer.body)["logs"]))


def pool() -> Call[Pools]:
    """Get the pools of parked sandboxes."""

    def read(answer: Answer) -> Pools:
        data = json.loads(answer.body)
        return Pools([PoolState.parse(p) for p in data["pools"]], data.get("queue", 0))

    return get(target_of("pool"), read)


class _Health(Call[Health]):
    """An unhealthy server answers 503 with the same body: that is a value, not an error."""

    def value(self, answer: Answer) -> Health:
        data = answer.json()
        if answer.status not in (200, 503) or not isinstance(data, dict) or "status" not in data:
            return super().value(answer)
        return Health.parse(data)


def health(kind: Literal["", "live", "ready", "detailed"] = "") -> Call[Health]:
    """Get the health of the server; an unhealthy status is returned, not raised.

    Args:
        kind: `live` (the process answers), `ready` (it accepts work) or `detailed` (each part).
    """
    request = Request("GET", target_of("health", *([kind] if kind else [])))
    return _Health(request, record(Health), can_repeat=True)


def version() -> Call[Version]:
    """Get the version of the server and of its libraries."""
    return get(target_of("version"), record(Version))
