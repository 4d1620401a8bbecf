# SPDX-License-Identifier: Apache-2.0
"""The executor for Kubernetes: it exists by name only."""

from __future__ import annotations

from typing import Any, NoReturn

from husk.errors import BackendUnavailableError

__all__ = ["KubernetesSandboxExecutor"]


class KubernetesSandboxExecutor:
    """Refuses to be created: there is no Kubernetes back end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()

    @classmethod
    def options(cls, **options: Any) -> NoReturn:
        """Refuses as well."""
        _refuse()


def _refuse() -> NoReturn:
    raise BackendUnavailableError(
        "there is no Kubernetes back end",
        solution="Use CodeInterpreterExecutor of rayai.sandbox.executor: husk's own sandboxes.",
    )
