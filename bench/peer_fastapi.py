# SPDX-License-Identifier: Apache-2.0
"""Peer of the HTTP benchmarks: POST /run as it is usually built, with FastAPI, subprocess and bubblewrap.

Started by uvicorn. Takes and answers what husk's /run does, but checks no code, sets no limits but the time, and
measures no memory: less to do, which is in its favour.
"""
import os
import subprocess
import time
from typing import Optional

from fastapi import FastAPI
from pydantic import BaseModel, Field

HOST_PATHS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)


def _sandbox() -> list[str]:
    """The command line that the C benchmarks use for bwrap."""
    command = ["bwrap", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in HOST_PATHS:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    return command + ["/usr/bin/python3", "-I", "-c"]


SANDBOX = _sandbox()
app = FastAPI()


class RunRequest(BaseModel):
    """What husk's /run takes."""

    code: str = Field(..., min_length=1, max_length=1_000_000)
    timeout: int = Field(30, ge=1, le=300)
    memory_limit: int = Field(512, ge=64, le=2048)
    auto_print: bool = True


class RunResult(BaseModel):
    """What husk's /run answers."""

    status: str
    stdout: str
    stderr: str
    execution_time: float
    memory_used: Optional[float]
    error: Optional[str]


@app.get("/health")
def health() -> dict[str, str]:
    """Says that it runs."""
    return {"status": "healthy"}


@app.post("/run", response_model=RunResult)
def run(request: RunRequest) -> RunResult:
    """Runs the code in a fresh sandbox. In a thread of the server's pool, as FastAPI does for plain functions."""
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [*SANDBOX, request.code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=request.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return RunResult(
            status="timeout",
            stdout="",
            stderr="",
            execution_time=float(request.timeout),
            memory_used=None,
            error=None,
        )
    return RunResult(
        status="success" if done.returncode == 0 else "error",
        stdout=done.stdout,
        stderr=done.stderr,
        execution_time=round(time.monotonic() - begun, 3),
        memory_used=None,
        error=None if done.returncode == 0 else done.stderr,
    )
