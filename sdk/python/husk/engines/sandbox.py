# SPDX-License-Identifier: Apache-2.0
"""`tool(sandbox=True)`: runs a function as untrusted code, in a new box for each call.

The source of the function and its arguments are sent to the box as JSON, and the result returns as
JSON. The function must be self-contained: it may import modules, but not use names of its module or
of an enclosing function; creating the tool fails and lists such names. CPUs, memory and timeout are
limits of the box. The output of the function is not printed.

    @tool(sandbox=True, memory="256MB", timeout=10)
    def solve(expression: str) -> float:
        return eval(expression)

    run = await solve.run("1 + 1")      # run.value, run.stdout, run.receipt, run.cost

`await solve("1 + 1")` returns only the value; `solve.last_run` then has the rest.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import dis
import inspect
import json
import math
import threading
import types
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from husk import locate
from husk.calls.sessions import work
from husk.client import AsyncClient, Client
from husk.engines.engine import ToolSpec
from husk.engines.future import Background, RemoteFunction
from husk.engines.local.function import argument_labels
from husk.errors import HuskError
from husk.results.models import Cost, Receipt, Session
from husk.results.result import Result
from husk.tool_errors import (
    ToolArgumentError,
    ToolCrashed,
    ToolFunctionError,
    ToolOutOfMemory,
    ToolRaised,
    ToolResourceError,
    ToolResultError,
    ToolTimeout,
    ToolTraceback,
)

LONGEST = 3600
# Names that every module has; a class body reads __name__, for example.
_ALWAYS = {"__name__", "__qualname__", "__module__", "__doc__", "__builtins__", "__annotations__"}


@dataclass(frozen=True)
class SandboxRun:
    """One call of a tool in a box.

    Attributes:
        value: the return value of the tool.
        stdout: its standard output.
        stderr: its standard error.
        receipt: isolation and limits of the box.
        cost: time, CPU time and memory used.
    """

    value: Any
    stdout: str
    stderr: str
    receipt: Optional[Receipt]
    cost: Cost


# ---- what goes into the box ----


def json_fault(value: Any, where: str = "") -> str:
    """Returns what in a value JSON cannot represent, or an empty string. Also runs in the box."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return ""
    if isinstance(value, (list, tuple)):
        parts = [(f"{where}[{i}]", item) for i, item in enumerate(value)]
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"{where or 'value'} has the key {key!r}, which is not a string"
        parts = [(f"{where}[{key!r}]", item) for key, item in value.items()]
    else:
        return f"{where or 'value'} is a {type(value).__name__}"
    for path, item in parts:
        fault = json_fault(item, path)
        if fault:
            return fault
    return ""


_HANDLER = """
def handler(event):
    import asyncio, json, linecache

    call = json.loads(event["call"])
    file = "<tool " + call["name"] + ">"
    source = call["source"]
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = {"__name__": "__tool__"}
    exec(compile(source, file, "exec"), names)
    result = names[call["name"]](*call["args"], **call["kwargs"])
    if call["async"]:
        result = asyncio.run(result)
    fault = json_fault(result)
    return {"fault": fault} if fault else {"json": json.dumps(result)}
"""


def _handler() -> str:
    return f"from typing import Any\n\n\n{inspect.getsource(json_fault)}\n{_HANDLER}"


def check(spec: ToolSpec) -> None:
    """Checks a new tool for a box and stores its source.

    Raises:
        ToolFunctionError: its source is not available, or uses outer names; the error lists them.
        ToolResourceError: it requires a GPU.
        ValueError: its timeout exceeds the lifetime of a box.
    """
    if spec.num_gpus > 0:
        raise ToolResourceError(f"Tool '{spec.name}' requires a GPU, and boxes have none.")
    if spec.timeout is not None and spec.timeout > LONGEST:
        raise ValueError(f"timeout of a tool in a sandbox is at most {LONGEST} s: {spec.timeout}")
    func = inspect.unwrap(spec.func)
    try:
        source = inspect.getsource(func)
    except (OSError, TypeError) as error:
        raise ToolFunctionError(
            f"The source of tool '{spec.name}' is not available: {error}."
        ) from None
    node, text = _definition(spec, source)
    missing = sorted(
        {*func.__code__.co_freevars, *_globals(func.__code__), *_defaults(node)} - {node.name}
    )
    if missing:
        raise ToolFunctionError(
            f"Tool '{spec.name}' uses names that are not in its box: {', '.join(missing)}.",
            solution="Import modules inside the function, and pass values as arguments.",
        )
    is_async = isinstance(node, ast.AsyncFunctionDef)
    spec.cache["sandbox"] = {"name": node.name, "source": text, "async": is_async}


def _definition(spec: ToolSpec, source: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]:
    """Finds the function in its source and returns it without decorators, as text."""
    # Keep an indented function and put it into a block: removing the indentation could change
    # strings in it.
    indented = source[:1].isspace()
    block = f"if True:\n{source}" if indented else source
    try:
        tree: Any = ast.parse(block)
    except SyntaxError:
        tree = ast.Module([], [])
    body = tree.body[0].body if indented and tree.body else tree.body
    if not body or not isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise ToolFunctionError(
            f"Tool '{spec.name}' is not defined with def, which a box requires."
        )
    lines = block.splitlines(True)[body[0].lineno - 1 : body[0].end_lineno]
    # Annotations may name modules that are not in the box, so they are never evaluated.
    head = "from __future__ import annotations\n" + ("if True:\n" if indented else "")
    return body[0], head + "".join(lines)


