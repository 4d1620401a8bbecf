# SPDX-License-Identifier: Apache-2.0
"""Assigns the GPUs of this machine to workers.

It only counts: a program can ignore CUDA_VISIBLE_DEVICES. Shares of a GPU are not enforced, as with
Ray.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Optional, Sequence


def present() -> list[str]:
    """Returns the names of the GPUs that this process may use, as in CUDA_VISIBLE_DEVICES."""
    devices = sorted(
        match.group(1)
        for path in glob.glob("/dev/nvidia*")
        if (match := re.fullmatch(r"/dev/nvidia([0-9]+)", path))
    )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not devices:
        return devices
    return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]


class GpuLedger:
    """Assigns whole GPUs or a share of one, and takes them back. Callers must hold the engine's
    lock.
    """

    def __init__(self, names: Optional[Sequence[str]] = None) -> None:
        self._free = {name: 1.0 for name in (present() if names is None else names)}

    @property
    def names(self) -> list[str]:
        """All GPUs, free or not."""
        return list(self._free)

    def __len__(self) -> int:
        return len(self._free)

    def take(self, count: float) -> Optional[tuple[str, ...]]:
        """Returns the names of GPUs to use, an empty tuple for 0, or None if too few are free."""
        if count == 0:
            return ()
        share = min(count, 1.0)
        fitting = [name for name, free in self._free.items() if free >= share - 1e-9]
        # Shares come from the fullest GPU with enough left, so that others stay whole.
        fitting.sort(key=lambda name: self._free[name])
        wanted = int(-(-count // 1))
        if len(fitting) < wanted:
            return None
        taken = tuple(fitting[:wanted])
        for name in taken:
            self._free[name] -= share
        return taken

    def give_back(self, names: tuple[str, ...], count: float) -> None:
        """Returns the GPUs of `take(count)`."""
        for name in names:
            self._free[name] = min(1.0, self._free[name] + min(count, 1.0))
