# SPDX-License-Identifier: Apache-2.0
"""Many tool calls at once."""

from __future__ import annotations

from husk.tools.batch import execute_tools

__all__ = ["execute_tools"]
