# SPDX-License-Identifier: Apache-2.0
"""Tools: functions that run in another process, a Ray task or a box."""

from __future__ import annotations

from husk.tools.decorator import Tool, tool

__all__ = ["Tool", "tool"]
