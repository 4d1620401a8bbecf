# SPDX-License-Identifier: Apache-2.0
"""A thousand calls of a tool with one call of `batch_tool`; one of them fails and does not affect
the others.

    python sdk/python/examples/batch_1000.py

The tool runs in worker processes with CPU and memory limits, several at a time.
"""

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)

import husk


@husk.tool(num_cpus=1, memory="256MB")
def collatz(n: int) -> int:
    """Count the steps from n to 1."""
    if n < 1:
        raise ValueError(f"{n} never arrives")
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


if __name__ == "__main__":
    batch = husk.batch_tool([collatz])
    answer = batch(tool_name="collatz", tool_inputs=[{"n": n} for n in range(1000)])

    steps = [-1 if result is None else result for result in answer["results"]]
    longest = steps.index(max(steps))
    print(
        f"{answer['count']} calls; the longest way has {steps[longest]} steps and begins at {longest}"
    )
    failed = [error for error in answer["errors"] if error]
    print(f"{len(failed)} failed: {failed[0]}")
