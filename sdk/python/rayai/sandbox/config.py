# SPDX-License-Identifier: Apache-2.0
"""Settings of the sandboxes at the time of the import.

`RUNTIME` and `STRICT_GVISOR` are the requested values. Availability is checked on every call:
gVisor, Docker and Kubernetes raise a typed error, because boxes are husk's own (`native`).
"""

from __future__ import annotations

import os

from husk.interpreter.policy import (
    CPU_PERIOD,
    CPU_QUOTA,
    DEFAULT_IMAGE,
    DEFAULT_TIMEOUT,
    MEMORY_LIMIT,
    NETWORK_MODE,
    SESSION_TIMEOUT,
    flag,
)

__all__ = [
    "CPU_PERIOD",
    "CPU_QUOTA",
    "DEFAULT_IMAGE",
    "DEFAULT_TIMEOUT",
    "KUBERNETES_NAMESPACE",
    "KUBERNETES_TEMPLATE",
    "MEMORY_LIMIT",
    "NETWORK_MODE",
    "RUNTIME",
    "SANDBOX_BACKEND",
    "SESSION_TIMEOUT",
    "STRICT_GVISOR",
]

RUNTIME = os.environ.get("RAYAI_SANDBOX_RUNTIME") or "native"
STRICT_GVISOR = bool(flag("RAYAI_STRICT_GVISOR"))
SANDBOX_BACKEND = os.environ.get("RAYAI_SANDBOX_BACKEND") or "auto"
KUBERNETES_TEMPLATE = os.environ.get("RAYAI_SANDBOX_TEMPLATE") or "python-runtime-template"
KUBERNETES_NAMESPACE = os.environ.get("RAYAI_SANDBOX_NAMESPACE") or "default"
