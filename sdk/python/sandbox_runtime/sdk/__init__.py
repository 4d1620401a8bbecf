# SPDX-License-Identifier: Apache-2.0
"""The client of the Sandbox Runtime: `SandboxClient` for many sessions, `SharedEnvSandbox` for one."""

from __future__ import annotations

from sandbox_runtime.sdk.client import SandboxClient
from sandbox_runtime.sdk.shared_env import SandboxError, SharedEnvSandbox

__all__ = ["SandboxClient", "SandboxError", "SharedEnvSandbox"]
