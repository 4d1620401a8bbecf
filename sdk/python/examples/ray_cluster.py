# SPDX-License-Identifier: Apache-2.0
"""Tools on a Ray cluster with two nodes, here both on this machine. The code is the same as without
Ray.

    python sdk/python/examples/ray_cluster.py

If Ray is initialised, `husk.tool` runs functions as Ray tasks, on any node with free resources. A
task that opens a sandbox uses the husk server of its own node.
"""

import asyncio
import os
import time

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)
import ray
from ray.cluster_utils import Cluster

import husk


@husk.tool(num_cpus=1)
def where(code: str) -> tuple[str, str]:
    """Run code in a sandbox; return the node and the result."""
    with husk.Sandbox() as sandbox:
        text = sandbox.run(code).text
    time.sleep(1)  # long enough that a single node would have to queue
    return ray.get_runtime_context().get_node_id(), text


async def main() -> None:
    """Two calls at once, each of which uses a whole node."""
    answers = await asyncio.gather(where("6 * 7"), where("sum(range(10))"))
    print(f"results: {', '.join(text for _, text in answers)}")
    print(f"ran on {len({node for node, _ in answers})} nodes of {len(ray.nodes())}")


if __name__ == "__main__":
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster()
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        asyncio.run(main())
    finally:
        ray.shutdown()
        cluster.shutdown()
