# SPDX-License-Identifier: Apache-2.0
"""One tool over many inputs."""

from __future__ import annotations

from husk.tools.batch import BatchTool, batch_tool

__all__ = ["BatchTool", "batch_tool"]
