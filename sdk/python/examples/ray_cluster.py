# SPDX-License-Identifier: Apache-2.0
"""Tools on a Ray cluster: two nodes, here both on this machine. The code is what it was without
Ray.

    python sdk/python/examples/ray_cluster.py

Where Ray is initialised, `husk.tool` runs functions as Ray tasks, on whichever node has room. A
sandbox that a task opens is one of the husk server on its own node.
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
    """Run code in a sandbox; the answer says on which node that was."""
    with husk.Sandbox() as sandbox:
        text = sandbox.run(code).text
    time.sleep(1)  # long enough that one node alone would have to queue
    return ray.get_runtime_context().get_node_id(), text


async def main() -> None:
    """Two calls at once, each of which takes all of a node."""
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
