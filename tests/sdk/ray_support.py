# SPDX-License-Identifier: Apache-2.0
"""A real Ray for tests: started once per module, stopped at its end, quiet.

    from ray_support import ray_cluster  # noqa: F401

The fixture needs `server`, so that Ray's workers inherit the address of that huskd.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import SdkServer

CPUS = 2
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before the first import of ray


@pytest.fixture(scope="module")
def ray_cluster(server: SdkServer) -> Iterator[Any]:
    import ray

    os.environ.pop("HUSK_ENGINE", None)
    ray.init(
        num_cpus=CPUS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        yield ray
    finally:
        ray.shutdown()
