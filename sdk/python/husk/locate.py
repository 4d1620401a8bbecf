# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of husk and a server, or starts a server for the life of this process.

The server is looked up in this order. A server named by 1 or 2 must answer; only the defaults of 3
are tried one after another:

1. the argument `url` or `socket`;
2. the variable HUSK_URL (`http://host:port`, `https://...` or `unix:///path`), then HUSK_SOCKET (a
   path);
3. the sockets that `husk up` uses by default, then http://127.0.0.1:8000;
4. if none answers, a server of this process's own, with its own data folder and only a unix socket.
   It ends with this process, even if the process is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import importlib.metadata
import json
import os
import shutil
import socket as sockets
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from husk.errors import (
    InvalidParameterError,
    ProgramNotFoundError,
    ServerNotFoundError,
    ServerStartError,
)

DEFAULT_URL = "http://127.0.0.1:8000"
START_SECONDS = 60.0
STOP_SECONDS = 30.0


# ---- programs ----


def program(name: str) -> str:
    """Find a program of husk: `husk`, `huskd`, `sandbox-run`.

    Looks in HUSK_BIN (the folder of the programs, or the path of the program husk), else in PATH
    and then in `build/bin` of the checkout that contains this package or that pip installed it
    from.

    Args:
        name: its name without a folder.

    Returns:
        The absolute path.

    Raises:
        ProgramNotFoundError: it was not found.
    """
    named = os.environ.get("HUSK_BIN")
    if named:  # an explicit setting has no fallback
        named = os.path.dirname(named) if os.path.isfile(named) else named
        found = shutil.which(name, path=named)
        places = named
    else:
        folders = [str(checkout / "build" / "bin") for checkout in _checkouts()]
        found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
        places = " or ".join(["PATH", *folders])
    if found is None:
        raise ProgramNotFoundError(
            f"The program '{name}' is not in {places}.",
            solution="Install husk (make install), or set HUSK_BIN to the folder of its programs.",
        )
    return os.path.abspath(found)


def _checkouts() -> list[Path]:
    """Return the folders that may be the checkout of this package."""
    places = [Path(__file__).resolve().parents[1]]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError, KeyError):
        # Written by pip when it installs from a folder: PEP 610.
        said = importlib.metadata.distribution("husk").read_text("direct_url.json")
        source = urlsplit(json.loads(said or "{}")["url"])
        if source.scheme == "file":
            places.append(Path(unquote(source.path)))
    return [place.parents[1] for place in places if place.parts[-2:] == ("sdk", "python")]


# ---- servers ----


@dataclass(frozen=True)
class Address:
    """Where a server listens: a unix socket, or a URL.

    Attributes:
        socket: path of the unix socket, or None.
        url: base URL without a trailing slash; `http://localhost` for a socket.
    """

    socket: str | None
    url: str

    def __str__(self) -> str:
        return f"unix://{self.socket}" if self.socket else self.url

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which another process finds the same server."""
        return {"HUSK_URL": str(self)}


def parse(url: str) -> Address:
    """Parse `http://host:port`, `https://host` or `unix:///path`."""
    with contextlib.suppress(ValueError):  # raised for an invalid port or host
        parts = urlsplit(url)
        if parts.scheme == "unix" and parts.path:
            return Address(parts.path, "http://localhost")
        if parts.scheme in ("http", "https") and parts.hostname:
            _ = parts.port, parts.hostname.encode("idna")
            return Address(None, url.rstrip("/"))
    raise InvalidParameterError(
        f"'{url}' is not the address of a server.",
        solution="Write http://host:port, https://host or unix:///path.",
    )


def named(url: str | None = None, socket: str | os.PathLike[str] | None = None) -> Address | None:
    """Return the server named by the arguments or the environment, or None."""
    if url is not None and socket is not None:
        raise InvalidParameterError("Give url or socket, not both.")
    if url is not None:
        return parse(url)
    if socket is not None:
        return Address(os.path.abspath(socket), "http://localhost")
    if os.environ.get("HUSK_URL"):
        return parse(os.environ["HUSK_URL"])
    if os.environ.get("HUSK_SOCKET"):
        return Address(os.path.abspath(os.environ["HUSK_SOCKET"]), "http://localhost")
    return None


def default_addresses() -> list[Address]:
    """Return the default addresses of `husk up`, preferred ones first."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    paths = ["/run/husk/husk.sock"]
    if runtime:
        paths.append(f"{runtime}/husk/husk.sock")
    paths.append(f"{state}/husk/husk.sock")
    return [*(Address(p, "http://localhost") for p in paths), Address(None, DEFAULT_URL)]


