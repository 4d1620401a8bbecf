# SPDX-License-Identifier: Apache-2.0
"""Runs an agent's file and returns its registered agents; reports a failure in one line and with
its traceback.

The module search path is that of a script: the file's own folder first, then the project's.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
import types

from husk.errors import AgentLoadError, text_of
from husk.serving import register as serving

LoadError = AgentLoadError


def load(file: str, main: bool) -> list[serving.Deployment]:
    """Runs the file, as `__main__` or as a module of its project.

    Raises:
        AgentLoadError: it raised, or it registered nothing.
    """
    file = os.path.abspath(file)
    for folder in (os.path.dirname(os.path.dirname(os.path.dirname(file))), os.path.dirname(file)):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    module = _module(file, main)
    try:
        with open(file, "rb") as source:
            code = compile(source.read(), file, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except serving.Registered:
        pass
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # SystemExit too: a file that exits cannot be served
        raise describe(e, file) from e
    # An agent's file may import another one, which also registers; a helper of the project may call
    # serve() for it.
    found = [d for d in serving.registered if d.file == file] or list(serving.registered)
    if not found:
        call = "serve_mcp()" if os.path.basename(file) == "server.py" else "serve()"
        raise AgentLoadError(f"the file does not call husk.{call}")
    return found


def _module(file: str, main: bool) -> types.ModuleType:
    if main:
        name = "__main__"
        module = types.ModuleType(name)
        module.__file__ = file
        sys.argv = [file]
    else:
        folder = os.path.dirname(file)
        stem = os.path.splitext(os.path.basename(file))[0]
        package = f"{os.path.basename(os.path.dirname(folder))}.{os.path.basename(folder)}"
        name = f"{package}.{stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None:
            raise AgentLoadError(f"{file} is not a Python file")
        module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if not main:
        _pickle_by_value(module)
    return module


def _pickle_by_value(module: types.ModuleType) -> None:
    """Registers the module for pickling by value, because other processes cannot import it by the
    name that we gave it.
    """
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        # An agent without tools runs on a bare Python; without cloudpickle no function is pickled.
        return
    cloudpickle.register_pickle_by_value(module)


def describe(e: BaseException, file: str = "") -> AgentLoadError:
    """Converts an exception to an AgentLoadError: one line, and the traceback from the agent's file
    on.
    """
    trace = e.__traceback__
    while trace is not None and file and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    lines = traceback.format_exception(type(e), e, trace or e.__traceback__)
    if isinstance(e, SyntaxError):
        lines = traceback.format_exception_only(type(e), e)
    said = text_of(e).strip().splitlines()
    text = f"{type(e).__name__}: {said[0]}" if said else type(e).__name__
    error = AgentLoadError(text[:500])
    error.traceback = "".join(lines)[-20_000:]
    return error
