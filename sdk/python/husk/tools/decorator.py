# SPDX-License-Identifier: Apache-2.0
"""`tool`: makes a function, or a tool of a framework, run in a process with limits or in a sandbox.

    @tool(num_cpus=1, memory="512MB")
    def search(query: str) -> list[str]:
        ...

    results = await asyncio.gather(search("a"), search("b"))   # two processes, at the same time

This file only wraps the function; `husk.engines` chooses where it runs.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable, Coroutine, Optional, ParamSpec, Protocol, TypeVar, overload

from husk.engines import engine
from husk.engines.engine import ToolSpec
from husk.engines.resources import Memory, Number, resolve

__all__ = ["Tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Tool(Protocol[P, R_co]):
    """The result of `tool`: an async function with the name, docstring and parameters of the
    original.

    Attributes:
        _rayai_tool: always True; marks a tool.
        _original_func: the original function.
        _tool_metadata: `description`, `num_cpus`, `num_gpus`, `memory`.
        _remote_func: `.remote(...)` starts a call on the current engine and returns immediately.
        _get_remote_func: returns the remote function of the current engine: under Ray the real one.
        call_sync: the call for code without an event loop.
        spec: the description of the tool for engines.
        run: with `sandbox=True`, a call that returns the whole `SandboxRun` (value, output, receipt,
            cost); else None.
        last_run: with `sandbox=True`, the `SandboxRun` of the latest finished call; else None.
    """

    __name__: str
    _rayai_tool: bool
    _original_func: Callable[..., Any]
    _tool_metadata: dict[str, Any]
    _remote_func: Any
    _get_remote_func: Callable[[], Any]
    call_sync: Callable[..., Any]
    spec: ToolSpec
    run: Any
    last_run: Any

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Runs the tool and returns its result."""


class FrameworkTool(Protocol):
    """The static type of tool objects of LangChain, Pydantic AI and Agno."""

    name: str
    description: Any


class _Decorator(Protocol):
    @overload
    def __call__(self, func: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...

    @overload
    def __call__(self, func: Callable[P, R], /) -> Tool[P, R]: ...


class _Remote:
    """`_remote_func`: looks up the engine on each use, because it may have changed since the tool was
    created.
    """

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Starts a call and returns immediately: an ObjectRef under Ray, else a ToolFuture. Both can
        be awaited.
        """
        return _remote_function(self._spec).remote(*args, **kwargs)

    def options(self, **options: Any) -> Any:
        """Passes options to the remote function of the engine; only Ray's supports any."""
        return _remote_function(self._spec).options(**options)


def _remote_function(spec: ToolSpec) -> Any:
    if spec.sandbox:
        from husk.engines.sandbox import remote_function

        return remote_function(spec)
    return engine.current().remote_function(spec)


@overload
def tool(
    func: Callable[P, Coroutine[Any, Any, R]],
    *,
    num_cpus: Optional[Number] = None,
    num_gpus: Optional[Number] = None,
    memory: Optional[Memory] = None,
    timeout: Optional[float] = None,
    sandbox: bool = False,
    retries: int = 0,
) -> Tool[P, R]: ...


@overload
def tool(
    func: Callable[P, R],
    *,
    num_cpus: Optional[Number] = None,
    num_gpus: Optional[Number] = None,
    memory: Optional[Memory] = None,
    timeout: Optional[float] = None,
    sandbox: bool = False,
    retries: int = 0,
) -> Tool[P, R]: ...


@overload
def tool(
    func: None = None,
    *,
    num_cpus: Optional[Number] = None,
    num_gpus: Optional[Number] = None,
    memory: Optional[Memory] = None,
    timeout: Optional[float] = None,
    sandbox: bool = False,
    retries: int = 0,
) -> _Decorator: ...


@overload
def tool(
    func: FrameworkTool,
    *,
    num_cpus: Optional[Number] = None,
    num_gpus: Optional[Number] = None,
    memory: Optional[Memory] = None,
    timeout: Optional[float] = None,
    sandbox: bool = False,
    retries: int = 0,
) -> Tool[..., Any]: ...


def tool(
    func: Any = None,
    *,
    num_cpus: Optional[Number] = None,
    num_gpus: Optional[Number] = None,
    memory: Optional[Memory] = None,
    timeout: Optional[float] = None,
    sandbox: bool = False,
    retries: int = 0,
) -> Any:
    """Creates a tool: as `@tool`, as `@tool(num_cpus=2)`, or as `tool(x)` for a tool object of a
    framework.

    Arguments that are not given come from a `ray:` block in the docstring, then from the defaults.

    Args:
        func: a function, sync or async, or a tool object of LangChain, Pydantic AI or Agno.
        num_cpus: CPUs that a call may use, by default 1; 0 means no limit. Fractions are allowed.
        num_gpus: GPUs that a call gets, by default 0; a fraction is a share of one.
        memory: memory limit of a call, such as `"2GB"`; none by default.
        timeout: seconds after which a call is killed with ToolTimeout; by default none, in a
            sandbox 300. On Ray, it includes the time until the call is scheduled.
        sandbox: run it in a box, as untrusted code: see `husk.engines.sandbox`.
        retries: how often a call is repeated whose process or node died. None by default: a call
            that may have had effects runs at most once.

    Returns:
        An async function, see `Tool`; without `func` a decorator that creates one.

    Raises:
        TypeError: `func` is neither callable nor a tool of a supported framework.
        ValueError: a limit is invalid.
    """
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be more than 0 seconds: {timeout}")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries must be a whole number, 0 or more: {retries!r}")
    if retries and sandbox:
        raise ValueError("retries are for tools in processes of their own, not in a sandbox")

    def make(target: Any) -> Any:
        found = _find(target)
        wanted = resolve(found.doc, num_cpus, num_gpus, memory)
        spec = ToolSpec(
            name=found.name,
            func=found.func,
            num_cpus=wanted.num_cpus,
            num_gpus=wanted.num_gpus,
            memory_bytes=wanted.memory_bytes,
            timeout=timeout,
            sandbox=sandbox,
            retries=retries,
        )
        dressed = _dress(found, spec)
        dressed._tool_metadata = {
            "description": found.description,
            "num_cpus": wanted.num_cpus,
            "num_gpus": wanted.num_gpus,
            "memory": wanted.memory,
        }
        return dressed

    return make if func is None else make(func)


