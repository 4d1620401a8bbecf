# SPDX-License-Identifier: Apache-2.0
"""Peer of the density benchmark: a zygote as it is usually written, without frozen memory and without isolation.

    peer_plainfork.py RUNTIME_DIR COUNT

Imports what a zygote of husk imports. On "fork" it forks COUNT children that run the warm-up snippet and then wait;
on "clear" it ends them. Talks packets on descriptor 3.
"""
import importlib
import os
import signal
import socket
import sys

runtime_dir, count = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, runtime_dir + "/runtimes/python")
sys.path.insert(0, runtime_dir)
importlib.import_module("runner")

SNIPPET = "print(1+1)"


def child(ready: int) -> None:
    """Does in a fork what a parked box has done: a first run, whose output is dropped."""
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    exec(compile(SNIPPET, "<cell>", "exec"), {})
    sys.stdout.flush()
    os.write(ready, b"x")
    while True:
        signal.pause()


def fork_all() -> list[int]:
    told, ready = os.pipe()
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            child(ready)
        pids.append(pid)
    for _ in range(count):
        os.read(told, 1)
    os.close(told)
    os.close(ready)
    return pids


def end_all(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


def main() -> None:
    control = socket.socket(fileno=3)
    control.send(b"ready")
    pids: list[int] = []
    while word := control.recv(64):
        if word == b"fork":
            pids = fork_all()
        elif word == b"clear":
            end_all(pids)
            pids = []
        control.send(b"ok")
    end_all(pids)


main()
