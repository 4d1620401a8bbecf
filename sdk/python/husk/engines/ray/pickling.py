# SPDX-License-Identifier: Apache-2.0
"""Sends code to Ray workers: by name if they can import it, else as a value."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["share"]


def share(value: Any) -> None:
    """Registers the module of a function, class or object for pickling by value, if workers cannot
    import it.

    Ray has its own copy of cloudpickle, so registrations with the other copy are repeated. Its
    workers find modules only where Python is installed, in PYTHONPATH, and in the folders of the
    script and of the process.
    """
    import cloudpickle  # type: ignore[import-untyped, unused-ignore]

    pickler = importlib.import_module("ray.cloudpickle")
    names = set(cloudpickle.list_registry_pickle_by_value())
    own = str(getattr(value, "__module__", None) or type(value).__module__)
    if own in sys.modules and own != "__main__" and not _is_importable(sys.modules[own]):
        names.add(own)
    for name in names & sys.modules.keys():
        pickler.register_pickle_by_value(sys.modules[name])


def _is_importable(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return True  # built in
    path = Path(file).resolve()
    depth = module.__name__.count(".") + (path.stem == "__init__")
    if len(path.parents) <= depth:
        return False
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    script = getattr(sys.modules["__main__"], "__file__", None)
    places |= {os.getcwd(), os.path.dirname(os.path.abspath(script)) if script else os.getcwd()}
    places |= set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return path.parents[depth] in {Path(place).resolve() for place in places}
