# SPDX-License-Identifier: Apache-2.0
"""Serving agents and MCP servers: with `husk agents up`, or on Ray Serve."""

from __future__ import annotations

from husk.serving.register import serve, serve_mcp

__all__ = ["serve", "serve_mcp"]
