# SPDX-License-Identifier: Apache-2.0
"""Finds the agents and MCP servers of a project:
`python -m husk.agents.discover --folder DIR --out-fd N`.

Runs each `agents/*/agent.py` and `mcp_servers/*/server.py` in its own process with a time limit,
where serve() only registers. Writes the result to descriptor N as one JSON object; a file that fails
is listed there with its traceback and does not affect the others. Serves nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import dataclasses
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Optional, Sequence

VERSION = 1
IMPORT_SECONDS = 120.0
AT_A_TIME = 4

_FOLDERS = {"agents": "agent.py", "mcp_servers": "server.py"}


@dataclasses.dataclass(frozen=True)
class Found:
    """The agents and failures of one file."""

    file: str
    folder: str
    agents: list[dict[str, Any]]
    failed: list[dict[str, str]]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m husk.agents.discover")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--folder", help="a project with agents/ and mcp_servers/")
    where.add_argument("--file", help="one file")
    parser.add_argument("--main", action="store_true", help="run the file as a script")
    parser.add_argument("--agents", default="", help="only these, separated by commas")
    parser.add_argument("--servers", default="", help="only these MCP servers")
    parser.add_argument("--only", choices=("agents", "servers"), help="do not run the others")
    parser.add_argument("--out-fd", type=int, required=True, help="where the result goes")
    parser.add_argument("--seconds", type=float, default=IMPORT_SECONDS, help="limit for one file")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--trace-fd", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--lifeline-fd", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.file is not None and options.here:
        _look_here(options)
    if options.folder is not None:
        if not os.path.isdir(options.folder):
            print(f"husk.agents.discover: there is no folder {options.folder}", file=sys.stderr)
            return 1
        result = discover(
            options.folder,
            names(options.agents),
            names(options.servers),
            options.seconds,
            options.only,
        )
    else:
        found = look_at(os.path.abspath(options.file), options.main, options.seconds)
        result = {"version": VERSION, "agents": found.agents, "failed": found.failed}
    with os.fdopen(options.out_fd, "wb") as out:
        out.write(json.dumps(result).encode())
    return 0


def names(text: str) -> list[str]:
    """Returns the names of a list such as `a,b`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def discover(
    folder: str,
    agents: Sequence[str] = (),
    servers: Sequence[str] = (),
    seconds: float = IMPORT_SECONDS,
    only: Optional[str] = None,
) -> dict[str, Any]:
    """Returns the agents and MCP servers of a project, as described at the top of this file.

    Args:
        folder: the project.
        agents: only these, by the name of their folder or by their served name; empty: all, unless
            servers are named.
        servers: the same for MCP servers.
        seconds: time limit for each file.
        only: "agents" or "servers"; files of the other kind do not run.
    """
    result: dict[str, Any] = {"version": VERSION, "agents": [], "failed": []}
    if only is None and bool(agents) != bool(servers):
        only = "agents" if agents else "servers"  # names of one kind leave out the other
    for kind, parent, wanted in (
        ("agents", "agents", agents),
        ("servers", "mcp_servers", servers),
    ):
        if only not in (None, kind):
            continue
        files = _files(os.path.abspath(folder), parent)
        if wanted and all(name in (f.parent.name for f in files) for name in wanted):
            files = [f for f in files if f.parent.name in wanted]  # do not run the others
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            looks = list(pool.map(lambda f: look_at(str(f), False, seconds), files))
        for found in looks:
            chosen = [a for a in found.agents if _is_wanted(a["name"], found, wanted)]
            result["agents"] += chosen
            if _is_wanted("", found, wanted) or not wanted:
                result["failed"] += found.failed
        result["failed"] += _missing(folder, parent, wanted, looks)
    return result


def _files(folder: str, parent: str) -> list[Path]:
    base = Path(folder, parent)
    if not base.is_dir():
        return []
    names = sorted(p.name for p in base.iterdir() if not p.name.startswith("__"))
    return [f for f in (base / name / _FOLDERS[parent] for name in names) if f.is_file()]


def _is_wanted(name: str, found: Found, wanted: Sequence[str]) -> bool:
    return not wanted or name in wanted or found.folder in wanted


def _missing(
    folder: str, parent: str, wanted: Sequence[str], looks: Sequence[Found]
) -> list[dict[str, str]]:
    there = {f.folder for f in looks} | {a["name"] for f in looks for a in f.agents}
    what = "agent" if parent == "agents" else "MCP server"
    return [
        _failure(
            os.path.join(os.path.abspath(folder), parent, name, _FOLDERS[parent]),
            f"there is no {what} '{name}'",
        )
        for name in wanted
        if name not in there
    ]


