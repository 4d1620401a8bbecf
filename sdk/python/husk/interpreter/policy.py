# SPDX-License-Identifier: Apache-2.0
"""Which isolation a sandbox session may request.

The variables of the rayai API that select another isolation (gVisor, Docker, Kubernetes) are read on
every call. A request that cannot be met raises a typed error; it is never replaced silently.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from husk.errors import BackendUnavailableError, EgressUnavailableError

__all__ = ["CPU_PERIOD", "CPU_QUOTA", "DEFAULT_IMAGE", "DEFAULT_TIMEOUT", "MEMORY_LIMIT"]
__all__ += [
    "NETWORK_MODE",
    "SEED_IMAGE",
    "SESSION_TIMEOUT",
    "asked",
    "check",
    "flag",
    "note_fallback",
    "template_of",
    "wishes",
]

# The default image of the rayai API, which stands for the template `python`.
SEED_IMAGE = "python:3.12-slim"
DEFAULT_IMAGE = os.environ.get("RAYAI_SANDBOX_IMAGE") or SEED_IMAGE
DEFAULT_TIMEOUT = 30  # seconds per execution
MEMORY_LIMIT = "512m"  # as Docker writes it
MEMORY_BYTES = 512 << 20
CPU_QUOTA = 100000  # of CPU_PERIOD: one core
CPU_PERIOD = 100000
NETWORK_MODE = "none"
SESSION_TIMEOUT = 3600  # idle seconds after which a session ends

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_OWN = {"native", "husk"}  # names of husk's own isolation

_VARIABLES = ("RAYAI_SANDBOX_BACKEND", "RAYAI_SANDBOX_RUNTIME", "RAYAI_STRICT_GVISOR")
_wishes: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "husk_wishes", default={}
)


def wishes() -> dict[str, str]:
    """Returns the isolation settings of the remote caller, else of this process."""
    return {
        **{name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
        **_wishes.get(),
    }


@contextlib.contextmanager
def asked(given: Mapping[str, str]) -> Iterator[None]:
    """Runs a block for a caller in another process, with the variables of that process."""
    token = _wishes.set(given)
    try:
        yield
    finally:
        _wishes.reset(token)


def flag(name: str) -> Optional[bool]:
    """Returns a boolean variable, or None if it is not set; rejects other values of this security
    setting.
    """
    value = wishes().get(name, "").strip().lower()
    if not value:
        return None
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise BackendUnavailableError(f"{name} must be 'true' or 'false', not {value!r}")


def _check_backend() -> None:
    backend = wishes().get("RAYAI_SANDBOX_BACKEND", "").strip().lower()
    if backend and backend not in _OWN and backend != "auto":
        raise BackendUnavailableError(
            f"RAYAI_SANDBOX_BACKEND={backend}: this back end is not available",
            solution="Unset the variable to use husk's own sandboxes, or set it to 'native'.",
        )


def _check_runtime() -> None:
    runtime = wishes().get("RAYAI_SANDBOX_RUNTIME", "").strip()
    strict = flag("RAYAI_STRICT_GVISOR")
    if strict:
        raise BackendUnavailableError(
            "RAYAI_STRICT_GVISOR requires gVisor, which is not available",
            solution="Unset RAYAI_STRICT_GVISOR to accept husk's own isolation; the receipt describes it.",
        )
    if not runtime or runtime in _OWN:
        return
    if runtime == "runsc" and strict is False:
        # Falling back was allowed explicitly; note_fallback() puts it into the receipt.
        return
    raise BackendUnavailableError(
        f"RAYAI_SANDBOX_RUNTIME={runtime}: this runtime is not available",
        solution="Unset the variable to use husk's own isolation. RAYAI_STRICT_GVISOR=false accepts it in place of runsc.",
    )


def check(dockerfile: Optional[str], mcp_allowlist: Optional[Sequence[str]]) -> None:
    """Raises `BackendUnavailableError` or `EgressUnavailableError` for unavailable features."""
    _check_backend()
    _check_runtime()
    if dockerfile is not None:
        raise BackendUnavailableError(
            "a dockerfile requires a container back end, which is not available",
            solution="Create a template with the packages (docs/templates.md) and pass its name as image.",
        )
    if mcp_allowlist is not None:
        raise EgressUnavailableError(
            "mcp_allowlist requires network access, and boxes have none",
            solution="Omit mcp_allowlist and call MCP servers from the agent, outside the sandbox.",
        )


def template_of(image: str, templates: Sequence[str]) -> str:
    """Returns the template for an image name. `templates` are those of the server."""
    name = "python" if image == SEED_IMAGE else image
    if name in templates:
        return name
    raise BackendUnavailableError(
        f"image {image!r} is not a template, and registry images require a container back end, which is not available",
        solution=f"Use one of the templates ({', '.join(sorted(templates))}) or create one (docs/templates.md).",
    )


def note_fallback(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the receipt, with a note if gVisor was requested and falling back was allowed."""
    noted = dict(receipt)
    if wishes().get("RAYAI_SANDBOX_RUNTIME", "").strip() == "runsc":
        noted["runtime_requested"] = "runsc"
        noted["fallback"] = True
    return noted
