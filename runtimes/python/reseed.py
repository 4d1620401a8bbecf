# SPDX-License-Identifier: Apache-2.0
"""Gives a freshly forked box random numbers and secrets of its own.

Boxes are forked past CPython's at-fork hooks, and the process id does not change either (a box is
PID 1 in its namespace, as its zygote is), so libraries that detect forks by pid do not notice.
Whatever was seeded or generated at import is replaced here. The string hash seed cannot change
after start: zygotes are rotated instead.
"""

import os
import sys
from typing import Any, Callable

import _husk

_hooks: list[Callable[[], None]] = []


def _random(module: Any) -> None:
    module.seed(int.from_bytes(os.urandom(32), "little"))  # a number: bytes would be hashed first


def _numpy(module: Any) -> None:
    module.seed([int.from_bytes(os.urandom(4), "little") for _ in range(4)])


def _ssl(module: Any) -> None:
    # Mixing into the primary generator makes the per-thread ones reseed before their next output.
    module.RAND_add(os.urandom(48), 48.0)


def _tempfile(module: Any) -> None:
    module._name_sequence = None
    module._once_lock = module._allocate_lock()


def _multiprocessing(module: Any) -> None:
    process = module.current_process()
    process.authkey = os.urandom(32)


def _torch(module: Any) -> None:
    module.manual_seed(int.from_bytes(os.urandom(8), "little"))


def _uuid(module: Any) -> None:
    module._node = None
    module._last_timestamp = None


_KNOWN: dict[str, Callable[[Any], None]] = {
    "random": _random,
    "numpy.random": _numpy,
    "ssl": _ssl,
    "tempfile": _tempfile,
    "multiprocessing.process": _multiprocessing,
    "torch": _torch,
    "uuid": _uuid,
}


def prepare() -> bool:
    """In the zygote: decide once what there is to reseed. False: nothing but libc's generators."""
    for name, hook in _KNOWN.items():
        module = sys.modules.get(name)
        if module is not None:
            _hooks.append(lambda hook=hook, module=module: hook(module))  # type: ignore[misc]
    return bool(_hooks)


def apply() -> None:
    """In a new box, before anything else."""
    _husk.seed_libc()
    for hook in _hooks:
        hook()
