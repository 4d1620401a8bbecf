# SPDX-License-Identifier: Apache-2.0
"""A process whose lines are collected while it runs."""
from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from waiting import PATIENCE, wait_until


class Heard:
    """Runs one process after the other and keeps what they print, on whichever stream."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.listener: threading.Thread
        self._process: subprocess.Popen[str] | None = None

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was never started"
        return self._process

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, *command: str | Path, env: Mapping[str, str], cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self.listener = threading.Thread(
            target=self._listen, args=(self._process.stdout,), daemon=True
        )
        self.listener.start()

    def _listen(self, out: IO[str]) -> None:
        for line in out:
            self.hear(line.rstrip("\n"))

    def hear(self, line: str) -> None:
        self.lines.append(line)

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_said(self, text: str, times: int = 1) -> list[str]:
        """The lines with this text, as soon as there are so many."""

        def enough() -> list[str] | None:
            found = [line for line in self.lines if text in line]
            return found if len(found) >= times else None

        return wait_until(enough, lambda: f"it said {text!r}:\n{self.output}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends it and returns its exit code."""
        self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"does not stop:\n{self.output}") from None
