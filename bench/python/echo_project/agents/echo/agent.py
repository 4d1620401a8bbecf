# SPDX-License-Identifier: Apache-2.0
"""An agent that says what it was told: what is left is the way to it and back."""

import husk


async def echo(query: str) -> str:
    """The agent."""
    return query


husk.serve(echo, name="echo")
