# SPDX-License-Identifier: Apache-2.0
"""One session of `/workspace/se`."""

from __future__ import annotations

from husk.sandbox.shared_env import SandboxError, SharedEnvSandbox

__all__ = ["SandboxError", "SharedEnvSandbox"]
