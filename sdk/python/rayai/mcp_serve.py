# SPDX-License-Identifier: Apache-2.0
"""Serving MCP servers."""

from __future__ import annotations

from husk.serving.register import serve_mcp

__all__ = ["serve_mcp"]
