# SPDX-License-Identifier: Apache-2.0
"""Peer of the benchmarks of isolation and of branches: a zygote with frozen memory like husk's, but
every request is a bare fork.

    peer_forkonly.py RUNTIME_DIR [MEGABYTES]

It has so much memory beside what is frozen, as a program that has been running has.

Each packet on descriptor 3 is code. A fork runs it with stdout as it is here, answers "ok" and exits.
"""
import gc
import importlib
import os
import socket
import sys
from typing import Any

runtime_dir = sys.argv[1]
megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 0
sys.path.insert(0, runtime_dir + "/runtimes/python")
sys.path.insert(0, runtime_dir)
husk: Any = importlib.import_module("_husk")
importlib.import_module("runner")  # what a zygote of husk imports


def run(code: bytes) -> None:
    exec(compile(code, "<cell>", "exec"), {})
    sys.stdout.flush()


def child(control: socket.socket, code: bytes) -> None:
    run(code)
    control.send(b"ok")
    os._exit(0)


def reap() -> None:
    """Reaps the children that have ended; those still ending are reaped next time."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    control = socket.socket(fileno=3)
    gc.disable()
    run(b"print(1+1)")  # makes what is made lazily
    gc.collect()
    gc.freeze()
    gc.enable()
    husk.freeze()
    state = bytearray(b"x") * (megabytes << 20)
    control.send(b"ready")
    while code := control.recv(65536):
        if husk.fork() == 0:
            child(control, code)
        reap()
    del state


main()
