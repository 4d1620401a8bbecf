# SPDX-License-Identifier: Apache-2.0
"""Finds Ray and starts it on request. Importing this file does not import Ray."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import os
import sys
import threading
from typing import Any

from husk.errors import RayMissingError

__all__ = ["asked_for", "module", "started"]

_lock = threading.Lock()


def module() -> Any:
    """Returns the package `ray`, or raises `RayMissingError`."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise RayMissingError(
            "Ray is required and cannot be imported",
            detail=str(error),
            solution="pip install 'ray[serve]'",
        ) from error


def asked_for() -> bool:
    """Returns whether to use Ray: `HUSK_ENGINE` is `ray`, or it is unset and Ray is initialised in
    this process.
    """
    engine = os.environ.get("HUSK_ENGINE")
    if engine:
        return engine == "ray"
    is_initialized = getattr(sys.modules.get("ray"), "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())


def started() -> Any:
    """Returns the package `ray`, connected to a cluster.

    If Ray is initialised already, it is used as it is. Otherwise Ray's own rules apply: the cluster
    of `RAY_ADDRESS`, or one that runs on this machine, or a new one for the life of this process.
    """
    ray = module()
    with _lock:
        if not ray.is_initialized():
            # A new cluster must not report usage statistics unless the user enabled that.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            _init(ray)
    return ray


def _init(ray: Any) -> None:
    """Ray's processes die with the *thread* that started them, so that thread must live as long as
    this process.
    """
    start = functools.partial(ray.init, include_dashboard=False, ignore_reinit_error=True)
    if threading.current_thread() is threading.main_thread():
        start()
        return
    done: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            done.set_result(start())
        except BaseException as error:
            done.set_exception(error)
            return
        threading.Event().wait()

    threading.Thread(target=run, name="husk-ray", daemon=True).start()
    done.result()
