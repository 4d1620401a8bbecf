# SPDX-License-Identifier: Apache-2.0
"""Sandbox holds one session of a server. AsyncSandbox, for asyncio, is in `husk.sandbox.aio`."""

from __future__ import annotations

from husk.sandbox.blocking import Files, Sandbox, Stream

__all__ = ["Files", "Sandbox", "Stream"]
