# SPDX-License-Identifier: Apache-2.0
"""The command `rayai` of the Python package: runs the program of that name, which is part of husk."""

from __future__ import annotations

import os
import sys

from husk import locate
from husk.errors import ProgramNotFoundError

__all__ = ["main"]

MISSING = 127  # as a shell reports a command that it does not find


def main() -> int:
    """Replaces this process by the program `rayai`; returns only if there is none."""
    try:
        # Beside husk: PATH may lead to this command itself.
        program = os.path.join(os.path.dirname(os.path.realpath(locate.program("husk"))), "rayai")
    except ProgramNotFoundError as error:
        print(f"rayai: the programs of husk are not installed: {error}", file=sys.stderr)
        return MISSING
    if sys.prefix != sys.base_prefix:
        # Agents are served with the Python that this command belongs to.
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    try:
        os.execv(program, ["rayai", *sys.argv[1:]])
    except OSError as error:
        print(f"rayai: cannot run {program}: {error.strerror}", file=sys.stderr)
        return MISSING
