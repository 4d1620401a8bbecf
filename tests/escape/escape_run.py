# SPDX-License-Identifier: Apache-2.0
"""Starting `husk run` and reading what it answers."""
from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from escape_world import descendants, seen

ROOT = Path(__file__).resolve().parents[2]
HUSK = Path(os.environ.get("HUSK_BIN", ROOT / "build" / "bin" / "husk"))
GUARD_S = 5.0  # how much longer than its time limit a run may take before it counts as evasion


@dataclass
class Run:
    raw: bytes  # every byte that husk printed, on both streams
    result: dict[str, Any]
    wall_s: float
    husk_mb: float  # most memory that husk itself was seen to use

    def facts(self) -> dict[str, Any]:
        """The flat names that a payload's demands use."""
        r = self.result
        metrics = r["metrics"]
        return {
            "status": r["status"],
            "exit": r["exit_code"],
            "stdout": r["stdout"],
            "stderr": r["stderr"],
            "truncated": str(r["stdout_truncated"]).lower(),
            "value": r["value"],
            "error": (r["error"] or {}).get("type", "none"),
            "cause": r["termination"]["cause"],
            "peak_mb": metrics["peak_memory_mb"],
            "cpu_ms": metrics["cpu_time_ms"],
            "processes": metrics["processes"],
            "wall_s": self.wall_s,
            "husk_mb": self.husk_mb,
        }

    def summary(self) -> str:
        shown = {**self.result, "stdout": self.result["stdout"][-2000:]}
        shown.pop("receipt", None)
        return json.dumps(shown, indent=1)[:6000]


def command(flags: dict[str, str], *words: str) -> list[str]:
    line = [str(HUSK), "run"]
    for name, value in flags.items():
        line += [name, value]
    return line + list(words)


def _peak_mb(pid: int) -> float:
    """The high-water mark of a process's memory; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found.group(1)) / 1024 if found else 0.0


def _watch(husk: "subprocess.Popen[bytes]", timeout_s: float) -> tuple[bytes, bytes, float]:
    """Waits for the answer; notes husk's memory, and its processes, to know later what was ours."""
    deadline = time.monotonic() + timeout_s
    peak = 0.0
    while True:
        seen.update(descendants(husk.pid))
        peak = max(peak, _peak_mb(husk.pid))
        try:
            return (*husk.communicate(timeout=0.02), peak)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                husk.kill()
                raise


def run_json(
    flags: dict[str, str],
    *words: str,
    env: dict[str, str],
    timeout_s: float = 30.0,
    pass_fds: tuple[int, ...] = (),
) -> Run:
    """Runs husk with --json and parses its one object. Anything but one object is a failure."""
    start = time.monotonic()
    with subprocess.Popen(
        command(flags, "--json", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        pass_fds=pass_fds,
    ) as husk:
        out, err, peak = _watch(husk, timeout_s)
    wall = time.monotonic() - start
    try:
        result = json.loads(out)
    except ValueError as error:
        raise AssertionError(
            f"husk --json answered no JSON ({error}), exit {husk.returncode}\n"
            f"stdout: {out[:2000]!r}\nstderr: {err[:2000]!r}"
        ) from error
    return Run(out + err, result, wall, peak)


def run_plain(
    flags: dict[str, str], *words: str, env: dict[str, str], timeout_s: float = 20.0
) -> "subprocess.CompletedProcess[bytes]":
    """Runs husk as a user would, and returns what a user would see."""
    with subprocess.Popen(
        command(flags, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as husk:
        out, err, _ = _watch(husk, timeout_s)
    return subprocess.CompletedProcess(husk.args, husk.returncode, out, err)


class LiveBox:
    """A box that stays: its program prints READY when it is set up, and lives until it is ended."""

    def __init__(
        self, code: str, flags: dict[str, str], env: dict[str, str], wait_s: float = 15.0
    ) -> None:
        # nohup and shells that run a job in the background leave signals ignored.
        self.husk = subprocess.Popen(
            ["env", "--default-signal", *command({"--timeout": "60", **flags}, code)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
        )
        self.output = b""
        try:
            self.wait_for(b"READY", wait_s)
        except AssertionError:
            self.end(signal.SIGKILL)
            raise
        seen.update(self.pids())

    def wait_for(self, word: bytes, seconds: float) -> None:
        assert self.husk.stdout is not None
        deadline = time.monotonic() + seconds
        while word not in self.output:
            left = deadline - time.monotonic()
            ready = select.select([self.husk.stdout], [], [], max(left, 0))[0]
            data = os.read(self.husk.stdout.fileno(), 65536) if ready else b""
            if not data:
                raise AssertionError(f"no {word!r} from the box, only {self.output!r}")
            self.output += data

    def pids(self) -> set[int]:
        """Everything that belongs to this run: the launcher, the zygote and the box."""
        return descendants(self.husk.pid)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ends husk by a signal and returns how it exited."""
        assert self.husk.stdout is not None
        self.husk.send_signal(number)
        try:
            self.husk.wait(15)
        finally:
            self.husk.stdout.close()
        return self.husk.returncode

    def __enter__(self) -> "LiveBox":
        return self

    def __exit__(self, *unused: object) -> None:
        if self.husk.poll() is None:
            self.end()
