# SPDX-License-Identifier: Apache-2.0
"""SandboxClient: sessions by name, as the documentation of the Sandbox Runtime shows it.

    client = SandboxClient(base_url="http://localhost:8000")
    await client.create_session(session_id="my_session")
    result = await client.execute_code(session_id="my_session", code="print('hello')")
    print(result.exit_code, result.stdout)
    await client.close_session(session_id="my_session")

Its sessions are those of `/api/v1`, which can have limits of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from husk.calls.call import new_key
from husk.calls.sessions import work
from husk.client.aio import AsyncClient
from husk.errors import EgressUnavailableError, InvalidParameterError, SessionNotFoundError
from husk.results.models import Session
from husk.results.result import Result

__all__ = ["SandboxClient"]

_CONFIG = ("allow_network", "cpu_quota", "memory_limit", "timeout")


class SandboxClient:
    """Creates, uses and closes sessions by their ids.

    Args:
        base_url: the server; by default one is found or started as for `husk.Sandbox`.
        headers: sent with every request, for a proxy in front of the server.
        api_key: sent as `Authorization: Bearer ...`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
    ) -> None:
        self._client = AsyncClient(base_url, headers=headers, api_key=api_key)
        self._timeouts: dict[str, int] = {}

    async def create_session(
        self, session_id: str, config: Mapping[str, Any] | None = None
    ) -> Session:
        """Create a session.

        Args:
            session_id: its id.
            config: `cpu_quota` in cores, `memory_limit` in KB, `timeout` of each execution in
                seconds, and `allow_network`, which must not be true: sandboxes have no network.
        """
        wanted = dict(config or {})
        if unknown := sorted(set(wanted) - set(_CONFIG)):
            raise InvalidParameterError(
                f"The config of a session has no {', '.join(unknown)}.",
                solution=f"It may have {', '.join(_CONFIG)}.",
            )
        if wanted.get("allow_network"):
            raise EgressUnavailableError(
                "allow_network is true, and sandboxes have no network",
                solution="Omit it, and fetch data outside the sandbox.",
            )
        memory = wanted.get("memory_limit")
        made = await self._client.create_session(
            id=session_id,
            cpus=wanted.get("cpu_quota"),
            memory=None if memory is None else int(memory) * 1024,
        )
        if wanted.get("timeout") is not None:
            self._timeouts[session_id] = int(wanted["timeout"])
        return made

    async def execute_code(self, session_id: str, code: str, timeout: int | None = None) -> Result:
        """Run Python code in a session. Variables and files stay for the next call.

        Args:
            session_id: the session.
            code: the source.
            timeout: seconds; by default that of the session's config, else 30.

        Returns:
            The result, with `stdout`, `stderr`, `exit_code` and more. The traceback of an exception
            is part of `stderr`.
        """
        seconds = timeout if timeout is not None else self._timeouts.get(session_id)
        body = work(code=code, timeout=seconds)
        result = await self._client.execute_sync(session_id, body, new_key())
        trace = str((result.error or {}).get("traceback") or "")
        return Result({**result.data, "stderr": result.stderr + trace})

    async def close_session(self, session_id: str) -> None:
        """End a session and remove its files; closing it twice is harmless."""
        self._timeouts.pop(session_id, None)
        try:
            await self._client.purge_session(session_id)
        except SessionNotFoundError:
            pass  # already gone

    async def close(self) -> None:
        """Close the connections. Sessions continue."""
        await self._client.close()

    async def __aenter__(self) -> SandboxClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
