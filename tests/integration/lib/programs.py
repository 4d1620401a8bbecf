# SPDX-License-Identifier: Apache-2.0
"""The built programs, run as a user would run them."""
from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waiting import PATIENCE

MIB = 1 << 20


@dataclass
class Done:
    """A program that has ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def error(self) -> str:
        return self.err.decode()


@dataclass
class Program:
    """One of the built programs with its own working directory, home and environment."""

    path: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.cwd / "home"),
            "HUSK_TEMPLATE_DIR": str(self.cwd / "templates"),
            "HUSK_CACHE_DIR": str(self.cwd / "cache"),
            "LANG": "C.UTF-8",
            **self.env,
            **(extra or {}),
        }

    def __call__(
        self, *args: str, stdin: bytes | None = b"", env: dict[str, str] | None = None
    ) -> Done:
        done = subprocess.run(
            [self.path, *args],
            input=stdin,
            capture_output=True,
            cwd=self.cwd,
            env=self.environment(env),
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.path, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.cwd,
            env=self.environment(env),
        )

    def start_up(self, *args: str) -> subprocess.Popen[bytes]:
        """Starts what prints "up" at first, and returns when it has."""
        running = self.start(*args)
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        return running

    def in_terminal(
        self,
        *args: str,
        env: dict[str, str] | None = None,
        react: Callable[[bytes], bytes] | None = None,
    ) -> Terminal:
        """Runs on a pseudo-terminal of its own. react gets all output so far and returns keys."""
        argv = [str(self.path), *args]
        environment = self.environment({"TERM": "xterm", **(env or {})})
        pid, master = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.cwd)
                os.execve(argv[0], argv, environment)
            finally:
                os._exit(127)
        return _attend(pid, master, react)


@dataclass
class Terminal:
    code: int
    shown: bytes


def type_after(word: bytes, keys: bytes = b"\x03") -> Callable[[bytes], bytes]:
    """For in_terminal(): typed once, Ctrl-C unless others are given, when the word is to be seen."""
    left = [keys]

    def react(shown: bytes) -> bytes:
        return left.pop() if word in shown and left else b""

    return react


def _attend(pid: int, master: int, react: Callable[[bytes], bytes] | None) -> Terminal:
    shown = b""
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            ready, _, _ = select.select([master], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"hangs after showing {shown!r}")
            try:
                data = os.read(master, 65536)
            except OSError:  # the last process has closed the terminal
                break
            if not data:
                break
            shown += data
            keys = react(shown) if react else b""
            if keys:
                os.write(master, keys)
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(master)
    return Terminal(os.waitstatus_to_exitcode(status), shown.replace(b"\r\n", b"\n"))


@dataclass
class Tripwire:
    """Stands in for the launcher, so that a test can tell whether one was started."""

    env: dict[str, str]
    mark: Path

    def tripped(self) -> bool:
        return self.mark.exists()


def option_names(help_text: str) -> list[str]:
    """The long options that a help text lists."""
    words: Sequence[str] = help_text.split()
    return sorted({w.rstrip(",") for w in words if w.startswith("--") and len(w.rstrip(",")) > 2})


ECHO = "def handler(event, context):\n    return {'event': event}\n"


def write_handler(program: Program, text: str, name: str = "h.py") -> str:
    (program.cwd / name).write_text(text)
    return name


def write_config(program: Program, settings: Any, home: bool = False) -> None:
    folder = program.cwd / "home" if home else program.cwd
    (folder / ".sandboxrc.json").write_text(json.dumps(settings))


def run_handler(program: Program, *args: str) -> Any:
    done = program("h.py", "--format", "json", *args)
    document = json.loads(done.out)
    assert document["exit_code"] == done.code
    return document
