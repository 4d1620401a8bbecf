# SPDX-License-Identifier: Apache-2.0
"""Two raylets, one of them killed: tools are retried or reported by Ray's rules, sandboxes on it
are reported lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray_support  # noqa: F401  (sets variables of Ray before its first import)
from conftest import SdkServer
from eventually import eventually
from ray.cluster_utils import Cluster
from waiting import wait_until

from husk import locate
from husk.tool_errors import ToolCrashed
from rayai import Sandbox, tool
from rayai.sandbox import cleanup_session, execute_code, get_session_stats

PATIENCE = 60.0
# A node that does not answer for a second is dead; the default is tens of seconds.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 250,
    "health_check_failure_threshold": 4,
}


class Nodes:
    """A head that runs nothing by itself, and nodes that come and go."""

    def __init__(self) -> None:
        import ray

        self.ray = ray
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        self.node: Any = None

    def add(self) -> None:
        self.node = self.cluster.add_node(num_cpus=2)
        self.cluster.wait_for_nodes()

    def kill(self) -> None:
        """kill -9 of the raylet and of everything that belongs to its node."""
        self.cluster.remove_node(self.node, allow_graceful=False)
        self.node = None

    def close(self) -> None:
        self.ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def nodes(server: SdkServer) -> Iterator[Nodes]:
    os.environ.pop("HUSK_ENGINE", None)
    found = Nodes()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(autouse=True)
def node(nodes: Nodes) -> Nodes:
    if nodes.node is None:
        nodes.add()
    return nodes


def test_a_tool_whose_node_dies_is_retried_on_another(nodes: Nodes, tmp_path: Path) -> None:
    @tool(num_cpus=1, retries=1)
    def work() -> str:
        import ray

        if not (tmp_path / "first").exists():
            (tmp_path / "first").write_text(ray.get_runtime_context().get_node_id())
            time.sleep(600)
        return str(ray.get_runtime_context().get_node_id())

    async def run() -> str:
        call = asyncio.ensure_future(work())
        await eventually((tmp_path / "first").exists, "the tool runs")
        nodes.kill()
        nodes.add()
        result: str = await asyncio.wait_for(call, PATIENCE)
        return result

    second = asyncio.run(run())
    assert second and second != (tmp_path / "first").read_text()


def test_a_tool_that_must_not_be_retried_is_reported(nodes: Nodes, tmp_path: Path) -> None:
    @tool(num_cpus=1)
    def once() -> None:
        (tmp_path / "began").touch()
        time.sleep(600)

    async def run() -> None:
        call = asyncio.ensure_future(once())
        await eventually((tmp_path / "began").exists, "the tool runs")
        nodes.kill()
        with pytest.raises(ToolCrashed, match="once"):
            await asyncio.wait_for(call, PATIENCE)

    asyncio.run(run())


def test_a_sandbox_is_lost_with_its_node(nodes: Nodes) -> None:
    assert execute_code("x = 1", session_id="s")["status"] == "success"

    async def run() -> Any:
        call = asyncio.ensure_future(
            asyncio.to_thread(execute_code, "import time; time.sleep(600)", "s", timeout=900)
        )
        await eventually(lambda: get_session_stats("s")["execution_count"] == 2, "it runs")
        nodes.kill()
        return await asyncio.wait_for(call, PATIENCE)

    lost = asyncio.run(run())
    assert (lost["status"], lost["error_type"]) == ("error", "NodeLostError")
    assert "variables and files" in lost["error"]
    nodes.add()
    fresh = execute_code("print('x' in globals())", session_id="s")
    assert fresh["stdout"] == "False\n"
    assert cleanup_session("s")["status"] == "success"


def test_an_idle_sandbox_is_reported_lost_at_its_next_use(nodes: Nodes) -> None:
    sandbox = Sandbox(session_id="idle")
    assert asyncio.run(sandbox.run_code("x = 1; print(x)")) == "1"
    nodes.kill()
    nodes.add()
    told = asyncio.run(sandbox.run_code("print(x)"))
    assert told.startswith("Error: session idle was lost")
    assert "NameError" in asyncio.run(sandbox.run_code("print(x)"))  # a fresh one from here on
    sandbox.terminate()


def test_a_node_without_a_server_gets_one_that_dies_with_it(nodes: Nodes) -> None:
    named = os.environ.pop("HUSK_URL")  # of the raylet that starts now, and so of its workers
    try:
        if locate.server(start=False) is not None:
            pytest.skip("a server listens at the default address of this machine")
        nodes.kill()
        nodes.add()
        result = execute_code("print(6 * 7)", session_id="own", timeout=60)
        assert result["stdout"] == "42\n"
        handle = nodes.ray.get_actor("code-executor-own", namespace="sandbox")
        address = nodes.ray.get(
            handle.__ray_call__.remote(lambda self: str(self._box._client.address))
        )
        socket = Path(address.removeprefix("unix://"))
        assert address != named and socket.exists()
        nodes.kill()
        wait_until(lambda: not socket.parent.exists(), f"{socket.parent} is removed")
        assert execute_code("1", session_id="own")["error_type"] == "NodeLostError"
    finally:
        os.environ["HUSK_URL"] = named
