# SPDX-License-Identifier: Apache-2.0
"""Memory sizes as text: `2GB`."""

from __future__ import annotations

from husk.engines.resources import parse_memory

__all__ = ["_parse_memory", "parse_memory"]

_parse_memory = parse_memory  # the name of the rayai API
