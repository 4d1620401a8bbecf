# SPDX-License-Identifier: Apache-2.0
"""Client and AsyncClient: every operation of a server, over kept connections."""

from __future__ import annotations

from husk.client.aio import AsyncClient
from husk.client.blocking import Client

__all__ = ["AsyncClient", "Client"]
