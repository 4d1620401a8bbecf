# SPDX-License-Identifier: Apache-2.0
"""Attempts of a hostile preload, and what became of each. Copied into a template's packages, so it
needs the standard library only and does nothing when it is imported.

An attempt is a function that raises OSError when the kernel refuses, and otherwise returns what it
reached. Each runs in a child process: what one reaches does not help the next.
"""
from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
IS_ARM = platform.machine() == "aarch64"
CHILD_SECONDS = 10
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000

Attempt = Callable[[], Any]
ATTEMPTS: dict[str, Attempt] = {}
WANTED: dict[str, frozenset[str]] = {}  # the errors that count as a refusal of the attempt
REFUSED = "EPERM EACCES ENOSYS"


class NestedArgs(ctypes.Structure):
    """struct clone_args as far as it is used."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal")
    ] + [(name, ctypes.c_uint64) for name in ("stack", "stack_size", "tls")]


def attempt(wanted: str = REFUSED) -> Callable[[Attempt], Attempt]:
    def register(function: Attempt) -> Attempt:
        add(function.__name__, function, wanted)
        return function

    return register


def add(name: str, function: Attempt, wanted: str = REFUSED) -> None:
    assert name not in ATTEMPTS, name
    ATTEMPTS[name] = function
    WANTED[name] = frozenset(wanted.split())


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(x86_64: int, aarch64: int, *args: Any) -> int:
    """A system call by its number; -1 for aarch64 means that both have the same."""
    number = aarch64 if IS_ARM and aarch64 >= 0 else x86_64
    whole = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return checked(LIBC.syscall(ctypes.c_long(number), *whole))


def in_child(function: Attempt, fork: Callable[[], int] = os.fork) -> str:
    """What the function came to: the name of an error, a signal, or "reached: ..."."""
    there, back = os.pipe()
    pid = fork()
    if pid == 0:
        signal.alarm(CHILD_SECONDS)
        try:
            text = f"reached: {function()}"
        except OSError as error:
            text = errno.errorcode.get(error.errno or 0, f"errno {error.errno}: {error}")
        except BaseException as error:  # an attempt that is written wrong
            text = f"broken: {type(error).__name__}: {error}"
        os.write(back, text.encode()[:4000])
        os._exit(0)
    os.close(back)
    with os.fdopen(there, "rb") as reader:
        text = reader.read().decode()
    _, status = os.waitpid(pid, 0)
    return text or f"signal {os.WTERMSIG(status)}"


def nested(function: Attempt) -> Attempt:
    """The same in a user and mount namespace of its own, where it has every capability."""

    def fork() -> int:
        args = NestedArgs(flags=CLONE_NEWUSER | CLONE_NEWNS, exit_signal=signal.SIGCHLD)
        try:
            return call(435, -1, ctypes.byref(args), ctypes.sizeof(args))
        except OSError as error:  # then the attempt was not made
            raise RuntimeError(f"no namespace: {error}") from error

    def run() -> str:
        text = in_child(function, fork)
        for number, name in errno.errorcode.items():
            if name == text:
                raise OSError(number, text)
        return text

    return run


def run_all() -> dict[str, str]:
    return {name: in_child(function) for name, function in ATTEMPTS.items()}
