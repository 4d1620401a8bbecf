# SPDX-License-Identifier: Apache-2.0
"""Which back end sandboxes have: husk's own. Another one that the environment asks for is refused."""

from __future__ import annotations

from husk.interpreter import policy

__all__ = ["get_backend_type"]


def get_backend_type() -> str:
    """Returns `native`.

    Raises:
        BackendUnavailableError: RAYAI_SANDBOX_BACKEND or RAYAI_SANDBOX_RUNTIME names another one.
    """
    policy.check(None, None)
    return "native"
