# SPDX-License-Identifier: Apache-2.0
"""Serving an agent: `husk.serve(agent, name="helper")`, `husk.serve_mcp(server, name="files")`.

When `husk agents up` inspects the file, or a worker of huskd runs it, the call only registers the
agent. In a script that the user started, it serves: with Ray Serve if Ray is selected, else with
`husk agents up` as a child, and it returns when that ends. In an imported file it only registers.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Optional, Union

from husk import locate
from husk.agents import kinds
from husk.engines.resources import parse_memory
from husk.errors import InvalidParameterError

Number = Union[int, float]

DISCOVER_VARIABLE = "HUSK_AGENT_DISCOVER"
WORKER_VARIABLE = "HUSK_AGENT_WORKER"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}")
_PREFIX = re.compile(r"(/[A-Za-z0-9_.~-]+)+")
_MIN_MEMORY = 16 << 20
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Deployment:
    """The settings of one served agent or MCP server."""

    name: str
    kind: str  # "agent" or "mcp"
    agent: Any
    route_prefix: str
    num_cpus: float
    num_gpus: float
    memory_bytes: int
    replicas: int
    max_in_flight: int
    queue_length: int
    request_timeout_ms: int
    file: str = ""
    retries: int = 0


class Registered(BaseException):
    """Ends a script that is only inspected: code after serve() must not run."""


registered: list[Deployment] = []
"""The deployments that were registered in this process, in order."""


def serve(
    agent: Any,
    name: Optional[str] = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    num_cpus: Number = 1,
    num_gpus: Number = 0,
    memory: Union[str, int] = "2GB",
    replicas: int = 1,
    route_prefix: Optional[str] = None,
    *,
    max_in_flight: int = 64,
    queue_length: int = 256,
    request_timeout: float = 300.0,
    retries: int = 0,
) -> None:
    """Serves an agent at `POST /agents/{name}/`.

    Args:
        agent: an agent of Pydantic AI, LangChain, LangGraph or Agno, a `husk.Agent`, an object with
            `run(data)`, a plain or async function of the query, or a function without arguments or
            a class that returns one of these.
        name: letters, digits, `_` and `-`; by default the name of the calling file's folder.
        host: the address to listen on, if the script itself serves. There is no authentication, so
            an address other than loopback also requires HUSK_INSECURE_LISTEN=true in the
            environment.
        port: the port, if the script itself serves.
        num_cpus: CPUs of one worker process.
        num_gpus: GPUs of one worker process.
        memory: memory limit of one worker process, which is killed if it exceeds it.
        replicas: number of worker processes.
        route_prefix: path instead of `/agents/{name}`.
        max_in_flight: requests that one worker handles at the same time.
        queue_length: requests that may wait for a worker; further ones get 503.
        request_timeout: seconds after which a request gets 504.
        retries: how often a request is repeated whose worker died after the agent had begun it and
            before it answered; it then runs alone in a worker. None by default: a request that may
            have had effects runs at most once, and gets 502. Not on Ray Serve.

    Raises:
        AgentTypeError: husk does not support this kind of agent; a TypeError.
        ValueError: another argument is invalid.
    """
    kinds.detect(agent)
    deployment = _deployment(
        "agent", agent, name, num_cpus, num_gpus, memory, replicas, route_prefix, "/agents/"
    )
    deployment = dataclasses.replace(
        deployment,
        max_in_flight=_whole("max_in_flight", max_in_flight, 1, 10_000),
        queue_length=_whole("queue_length", queue_length, 0, 100_000),
        request_timeout_ms=_timeout(request_timeout),
        retries=_whole("retries", retries, 0, 10),
    )
    _register_or_serve(deployment, host, port)


def serve_mcp(
    mcp_server: Any,
    name: Optional[str] = None,
    num_cpus: Number = 1,
    num_gpus: Number = 0,
    memory: Union[str, int] = "512MB",
    replicas: int = 1,
    route_prefix: Optional[str] = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
) -> None:
    """Serves an MCP server at `/{name}/mcp`, stateless: requests are independent, so any replica can
    answer.

    Args:
        mcp_server: `MCPServer` or `FastMCP` of the mcp package, `FastMCP` of fastmcp, or an ASGI
            application.
        name: as for `serve`.
        num_cpus: CPUs of one worker process.
        num_gpus: GPUs of one worker process.
        memory: memory of one worker process.
        replicas: number of worker processes.
        route_prefix: path instead of `/{name}`; `/mcp` is appended.
        host: the address to listen on, if the script itself serves. There is no authentication, so
            an address other than loopback also requires HUSK_INSECURE_LISTEN=true in the
            environment.
        port: the port, if the script itself serves.

    Raises:
        AgentTypeError: husk does not support this kind of MCP server; a TypeError.
        ValueError: another argument is invalid.
    """
    from husk.agents import asgi

    asgi.check(mcp_server)
    deployment = _deployment(
        "mcp", mcp_server, name, num_cpus, num_gpus, memory, replicas, route_prefix, "/"
    )
    _register_or_serve(deployment, host, port)


def _deployment(
    kind: str,
    agent: Any,
    name: Optional[str],
    num_cpus: Number,
    num_gpus: Number,
    memory: Union[str, int],
    replicas: int,
    route_prefix: Optional[str],
    parent: str,
) -> Deployment:
    file = str(_caller().f_globals.get("__file__") or "")
    name = _checked_name(name, file)
    prefix = parent + name if route_prefix is None else route_prefix.rstrip("/")
    if not _PREFIX.fullmatch(prefix):
        raise _wrong(f"route_prefix must be a path such as '/agents/helper', not {route_prefix!r}")
    memory_bytes = parse_memory(memory)
    if memory_bytes < _MIN_MEMORY:
        raise _wrong(f"memory must be at least 16MB: {memory!r}")
    cpus = _number("num_cpus", num_cpus)
    if cpus < 0.001:
        raise _wrong("num_cpus must be more than 0: an agent needs CPU time")
    return Deployment(
        name=name,
        kind=kind,
        agent=agent,
        route_prefix=prefix,
        num_cpus=cpus,
        num_gpus=_number("num_gpus", num_gpus),
        memory_bytes=memory_bytes,
        replicas=_whole("replicas", replicas, 1, 64),
        max_in_flight=64,
        queue_length=256,
        request_timeout_ms=300_000,
        file=os.path.abspath(file) if file else "",
    )


def _wrong(message: str) -> InvalidParameterError:
    return InvalidParameterError(message)


def _checked_name(name: Optional[str], file: str) -> str:
    if name is None:
        if not file:
            raise _wrong("serve() requires a name, because the caller has no file")
        name = Path(file).resolve().parent.name
        if not _NAME.fullmatch(name):
            raise _wrong(f"the folder name {name!r} is not valid for an agent; pass name='...'")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(f"name must be letters, digits, '_' and '-', at most 63: {name!r}")
    return name


def _number(what: str, value: Number) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(f"{what} must be a number, not {type(value).__name__}")
    if not math.isfinite(value) or not 0 <= value <= 1024:
        raise _wrong(f"{what} must be 0 to 1024: {value}")
    return float(value)


def _whole(what: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _wrong(f"{what} must be a whole number, {least} to {most}: {value!r}")
    return value


def _timeout(seconds: float) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise _wrong(f"request_timeout must be seconds, not {type(seconds).__name__}")
    if not 0.001 <= seconds <= 86_400:
        raise _wrong(f"request_timeout must be more than 0 and at most a day: {seconds}")
    return int(seconds * 1000)


def _caller() -> FrameType:
    """Returns the frame outside of husk and rayai that called."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in ("husk", "rayai"):
            return frame
        frame = frame.f_back
    raise RuntimeError("serve() was called from nowhere")


