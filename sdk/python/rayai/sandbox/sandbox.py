# SPDX-License-Identifier: Apache-2.0
"""The sandbox for agents."""

from __future__ import annotations

from husk.interpreter.agent_sandbox import ExecResult, Sandbox

__all__ = ["ExecResult", "Sandbox"]
