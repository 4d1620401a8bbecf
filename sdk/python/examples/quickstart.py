# SPDX-License-Identifier: Apache-2.0
"""The first thing to try: code in a sandbox, what it cost and what was enforced around it.

    python sdk/python/examples/quickstart.py

Uses the husk server that runs on this machine, or starts one for as long as this takes.
"""

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)

from husk import Sandbox

with Sandbox() as s:
    result = s.run("sum(n * n for n in range(10))")
    print(result.text)

print(f"cost: {result.cost}")
print(f"receipt: {result.receipt}")
