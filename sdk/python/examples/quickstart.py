# SPDX-License-Identifier: Apache-2.0
"""The first example to try: runs code in a sandbox and prints its cost and its receipt.

    python sdk/python/examples/quickstart.py

Uses a husk server that runs on this machine, or starts one for the life of the process.
"""

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)

from husk import Sandbox

with Sandbox() as s:
    result = s.run("sum(n * n for n in range(10))")
    print(result.text)

print(f"cost: {result.cost}")
print(f"receipt: {result.receipt}")