def _ask(address: Address, path: str) -> tuple[int, Any]:
    """Return status and body of a health request; status 0 if no HTTP server answers."""
    parts = urlsplit(address.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2.0)
    try:
        if address.socket is not None:
            connection.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
            connection.sock.settimeout(2.0)
            connection.sock.connect(address.socket)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()


def answers(address: Address) -> bool:
    """Return whether a huskd answers that this user may use."""
    status, found = _ask(address, "/api/v1/version")
    return status == 200 and isinstance(found, dict) and found.get("name") == "husk"


def server(
    url: str | None = None, socket: str | os.PathLike[str] | None = None, start: bool = True
) -> Address | None:
    """Find a server, or start one.

    Args:
        url: the server to use.
        socket: its unix socket, instead of url.
        start: start one if none is named and none is found.

    Returns:
        Its address; None only if start is False.

    Raises:
        ServerNotFoundError: none was found, and the programs to start one are not installed.
        ServerStartError: none was found, and starting one failed.
    """
    address = named(url, socket)
    if address is not None:
        return address
    with _lock:
        if _own is not None and _own.is_running:
            return _own.address
        tried = default_addresses()
        for candidate in tried:
            if answers(candidate):
                return candidate
    if not start:
        return None
    try:
        return own_server()
    except ProgramNotFoundError as e:
        raise ServerNotFoundError(
            f"No server found at {', '.join(map(str, tried))}.",
            detail=f"and none can be started: {e.message}",
            solution="Start one with `husk up`, name one with HUSK_URL or url=..., or "
            "set HUSK_BIN to the folder of husk's programs.",
        ) from e


# ---- a server of this process's own ----

# A shell runs `husk up` because it outlives this process: its standard input reaches its end when
# this process is gone, since only this process holds the other end. PR_SET_PDEATHSIG does not work
# here: the kernel sends that signal when the *thread* that started the child ends. The watcher also
# removes the folder, in case the shell itself is killed.
_GUARD = """
folder=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- & server=$!
(
    read -r _ <&3
    kill -TERM $server
    n=0; while kill -0 $server && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done
    rm -rf -- "$folder"
) 2>/dev/null & watch=$!
exec 3<&-
wait $server; code=$?
rm -rf -- "$folder"
kill $watch 2>/dev/null
exit $code
"""


class _OwnServer:
    """A child process `husk up` with its own data folder."""

    def __init__(self) -> None:
        husk = program("husk")
        self.owner = os.getpid()
        folder = Path(tempfile.mkdtemp(prefix="husk-"))
        folder.chmod(0o755)  # root's huskd runs as another user
        self.address = Address(str(folder / "husk.sock"), "http://localhost")
        command = [husk, "up", "--listen", "none", "--socket", str(self.address.socket)]
        command += ["--data", str(folder / "data"), "--drain-timeout", "1s"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "husk-guard", str(folder), *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            env={k: v for k, v in os.environ.items() if k not in ("HUSK_URL", "HUSK_BIN")},
            start_new_session=True,  # so that Ctrl-C in the terminal does not reach it
        )

    @property
    def is_running(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while _ask(self.address, "/api/v1/health/ready")[0] != 200:
            if self.process.poll() is not None:
                raise ServerStartError(
                    "No server was found, and starting one failed.",
                    detail=self.said(),
                    solution="Run `husk doctor` and start a server with `husk up`, or set HUSK_URL.",
                )
            if time.monotonic() > deadline:
                raise ServerStartError(
                    f"The server was not ready within {START_SECONDS:.0f} s.", detail=self.said()
                )
            time.sleep(0.01)

    def said(self) -> str:
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 2000))
        return self.log.read().decode(errors="replace").strip()

    def stop(self) -> None:
        """Stop the server, wait for its end and remove its folder."""
        if self.owner != os.getpid():
            return
        self.hang_up()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def hang_up(self) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


_own: _OwnServer | None = None
_lock = threading.Lock()


def own_server() -> Address:
    """Start a server for the life of this process, or return the one that already runs.

    It has its own data folder and only a unix socket. Both are removed when this process ends for
    any reason. Forked children can use the server but do not keep it alive.
    """
    global _own
    with _lock:
        if _own is None or not _own.is_running:
            starting = _OwnServer()
            try:
                starting.wait_ready()
            except BaseException:
                starting.stop()
                raise
            if _own is None:
                atexit.register(stop_own_server)
            _own = starting
        return _own.address


def stop_own_server() -> None:
    """Stop the server that own_server() started, if any."""
    global _own
    with _lock:
        if _own is not None:
            _own.stop()
            _own = None


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may hold the old one
    if _own is not None:
        _own.hang_up()


os.register_at_fork(after_in_child=_after_fork)
