# SPDX-License-Identifier: Apache-2.0
"""`from sandbox_runtime.sdk import ...`: what the documentation of the Sandbox Runtime shows."""

from __future__ import annotations

import asyncio

import pytest
from conftest import SdkServer
from sandbox_runtime.sdk import SandboxClient, SandboxError, SharedEnvSandbox
from sandbox_runtime.sdk.shared_env import SharedEnvSandbox as same

import husk
from husk import errors

HANDLER = """
def handler(event):
    name = event.get('name', 'World')
    return {'message': f'Hello, {name}!'}

print(handler({'name': 'Sandbox'}))
"""


def test_the_first_steps(server: SdkServer) -> None:
    async def main() -> None:
        client = SandboxClient(base_url=server.url)
        session = await client.create_session(session_id="test_session")
        assert session.id == "test_session"
        result = await client.execute_code(session_id="test_session", code=HANDLER)
        assert result.exit_code == 0
        assert result.stdout == "{'message': 'Hello, Sandbox!'}\n"
        failed = await client.execute_code("test_session", "1/0")
        assert failed.exit_code != 0 and "ZeroDivisionError" in failed.stderr
        await client.close_session(session_id="test_session")
        await client.close_session(session_id="test_session")
        with pytest.raises(errors.SessionNotFoundError):
            await client.execute_code("test_session", "1")
        await client.create_session("test_session")  # the id is free again
        await client.close_session("test_session")
        await client.close()

    asyncio.run(main())


def test_limits_of_a_session(server: SdkServer) -> None:
    async def main() -> None:
        async with SandboxClient(server.url) as client:
            config = {"cpu_quota": 0.5, "memory_limit": 131072, "allow_network": False}
            await client.create_session("limited", {**config, "timeout": 1})
            result = await client.execute_code("limited", "len(bytearray(300 << 20))", 60)
            assert result.status == "memory_exceeded"
            receipt = result.receipt
            assert receipt is not None and receipt.limits["memory_bytes"] == 128 << 20
            late = await client.execute_code("limited", "while True: pass")
            assert late.status == "timeout"
            assert (await client.execute_code("limited", "1 + 1", timeout=10)).value == 2
            await client.close_session("limited")

    asyncio.run(main())


def test_what_cannot_be_had_is_refused_and_makes_nothing(server: SdkServer) -> None:
    async def main() -> None:
        async with SandboxClient(server.url) as client:
            with pytest.raises(errors.EgressUnavailableError):
                await client.create_session("online", {"allow_network": True})
            with pytest.raises(errors.InvalidParameterError, match="gpu"):
                await client.create_session("online", {"gpu": 1})
            with pytest.raises(errors.SessionNotFoundError):
                await client.execute_code("online", "1")

    asyncio.run(main())


def test_one_session_of_the_dialect(server: SdkServer) -> None:
    assert SharedEnvSandbox is same is husk.SharedEnvSandbox
    assert issubclass(SandboxError, errors.HuskError)

    async def main() -> None:
        async with SharedEnvSandbox(session_id="s1", servers=[server.url]) as sandbox:
            assert (await sandbox.execute_code("print(6 * 7)"))["stdout"] == "42\n"

    asyncio.run(main())
