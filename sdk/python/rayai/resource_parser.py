# SPDX-License-Identifier: Apache-2.0
"""The `ray:` block of a docstring."""

from __future__ import annotations

from husk.engines.resources import parse_docstring

__all__ = ["parse_all_ray_resources"]

parse_all_ray_resources = parse_docstring
