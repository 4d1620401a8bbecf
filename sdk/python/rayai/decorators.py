# SPDX-License-Identifier: Apache-2.0
"""The decorator of tools."""

from __future__ import annotations

from husk.tools.decorator import tool

__all__ = ["tool"]