def _globals(code: types.CodeType) -> Iterator[str]:
    """Returns the outer names that the code uses, without builtins."""
    stored = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_NAME"}
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname in ("LOAD_GLOBAL", "DELETE_GLOBAL") or (
            instruction.opname == "LOAD_NAME" and name not in stored
        ):
            if not hasattr(builtins, name) and name not in _ALWAYS:
                yield name
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals(inner)


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for default in (*node.args.defaults, *node.args.kw_defaults):
        for part in ast.walk(default) if default is not None else ():
            if isinstance(part, ast.Name) and not hasattr(builtins, part.id):
                yield part.id


def _body(spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    for label, value in [*argument_labels(spec.func, args), *kwargs.items()]:
        fault = json_fault(value, label)
        if fault:
            raise ToolArgumentError(
                f"Argument '{label}' of tool '{spec.name}' cannot be sent to a box: {fault}.",
                argument=label,
                solution="Pass only values that JSON can represent.",
            )
    if "sandbox" not in spec.cache:
        check(spec)
    call = {**spec.cache["sandbox"], "args": args, "kwargs": kwargs}
    return work(handler=_handler(), event={"call": json.dumps(call)}, timeout=_seconds(spec))


def _seconds(spec: ToolSpec) -> int:
    # The server takes whole seconds; the default is that of handlers.
    return 300 if spec.timeout is None else math.ceil(spec.timeout)


def _limits(spec: ToolSpec) -> dict[str, Any]:
    # The server takes three decimals and at least a hundredth of a CPU.
    cpus = max(0.01, round(spec.num_cpus, 3)) if spec.num_cpus > 0 else None
    return {"mode": "ephemeral", "cpus": cpus, "memory": spec.memory_bytes}


# ---- calls ----


async def call(spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SandboxRun:
    """Runs the tool in a new box; cancelling the await ends the box."""
    body = _body(spec, args, kwargs)
    address = await asyncio.to_thread(locate.server)
    async with AsyncClient(str(address)) as client:
        session = await _create(client, spec)
        try:
            result = await client.execute_sync(session.id, body, _key(session.id))
        finally:
            await asyncio.shield(client.purge_session(session.id))
    return _read(spec, result)


async def _create(client: AsyncClient, spec: ToolSpec) -> Session:
    """Creates the session; ends it again if the caller is cancelled."""
    creating = asyncio.ensure_future(client.create_session(**_limits(spec)))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        with contextlib.suppress(HuskError):
            await client.purge_session((await creating).id)
        raise


def call_sync(spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SandboxRun:
    """The same for code without an event loop."""
    body = _body(spec, args, kwargs)
    with Client() as client:
        session = client.create_session(**_limits(spec))
        try:
            result = client.execute_sync(session.id, body, _key(session.id))
        finally:
            client.purge_session(session.id)
    return _read(spec, result)


def _key(session_id: str) -> str:
    # A session has one execution, so its id identifies the execution.
    return f"tool-{session_id}"


def _read(spec: ToolSpec, result: Result) -> SandboxRun:
    """Turns the server's result into the result of a tool call."""
    if not result.ok:
        raise _failure(spec, result)
    answer = result.value
    if not isinstance(answer, dict) or not ("json" in answer or "fault" in answer):
        raise ToolResultError(f"The result of tool '{spec.name}' was truncated.")
    if "fault" in answer:
        raise ToolResultError(f"The result of tool '{spec.name}' is not JSON: {answer['fault']}.")
    value = json.loads(answer["json"])
    return SandboxRun(value, result.stdout, result.stderr, result.receipt, result.cost)


def _failure(spec: ToolSpec, result: Result) -> Exception:
    name, status, error = spec.name, result.status, result.error
    if status == "timeout":
        return ToolTimeout(f"Tool '{name}' took longer than {_seconds(spec)} s and was killed.")
    if status == "memory_exceeded":
        return ToolOutOfMemory(f"Tool '{name}' exceeded the memory of its box.", oom=True)
    if error is None or status != "failed":
        said = (result.termination or {}).get("detail") or status
        return ToolCrashed(f"Tool '{name}' failed: {said}.", exit_code=result.exit_code)
    kind = getattr(builtins, str(error.get("type")), None)
    message = str(error.get("message", ""))
    if isinstance(kind, type) and issubclass(kind, Exception) and _simple(kind):
        raised: Exception = kind(_key_of(message) if kind is KeyError else message)
    else:
        type_name = str(error.get("type"))
        raised = ToolRaised(f"Tool '{name}' raised {type_name}: {message}", type_name=type_name)
    raised.__cause__ = ToolTraceback(str(error.get("traceback", "")))
    return raised


def _simple(kind: type[Exception]) -> bool:
    """Returns whether an exception can be rebuilt from its text, with the same meaning here."""
    others = (UnicodeError, StopIteration, StopAsyncIteration, SyntaxError)
    return not issubclass(kind, others) and not hasattr(kind, "exceptions")  # an ExceptionGroup


def _key_of(message: str) -> Any:
    """The text of a KeyError is the repr of its key; rebuilding it from that would quote it twice."""
    try:
        return ast.literal_eval(message)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return message


# ---- .remote() ----


class _Boxes:
    """The part of an engine that RemoteFunction uses."""

    name = "sandbox"

    async def call(self, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return (await call(spec, args, kwargs)).value


_lock = threading.Lock()
_background: Optional[Background] = None


def remote_function(spec: ToolSpec) -> RemoteFunction:
    """Returns an object whose `.remote(...)` starts a call in a box and returns a ToolFuture."""
    global _background
    with _lock:
        if _background is None or not _background.is_alive:
            _background = Background()
        return RemoteFunction(_Boxes(), _background, spec)