def _register_or_serve(deployment: Deployment, host: str, port: int) -> None:
    is_script = _caller().f_globals.get("__name__") == "__main__"
    if os.environ.get(DISCOVER_VARIABLE) or os.environ.get(WORKER_VARIABLE):
        registered.append(deployment)
        if is_script:
            raise Registered()
        return
    if not is_script:
        registered.append(deployment)
    elif ray_wanted():
        from husk.serving import ray as ray_serve

        ray_serve.deploy([deployment], host=host, port=port, block=True)
    else:
        _serve_script(deployment.file, host, port)


def ray_wanted() -> bool:
    """Returns whether HUSK_ENGINE is `ray`, or it is unset and Ray runs in this process."""
    asked = os.environ.get("HUSK_ENGINE")
    if asked:
        return asked == "ray"
    is_initialized = getattr(sys.modules.get("ray"), "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())


def _serve_script(file: str, host: str, port: int) -> None:
    """Runs `husk agents up` for the script and waits; forwards signals, and exits with its code."""
    if not file or not os.path.isfile(file):
        raise _wrong("serve() without Ray requires a script in a file: workers run that file again")
    _whole("port", port, 1, 65_535)
    command = [locate.program("husk"), "agents", "up", "--file", file, "--host", host]
    command += ["--port", str(port), "--python", sys.executable]
    code = _run(command)
    if code != 0:
        sys.exit(code)


def _run(command: list[str]) -> int:
    libc = ctypes.CDLL(None)
    ours = os.getpid()

    def in_child() -> None:
        # A new process group: Ctrl-C in the terminal reaches only this process, which forwards it.
        os.setpgid(0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != ours:
            os.kill(os.getpid(), signal.SIGTERM)

    forwarded = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    sys.stdout.flush()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=in_child)

    def forward(number: int, _frame: Any) -> None:
        if child.returncode is None:
            child.send_signal(number)

    try:
        before = {number: signal.signal(number, forward) for number in forwarded}
    except ValueError:
        # Only the main thread can handle signals; the child dies with this process anyway.
        before = {}
    try:
        code = child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