def _failure(file: str, error: str, trace: str = "") -> dict[str, str]:
    return {"file": file, "error": error, "traceback": trace}


def look_at(file: str, main: bool, seconds: float) -> Found:
    """Runs one file in its own process and returns its registered agents, or its failure."""
    folder = os.path.basename(os.path.dirname(file))
    if not os.path.isfile(file):
        return Found(file, folder, [], [_failure(file, "there is no such file")])
    lifeline, hold = os.pipe()
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as trace,
        os.fdopen(lifeline, "rb"),
        os.fdopen(hold, "wb"),
    ):
        command = [sys.executable, "-m", "husk.agents.discover", "--here", "--file", file]
        command += ["--out-fd", str(out.fileno()), "--trace-fd", str(trace.fileno())]
        command += ["--lifeline-fd", str(lifeline), "--seconds", str(seconds)]
        command += ["--main"] if main else []
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),  # keep the file's output apart from the result
            pass_fds=(out.fileno(), trace.fileno(), lifeline),
            start_new_session=True,
        )
        try:
            # The child ends itself before that, with a traceback.
            code: Optional[int] = process.wait(seconds + 5)
        except subprocess.TimeoutExpired:
            code = None
        _end(process)
        out.seek(0)
        trace.seek(0)
        said, where = out.read(), trace.read().decode(errors="replace")
    if code == 0 and said:
        answer = json.loads(said)
        return Found(file, folder, answer["agents"], answer["failed"])
    return Found(file, folder, [], [_failure(file, _how(code, where, seconds), where)])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _how(code: Optional[int], where: str, seconds: float) -> str:
    if code is None or where.startswith("Timeout"):
        return f"the file ran for more than {seconds:g} s"
    if code < 0:
        return f"the process was ended by {signal.Signals(-code).name} while the file ran"
    return f"the process ended with exit code {code} while the file ran"


def _end_with(lifeline: int) -> None:
    """Waits until the parent is gone, then kills this process and its children."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def _look_here(options: argparse.Namespace) -> None:
    """The child's part. Never returns, so that threads of the file cannot keep the process alive."""
    os.environ["HUSK_AGENT_DISCOVER"] = "1"
    for number in (options.out_fd, options.trace_fd, options.lifeline_fd):
        os.set_inheritable(number, False)
    threading.Thread(target=_end_with, args=(options.lifeline_fd,), daemon=True).start()
    faulthandler.dump_traceback_later(options.seconds, exit=True, file=options.trace_fd)
    from husk.agents import load
    from husk.errors import AgentLoadError

    agents: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    try:
        for deployment in load.load(options.file, options.main):
            agents.append(_entry(deployment, options.file, options.main))
    except AgentLoadError as e:
        failed.append(_failure(options.file, e.message, e.traceback))
    except BaseException as e:
        error = load.describe(e)
        failed.append(_failure(options.file, error.message, error.traceback))
    faulthandler.cancel_dump_traceback_later()
    answer = json.dumps({"agents": [] if failed else agents, "failed": failed}).encode()
    while answer:
        answer = answer[os.write(options.out_fd, answer) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _entry(deployment: Any, file: str, main: bool) -> dict[str, Any]:
    """Returns one agent in the form of the plan."""
    from husk.agents import asgi, kinds

    if deployment.kind == "mcp":
        asgi.application(deployment.agent)
        framework, streams, chat = "mcp", [], False
    else:
        adapter = asyncio.run(kinds.resolve(deployment.agent))
        framework, streams, chat = adapter.framework, adapter.streams, adapter.chat is not None
    return {
        "name": deployment.name,
        "kind": deployment.kind,
        "framework": framework,
        "file": file,
        "main": main,
        "route_prefix": deployment.route_prefix,
        "num_cpus": deployment.num_cpus,
        "num_gpus": deployment.num_gpus,
        "memory_bytes": deployment.memory_bytes,
        "replicas": deployment.replicas,
        "streams": streams,
        "chat": chat,
        "max_in_flight": deployment.max_in_flight,
        "queue_length": deployment.queue_length,
        "request_timeout_ms": deployment.request_timeout_ms,
        "retries": deployment.retries,
    }


if __name__ == "__main__":
    sys.exit(main())