class _Found:
    """The function inside the argument of `tool`, with its name, docstring and signature."""

    def __init__(
        self,
        func: Callable[..., Any],
        name: Optional[str] = None,
        doc: Optional[str] = None,
        signature: Optional[inspect.Signature] = None,
    ) -> None:
        self.func = func
        self.name: str = name or getattr(func, "__name__", None) or type(func).__name__
        self.doc = doc or getattr(func, "__doc__", None)
        self.description: str = self.doc if self.doc and self.doc.strip() else f"Calls {self.name}"
        self.signature = signature


def _find(target: Any) -> _Found:
    from husk.tools.wrap import unwrap

    if getattr(target, "_rayai_tool", False):
        return _Found(target._original_func, target.__name__, target.__doc__)
    framework = unwrap(target)
    if framework is not None:
        return _Found(*framework)
    if not callable(target):
        raise TypeError(
            "tool() takes a function or a tool of LangChain, Pydantic AI or Agno, "
            f"not {type(target).__module__}.{type(target).__qualname__}"
        )
    return _Found(target)


def _dress(found: _Found, spec: ToolSpec) -> Any:
    """Returns the async function that callers and frameworks see."""
    current = engine.current
    if spec.sandbox:
        from husk.engines import sandbox as tool_sandbox

        tool_sandbox.check(spec)

        async def run(*args: Any, **kwargs: Any) -> Any:
            dressed.last_run = finished = await tool_sandbox.call(spec, args, kwargs)
            return finished

        async def call(*args: Any, **kwargs: Any) -> Any:
            return (await run(*args, **kwargs)).value

        def call_sync(*args: Any, **kwargs: Any) -> Any:
            dressed.last_run = finished = tool_sandbox.call_sync(spec, args, kwargs)
            return finished.value

    else:

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await current().call(spec, args, kwargs)

        def call_sync(*args: Any, **kwargs: Any) -> Any:
            return current().call_sync(spec, args, kwargs)

    dressed: Any = functools.wraps(found.func)(call)
    dressed.__name__ = found.name
    dressed.__doc__ = found.doc
    if found.signature is not None:
        dressed.__signature__ = found.signature
        dressed.__annotations__ = _annotations(found.signature)
    dressed._rayai_tool = True
    dressed._original_func = found.func
    dressed._remote_func = _Remote(spec)
    dressed._get_remote_func = functools.partial(_remote_function, spec)
    dressed.call_sync = call_sync
    dressed.spec = spec
    dressed.run = run if spec.sandbox else None
    dressed.last_run = None
    return dressed


def _annotations(signature: inspect.Signature) -> dict[str, Any]:
    empty = inspect.Signature.empty
    found = {
        p.name: p.annotation for p in signature.parameters.values() if p.annotation is not empty
    }
    if signature.return_annotation is not empty:
        found["return"] = signature.return_annotation
    return found
