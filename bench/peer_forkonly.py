# SPDX-License-Identifier: Apache-2.0
"""Peer of the isolation-tax benchmark: husk's own zygote, frozen memory and all, but every request is a bare fork.

    peer_forkonly.py RUNTIME_DIR

Each packet on descriptor 3 is code. A fork runs it the way a box does, with stdout as it is here, answers "ok" and exits.
"""
import gc
import importlib
import os
import socket
import sys
from typing import Any

runtime_dir = sys.argv[1]
sys.path.insert(0, runtime_dir + "/runtimes/python")
sys.path.insert(0, runtime_dir)
husk: Any = importlib.import_module("_husk")
runner: Any = importlib.import_module("runner")
reseed: Any = importlib.import_module("reseed")


def child(control: socket.socket, code: bytes) -> None:
    reseed.apply()
    answer = runner.execute({runner.CODE: code}, runner._new_space(), True)
    worked = answer[-1] == (runner.EXIT, bytes(4))
    control.send(b"ok" if worked else b"failed")
    os._exit(0)


def reap() -> None:
    """Takes away whoever has ended; those still ending are met next time."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    control = socket.socket(fileno=3)
    gc.disable()
    reseed.prepare()
    runner.rehearse()
    gc.collect()
    gc.freeze()
    gc.enable()
    husk.freeze()
    control.send(b"ready")
    while code := control.recv(65536):
        if husk.fork() == 0:
            child(control, code)
        reap()


main()
