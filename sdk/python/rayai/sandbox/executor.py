# SPDX-License-Identifier: Apache-2.0
"""One session of the sandbox functions: a local object, or with `.remote(...)` a Ray actor."""

from __future__ import annotations

from husk.interpreter import CodeInterpreterExecutor

__all__ = ["CodeInterpreterExecutor"]
