# SPDX-License-Identifier: Apache-2.0
"""The base class of agents without a framework."""

from __future__ import annotations

from husk.agents.base import Agent

__all__ = ["Agent"]
