# SPDX-License-Identifier: Apache-2.0
"""The sandbox functions: run code, commands and files in named sessions.

    result = execute_code("print(6 * 7)", session_id="demo")      # here, without Ray
    ref = execute_code.remote("print(6 * 7)", session_id="demo")  # as a Ray task: ray.get(ref)

With Ray (initialised in this process, or `HUSK_ENGINE=ray`) a session is a detached actor that all
processes of the cluster find by name. Without Ray it belongs to this process and ends with it.
`.remote` always uses Ray. The results are the same: dicts of `husk.interpreter.types`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import secrets
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Optional, Union

from husk.engines.future import ToolFuture
from husk.engines.ray import start as ray_start
from husk.errors import BackendUnavailableError, HuskError, UnknownSessionError
from husk.interpreter import policy
from husk.interpreter import ray as on_ray
from husk.interpreter.local import LOCAL, LocalDirectory
from husk.interpreter.ray import RemoteFunction
from husk.interpreter.session import Executor, failure
from husk.interpreter.types import (
    Cleanup,
    CleanupError,
    Execution,
    SessionStats,
    Upload,
    UploadError,
)

__all__ = [
    "CodeInterpreterExecutor",
    "cleanup_session",
    "create_execute_python_tool",
    "execute_code",
    "execute_shell",
    "get_session_stats",
    "text_of",
    "upload_file",
]

CodeInterpreterExecutor = on_ray.executor_class

_PREFIX = "code-executor-"  # of actor names; `Sandbox` has another


def directory() -> Union[LocalDirectory, on_ray.RayDirectory]:
    """Returns the directory of sessions: that of the Ray cluster or of this process."""
    if on_ray.in_ray_task() or ray_start.asked_for():
        return on_ray.RayDirectory()
    return LOCAL


def run(
    kind: str,
    text: str,
    timeout: float,
    name: str,
    session_id: str,
    image: str = policy.DEFAULT_IMAGE,
    **options: Any,
) -> Execution:
    """Runs code or a command in the session with this name, which is created if needed."""
    refused = {key: options.pop(key, None) for key in ("dockerfile", "mcp_allowlist")}
    try:
        policy.check(**refused)
        executor, is_new = directory().open(name, session_id, image=image)
        method = executor.execute_shell if kind == "shell" else executor.execute_code
        result = method(text, timeout, image=image, **options)
        if is_new and result.get("error_type") == BackendUnavailableError.__name__:
            end(name, session_id)  # its image is rejected: the name is free for another
    except Exception as error:  # including those of Ray: the caller always gets a result
        return failure(error, f"{session_id}_0")
    receipt = result.get("receipt")
    if receipt:
        result["receipt"] = policy.note_fallback(receipt)
    return result


@RemoteFunction
def execute_code(
    code: str,
    session_id: Optional[str] = None,
    image: str = policy.DEFAULT_IMAGE,
    dockerfile: Optional[str] = None,
    environment: Optional[Mapping[str, str]] = None,
    volumes: Optional[Mapping[str, Any]] = None,
    mcp_allowlist: Optional[Sequence[str]] = None,
    timeout: float = policy.DEFAULT_TIMEOUT,
) -> Execution:
    """Runs Python code in a session. Variables, imports, functions and files stay for the next
    call.

    Args:
        code: the source.
        session_id: the session, which is created if needed; by default a new one that ends with
            this call, named `session-<8 hex digits>-<time>`.
        image: the name of a template; `python:3.12-slim` means the template `python`.
        dockerfile: rejected with `BackendUnavailableError`: there is no container back end.
        environment: variables for this and all later runs of the session.
        volumes: `{host path: {"bind": "/workspace/...", "mode": "ro" or "rw"}}`. Changes on the
            host are copied in before each run, and with `rw` changes in the sandbox are copied back
            after it.
        mcp_allowlist: rejected with `EgressUnavailableError`: sandboxes have no network.
        timeout: seconds after which all processes of the run are killed.

    Returns:
        An `ExecutionResult`, or an `ExecutionError` whose `error_type` is the reason. Nothing is
        raised.
    """
    wanted = (image, dockerfile, environment, volumes, mcp_allowlist)
    return _execute("code", code, session_id, timeout, wanted)


@RemoteFunction
def execute_shell(
    command: str,
    session_id: Optional[str] = None,
    image: str = policy.DEFAULT_IMAGE,
    dockerfile: Optional[str] = None,
    environment: Optional[Mapping[str, str]] = None,
    volumes: Optional[Mapping[str, Any]] = None,
    mcp_allowlist: Optional[Sequence[str]] = None,
    timeout: float = policy.DEFAULT_TIMEOUT,
) -> Execution:
    """Runs a command in bash, in the same box as the code of the session; arguments are as for
    `execute_code`.
    """
    wanted = (image, dockerfile, environment, volumes, mcp_allowlist)
    return _execute("shell", command, session_id, timeout, wanted)


def _execute(
    kind: str, text: str, session_id: Optional[str], timeout: float, wanted: tuple[Any, ...]
) -> Execution:
    names = ("image", "dockerfile", "environment", "volumes", "mcp_allowlist")
    session = session_id or f"session-{secrets.token_hex(4)}-{int(time.time())}"
    try:
        return run(kind, text, timeout, _PREFIX + session, session, **dict(zip(names, wanted)))
    finally:
        if not session_id:
            end(_PREFIX + session, session)  # no other caller knows its name


def find(name: str, session_id: str) -> Executor:
    """Returns a session that exists, or raises `UnknownSessionError`, which is a ValueError."""
    found = directory().find(name, session_id)
    if found is None:
        raise UnknownSessionError(
            f"there is no session {session_id!r}",
            solution="Run something in it first, with execute_code().",
        )
    return found


@RemoteFunction
def upload_file(path: str, content: bytes, session_id: str) -> Upload:
    """Writes a file into the sandbox of a session.

    Args:
        path: below `/workspace`, or relative to it, or in another folder that the code can write,
            such as `/tmp`.
        content: the bytes.
        session_id: the session.

    Returns:
        An `UploadResult` with the size, or an `UploadError`.

    Raises:
        ValueError: there is no such session.
    """
    executor = find(_PREFIX + session_id, session_id)
    try:
        policy.check(None, None)
        return executor.upload_file(path, content)
    except HuskError as error:
        return UploadError("error", str(error), type(error).__name__)


@RemoteFunction
def get_session_stats(session_id: str) -> SessionStats:
    """Returns the number of executions of a session, its start time and its resource usage.

    Raises:
        ValueError: there is no such session.
    """
    return find(_PREFIX + session_id, session_id).get_session_stats()


@RemoteFunction
def cleanup_session(session_id: str) -> Cleanup:
    """Ends a session: its box with all processes and, under Ray, its actor."""
    return end(_PREFIX + session_id, session_id)


def end(name: str, session_id: str) -> Cleanup:
    """Ends the session with this name."""
    try:
        result = find(name, session_id).cleanup_session()
        directory().remove(name)
        return result
    except Exception as error:
        return CleanupError("error", str(error), session_id)


# ---- for language models ----


def text_of(result: Execution) -> str:
    """Returns a result as text for a language model."""
    if result["status"] == "success":
        text = result["stdout"].rstrip("\n") or "(no output)"
        errors = result["stderr"].rstrip("\n")
        return f"{text}\n[stderr]: {errors}" if errors else text
    said = result.get("stderr") or result.get("error") or f"exit code {result.get('exit_code')}"
    return f"Error: {str(said).rstrip()}"


def create_execute_python_tool(
    session_id: str = "default",
    dockerfile: Optional[str] = None,
    timeout: float = policy.DEFAULT_TIMEOUT,
) -> Callable[[str], Awaitable[str]]:
    """Returns an async tool `execute_python(code)` for an agent, which returns text.

    Deprecated: use `run_code` of `rayai.Sandbox`, which also has a shell and can be terminated.

    Args:
        session_id: the session that all calls of the tool share.
        dockerfile: rejected with `BackendUnavailableError`: there is no container back end.
        timeout: seconds for one call.
    """
    warnings.warn(
        "create_execute_python_tool is deprecated: use rayai.Sandbox", DeprecationWarning, 2
    )
    policy.check(dockerfile, None)

    def execute_python(code: str) -> str:
        """Run Python code in a sandbox and return what it printed. Variables stay for the next
        call.

        Args:
            code: the Python source; print what you want to see.
        """
        return text_of(execute_code(code, session_id=session_id, timeout=timeout))

    tool: Callable[[str], Awaitable[str]] = as_tool(execute_python)
    return tool


class _ToolRemote:
    """`_remote_func` of a tool that works in a sandbox: a Ray task under Ray, else a thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Starts a call and returns immediately: an ObjectRef under Ray, else a ToolFuture."""
        if ray_start.asked_for():
            task = ray_start.started().remote(self._function)
            return task.options(num_cpus=0, max_retries=0).remote(*args, **kwargs)
        future = ToolFuture()

        def work() -> None:
            try:
                future.set_result(self._function(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="husk-sandbox-tool", daemon=True).start()
        return future


def as_tool(function: Callable[..., Any]) -> Any:
    """Returns an async tool for a function that works in a sandbox and so needs no process."""

    @functools.wraps(function)
    async def tool(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    remote = _ToolRemote(function)
    dressed: Any = tool
    dressed._rayai_tool = True
    dressed._original_func = function
    dressed._tool_metadata = {
        "description": inspect.getdoc(function) or f"Calls {function.__name__}",
        "num_cpus": 0,
        "num_gpus": 0,
        "memory": None,
    }
    dressed._remote_func = remote
    dressed._get_remote_func = lambda: remote
    dressed.call_sync = function
    return dressed
