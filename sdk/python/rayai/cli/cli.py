# SPDX-License-Identifier: Apache-2.0
"""The entry point of the command `rayai`."""

from __future__ import annotations

from rayai.cli import main

__all__ = ["cli", "main"]

cli = main
