# SPDX-License-Identifier: Apache-2.0
"""SharedEnvSandbox: the client class of the Sandbox Runtime, on the /workspace/se dialect of huskd.

    sandbox = SharedEnvSandbox(session_id="s1", servers=["http://127.0.0.1:8000"])
    print(await sandbox.execute_code("print(1 + 1)"))
    await sandbox.close()

For new programs AsyncSandbox is the better choice: it has typed results, streams and receipts.
"""

from __future__ import annotations

import ast
import asyncio
import json
import random
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

from husk.calls.call import Call, nothing, path_in_target
from husk.client.aio import AsyncClient
from husk.errors import HuskError, InvalidParameterError, NotOfferedError
from husk.http.transport import Request
from husk.http.wire import Answer
from husk.sandbox.base import leaving
from husk.sandbox.files import Content, FileSink

P = ParamSpec("P")
T = TypeVar("T")

PREFIX = "/workspace/se"
REQUEST_SECONDS = 300.0
HEALTH_SECONDS = 10.0
JSON = {"Content-Type": "application/json"}


class SandboxError(HuskError):
    """A call of SharedEnvSandbox failed.

    Attributes:
        message: what failed.
        original_error: the exception that caused it, or None.
        context: the arguments of the call.
    """

    def __init__(
        self,
        message: str = "",
        original_error: Exception | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.original_error = original_error
        self.context = context or {}
        if isinstance(original_error, HuskError):
            self.code, self.status = original_error.code, original_error.status
            self.detail, self.solution = original_error.detail, original_error.solution
            self.request_id = original_error.request_id

    def to_dict(self) -> dict[str, Any]:
        """Return message, original error and context."""
        return {
            "message": self.message,
            "original_error": str(self.original_error),
            "context": self.context,
        }


def _named(
    method: Callable[Concatenate[SharedEnvSandbox, P], Awaitable[T]],
) -> Callable[Concatenate[SharedEnvSandbox, P], Coroutine[Any, Any, T]]:
    """Turn every error of the method into a SandboxError with its context."""

    @wraps(method)
    async def wrapped(self: SharedEnvSandbox, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except SandboxError:
            raise
        except (HuskError, OSError) as e:
            context = {
                "method": method.__name__,
                "session_id": self.session_id,
                "args": [str(a)[:200] for a in args],
                "server": self.current_server,
            }
            said = e.message if isinstance(e, HuskError) else e  # the rest of it is copied
            raise SandboxError(f"{method.__name__} failed: {said}", e, context) from e

    return wrapped


class SharedEnvSandbox:
    """A session of `/workspace/se`, on one of several servers. It is created on first use.

    Args:
        session_id: its id; required.
        server_selector_type: `static` or `mod`: the id of the session selects one of the healthy
            servers; `random` or `round_robin`: any healthy server, which is then kept. `k8s` is not
            supported.
        server_selector_params: a dict with servers and check_interval, an older form.
        servers: URLs of the servers; by default one is found as for Sandbox.
        check_interval: seconds between health checks of a server.
    """

    def __init__(
        self,
        session_id: str,
        server_selector_type: str = "static",
        server_selector_params: dict[str, Any] | None = None,
        *,
        servers: Sequence[str] | None = None,
        check_interval: float | None = None,
    ) -> None:
        if not session_id:
            raise InvalidParameterError("session_id is required")
        if server_selector_type == "k8s":
            raise NotOfferedError(
                "Servers are not looked up in Kubernetes.", solution="Pass servers=[...]."
            )
        if server_selector_type not in ("static", "mod", "random", "round_robin"):
            raise InvalidParameterError(
                f"server_selector_type must be static, mod, random or round_robin, not '{server_selector_type}'"
            )
        params = server_selector_params or {}
        urls = servers if servers is not None else params.get("servers")
        self.session_id = session_id
        self.server_selector_type = server_selector_type
        self.check_interval = check_interval or float(params.get("check_interval", 60.0))
        self.clients = [AsyncClient(url) for url in urls] if urls else [AsyncClient()]
        self._health: dict[AsyncClient, tuple[float, bool]] = {}
        self._current: AsyncClient | None = None

    # ---- which server ----

    @property
    def current_server(self) -> str | None:
        """The server of the last call."""
        return str(self._current.address) if self._current is not None else None

    async def _is_healthy(self, client: AsyncClient) -> bool:
        when, is_healthy = self._health.get(client, (0.0, False))
        if is_healthy and time.monotonic() - when < self.check_interval:
            return True
        request = Request("GET", f"{PREFIX}/healthy", timeout=HEALTH_SECONDS)
        try:
            await client.send(Call(request, nothing, can_repeat=False))
            is_healthy = True
        except HuskError:
            is_healthy = False
        self._health[client] = (time.monotonic(), is_healthy)
        return is_healthy

    async def _select(self) -> AsyncClient:
        states = await asyncio.gather(*(self._is_healthy(client) for client in self.clients))
        healthy = [client for client, is_healthy in zip(self.clients, states) if is_healthy]
        if not healthy:
            tried = ", ".join(str(client.address) for client in self.clients)
            raise SandboxError("No available server found", context={"servers": tried})
        if self.server_selector_type in ("static", "mod"):
            # Not hash(), which differs between processes: all must select the same server.
            self._current = healthy[zlib.crc32(self.session_id.encode()) % len(healthy)]
        elif self._current not in healthy:
            at = int(time.time()) if self.server_selector_type == "round_robin" else None
            self._current = random.choice(healthy) if at is None else healthy[at % len(healthy)]
        return self._current

    async def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else JSON
        request = Request(method, self._target(path, **query), headers, data)
        request.timeout = REQUEST_SECONDS
        call = Call(request, lambda answer: json.loads(answer.body), can_repeat=method == "GET")
        return await (await self._select()).send(call)

    def _target(self, path: str, file: str | None = None, **query: Any) -> str:
        target = f"{PREFIX}/{path}/{quote(self.session_id, safe='')}"
        if file is not None:
            name = file.lstrip("/")
            target += "/" + (path_in_target(name) if name else "")
        return f"{target}?{urlencode(query)}" if query else target

    # ---- session ----

    @_named
    async def create_session(self, size: str = "50M") -> str:
        """Create the session with a workspace of this size and return its id. Rarely needed."""
        made = await self._ask("POST", "session", {"size": size})
        return str(made["session_id"])

    @_named
    async def delete_session(self) -> bool:
        """Remove the session with its files, if it exists."""
        await self._ask("DELETE", "session")
        return True

    @_named
    async def get_status(self) -> dict[str, Any]:
        """Get whether the session exists, since when, and its files."""
        status: dict[str, Any] = await self._ask("GET", "status")
        return status

    async def close(self) -> None:
        """Remove the session with its files, and close the connections. A second call does nothing."""
        if self.clients[0].is_closed:
            return
        try:
            await self.delete_session()
        finally:
            for client in self.clients:
                await client.close()

    async def __aenter__(self) -> SharedEnvSandbox:
        return self

    async def __aexit__(
        self, kind: object = None, error: object = None, trace: object = None
    ) -> None:
        with leaving(self.clients[0], error):
            await self.close()

    # ---- execution ----

    @_named
    async def execute(self, command: str, *args: str) -> dict[str, Any]:
        """Run a shell command; command and arguments are joined by spaces.

        Returns:
            stdout, stderr and returncode.
        """
        body = {"command": command, "args": list(args)}
        done: dict[str, Any] = await self._ask("POST", "execute", body)
        return done

    @_named
    async def execute_code(
        self,
        code: str,
        filename: str | None = None,
        args: Sequence[str] | None = None,
        script_type: str = "python",
        output_params: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Run code in the session.

        Escaped line breaks (a backslash and an n) are replaced by real ones only if the code is not
        valid Python as it is: valid code is sent unchanged.

        Args:
            code: source.
            filename: where to store it in the workspace.
            args: arguments of the script.
            script_type: `python` or `shell`.
            output_params: variables to return in output_variables.

        Returns:
            stdout, stderr, returncode, and output_variables if output_params is given.
        """
        body = {
            "code": unescape(code) if script_type == "python" else code,
            "filename": filename,
            "args": list(args or []),
            "script_type": script_type,
            "output_params": list(output_params) if output_params else None,
        }
        done: dict[str, Any] = await self._ask("POST", "execute_code", body)
        return done

    # ---- files ----

    @_named
    async def upload_file(
        self, file_path: str | Path, target_filename: str | None = None
    ) -> dict[str, Any]:
        """Copy a local file into the workspace.

        Args:
            file_path: the local file.
            target_filename: its path in the workspace; by default its own name.

        Returns:
            filename and size.
        """
        source = Path(file_path)
        border = secrets.token_hex(16)
        head = (
            f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        tail = f"\r\n--{border}--\r\n".encode()
        content = Content(source, None)

        def pieces() -> Iterator[bytes]:
            yield head
            yield from content.pieces()
            yield tail

        def read(answer: Answer) -> dict[str, Any]:
            written: dict[str, Any] = json.loads(answer.body)
            return written

        request = Request(
            "POST",
            self._target("upload", filename=target_filename or source.name),
            {"Content-Type": f"multipart/form-data; boundary={border}"},
            pieces=pieces,
            size=None if content.size is None else len(head) + content.size + len(tail),
            timeout=REQUEST_SECONDS,
        )
        return await (await self._select()).send(Call(request, read, content.can_repeat))

    @_named
    async def download_file(self, filename: str, target_path: str | Path) -> bool:
        """Copy a file of the workspace to a local path; create missing directories."""
        to = Path(target_path)
        to.parent.mkdir(parents=True, exist_ok=True)
        sink = FileSink(to, None)
        request = Request("GET", self._target("download", filename), timeout=REQUEST_SECONDS)
        try:
            client = await self._select()
            await client.send(Call(request, nothing, can_repeat=True, sink=sink))
            sink.finish()
        finally:
            sink.abandon()
        return True

    @_named
    async def create_file(self, content: str, filename: str, mode: int = 0o644) -> dict[str, Any]:
        """Create a text file.

        Args:
            content: its text.
            filename: its path in the workspace.
            mode: its permissions.

        Returns:
            filename and size.
        """
        body = {"content": content, "filename": filename, "mode": mode}
        made: dict[str, Any] = await self._ask("POST", "create", body)
        return made

    @_named
    async def list_files(
        self, directory: str = "", recursive: bool = False
    ) -> list[dict[str, Any]]:
        """List a directory.

        The original client sends the opposite of `recursive`. That is a bug, which is not
        reproduced here: True includes all subdirectories.

        Args:
            directory: the directory; the workspace itself by default.
            recursive: include all subdirectories.

        Returns:
            filename, size, type and time of each entry.
        """
        query = {"recursive": "true"} if recursive else {}
        found = await self._ask("GET", "files", None, file=directory or None, **query)
        files: list[dict[str, Any]] = found["files"]
        return files

    @_named
    async def read_file(
        self, filename: str, offset: int = 0, buffer_size: int = 4096
    ) -> dict[str, Any]:
        """Read a part of a file.

        Args:
            filename: its path in the workspace.
            offset: first byte to read.
            buffer_size: number of bytes to read.

        Returns:
            content, is_binary (if True, content is base64), offset of the next part, size of the
            file, is_eof.
        """
        part: dict[str, Any] = await self._ask(
            "GET", "readfile", None, file=filename, offset=offset, buffer_size=buffer_size
        )
        return part

    @_named
    async def download_from_efast(
        self,
        file_params: Sequence[dict[str, Any]],
        save_path: str | None = "",
        efast_url: str | None = "",
        token: str | None = "",
        timeout: int | None = 300,
    ) -> Any:
        """Fetch files from the vendor's document store; huskd has none and answers 501
        (SandboxError).

        Args:
            file_params: docid, rev and savename of each file.
            save_path: directory in the workspace.
            efast_url: the store.
            token: its access token.
            timeout: seconds.
        """
        body = {
            "file_params": list(file_params),
            "save_path": save_path or None,
            "efast_url": efast_url or None,
            "token": token or None,
            "timeout": timeout,
        }
        return await self._ask("POST", "download_from_efast", body)


def unescape(code: str) -> str:
    """Return code with real line breaks in place of escaped ones; other code unchanged."""
    if "\\" not in code or "\n" in code or _is_python(code):
        return code
    try:
        plain = ast.literal_eval('"' + code + '"')
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        try:
            plain = ast.literal_eval("'" + code + "'")
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return code
    return plain if isinstance(plain, str) and _is_python(plain) else code


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
