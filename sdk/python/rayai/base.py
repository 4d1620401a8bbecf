# SPDX-License-Identifier: Apache-2.0
"""The protocol of agents that take an object and return one."""

from __future__ import annotations

from husk.agents.base import AgentProtocol

__all__ = ["AgentProtocol"]
