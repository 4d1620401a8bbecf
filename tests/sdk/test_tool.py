# SPDX-License-Identifier: Apache-2.0
"""`tool` as a decorator: what it returns, what it keeps, what it refuses, and where it runs."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tool_samples
from husk import execute_tools, tool
from husk.engines import engine
from husk.errors import HuskError
from husk.tool_errors import ToolArgumentError, ToolFunctionError, ToolResultError


@tool
def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


@pytest.fixture(scope="module", autouse=True)
def stop_workers() -> Any:
    yield
    engine.shutdown()


# ---- what it is ----


def test_bare_decorator_makes_a_coroutine_function() -> None:
    assert inspect.iscoroutinefunction(add)
    assert asyncio.run(add(1, b=5)) == 6
    assert add.call_sync(1) == 3


def test_keeps_name_docstring_and_signature() -> None:
    assert add.__name__ == "add"
    assert add.__doc__ == "Adds two numbers."
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert inspect.signature(add).parameters["b"].default == 2
    assert add.__module__ == __name__


def test_five_attributes() -> None:
    assert add._rayai_tool is True
    assert add._original_func(2, 2) == 4
    assert add._tool_metadata == {
        "description": "Adds two numbers.",
        "num_cpus": 1,
        "num_gpus": 0,
        "memory": None,
    }
    assert add._remote_func.remote(3, b=4).result(60) == 7
    assert add._get_remote_func().remote(3, b=4).result(60) == 7


def test_remote_can_be_awaited() -> None:
    async def both() -> list[int]:
        started = [add._remote_func.remote(n) for n in range(3)]
        return [await future for future in started]

    assert asyncio.run(both()) == [2, 3, 4]


def test_description_without_a_docstring_names_the_tool() -> None:
    @tool
    def nameless(x: int) -> int:
        return x

    assert nameless._tool_metadata["description"] == "Calls nameless"


def test_arguments_win_over_the_docstring() -> None:
    @tool(num_cpus=2, memory="1GB")
    def wants() -> None:
        """Wants much.

        ray:
            num_cpus: 8
            num_gpus: 1
            memory: 9GB
        """

    assert wants._tool_metadata["num_cpus"] == 2
    assert wants._tool_metadata["num_gpus"] == 1
    assert wants._tool_metadata["memory"] == "1GB"
    assert wants.spec.memory_bytes == 1 << 30


def test_wrapping_a_plain_function_and_a_tool_again() -> None:
    wrapped = tool(tool_samples.plain)
    assert asyncio.run(wrapped(1)) == 101
    again = tool(wrapped, num_cpus=2)
    assert again._original_func is tool_samples.plain
    assert again.spec.num_cpus == 2
    assert asyncio.run(again(2)) == 102


@pytest.mark.parametrize("thing", [5, "text", [], object()])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match=type(thing).__qualname__):
        tool(thing)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_senseless_timeout(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        tool(timeout=seconds)(tool_samples.plain)


# ---- where it runs ----


def test_runs_in_another_process() -> None:
    @tool
    def who() -> int:
        return os.getpid()

    assert who.call_sync() != os.getpid()


def test_async_functions_run_too() -> None:
    @tool
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x * 2

    assert asyncio.run(later(4)) == 8
    assert later.call_sync(5) == 10


def test_module_functions_keep_their_module_state() -> None:
    first, second = tool_samples.count_calls.call_sync(), tool_samples.count_calls.call_sync()
    assert first[0] == second[0] != os.getpid()
    assert (first[1], second[1]) == (1, 2)
    assert tool_samples.calls == 0


def test_closures_travel_as_values() -> None:
    factor = 7

    @tool
    def times(x: int) -> int:
        return x * factor

    assert times.call_sync(6) == 42


def test_a_tool_may_call_a_tool() -> None:
    @tool
    async def outer(x: int) -> tuple[int, int]:
        return os.getpid(), await add(x, 1)

    pid, result = asyncio.run(outer(3))
    assert result == 4
    assert pid != os.getpid()


class Point:
    """A class of the test's own module."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_objects_come_back_as_the_same_class() -> None:
    @tool
    def move(point: Point) -> Point:
        return Point(point.x + 1)

    moved = move.call_sync(Point(1))
    assert type(moved) is Point
    assert moved.x == 2


SCRIPT = """
import asyncio
from husk import tool

class Local:
    def __init__(self, x):
        self.x = x

class Trouble(Exception):
    pass

def helper(x):
    return Local(x.x + 1)

@tool
def work(x):
    if x.x < 0:
        raise Trouble("negative")
    return helper(x)

out = asyncio.run(work(Local(1)))
assert type(out) is Local and out.x == 2, out
try:
    asyncio.run(work(Local(-1)))
except Trouble as error:
    print("caught", error)
"""


def test_a_script_may_define_everything_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught negative\n", "")


def test_a_module_that_workers_cannot_import_goes_along(tmp_path: Path) -> None:
    # As agents are loaded: from a file, under a name that is no file on the path.
    (tmp_path / "agent.py").write_text(SCRIPT.split("out = ")[0])
    script = tmp_path / "load.py"
    script.write_text(f"""
import asyncio, importlib.util, sys
spec = importlib.util.spec_from_file_location("agents_hello", {str(tmp_path / "agent.py")!r})
module = importlib.util.module_from_spec(spec)
sys.modules["agents_hello"] = module
spec.loader.exec_module(module)
async def several():
    return await asyncio.gather(*(module.work(module.Local(n)) for n in range(4)))
outs = asyncio.run(several())
assert [(type(out), out.x) for out in outs] == [(module.Local, n + 1) for n in range(4)]
try:
    asyncio.run(module.work(module.Local(-1)))
except module.Trouble as error:
    print("caught", error)
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught negative\n", "")


def test_an_edited_module_is_not_run_in_its_old_form(tmp_path: Path) -> None:
    script = tmp_path / "edits.py"
    script.write_text("""
import importlib, pathlib, sys
here = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here))
file = here / "edited.py"
text = "from husk import tool\\n@tool\\ndef answer(x):\\n    return x + {}\\n"
file.write_text(text.format(1))
import edited
assert edited.answer.call_sync(1) == 2
file.write_text("import os\\n" + text.format("os.sysconf_names['SC_PAGESIZE'] * 0 + 2000"))
importlib.reload(edited)
print(edited.answer.call_sync(1))
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2001\n", "")


def test_edited_constants_and_defaults_tell_functions_apart(tmp_path: Path) -> None:
    script = tmp_path / "edits.py"
    script.write_text("""
import importlib, pathlib, sys
here = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here))
file = here / "edited.py"
text = '''from husk import tool
@tool
def answer(a, b={}, *, c={}):
    def inner():
        return {}
    return [a, b, c, inner(), a in {{'x', 'y', {}}}]
'''
file.write_text(text.format(1, 1, 1, "'z'"))
import edited
for values in ((1, 1, 1, "'z'"), (2000, 1, 1, "'z'"), (1, 2000, 1, "'z'"), (1, 1, 2000, "'z'"), (1, 1, 1, "'q'")):
    file.write_text(text.format(*values))
    importlib.reload(edited)
    print(edited.answer.call_sync("q"))
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "['q', 1, 1, 1, False]",
        "['q', 2000, 1, 1, False]",
        "['q', 1, 2000, 1, False]",
        "['q', 1, 1, 2000, False]",
        "['q', 1, 1, 1, True]",
    ]


def test_the_mark_of_a_function_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "marked.py").write_text(
        "def f(a, b={'x', 'y', 'z'}, c=object(), *, d=[1, {2: 3}]):\n"
        "    return a in {'p', 'q', 'r'}, lambda: {'s', 't', 'u'}\n"
    )
    code = (
        "import marked; from husk.engines.local.worker import code_mark; print(code_mark(marked.f))"
    )
    marks = set()
    for seed in ("1", "2", "3"):
        env = dict(os.environ, PYTHONHASHSEED=seed)
        command = [sys.executable, "-c", code]
        marks.add(subprocess.check_output(command, cwd=tmp_path, env=env, text=True))
    assert len(marks) == 1


# ---- what cannot travel ----


def test_unserialisable_arguments_are_named() -> None:
    with pytest.raises(ToolArgumentError, match="'b'") as caught:
        add.call_sync(1, b=(n for n in range(3)))
    assert caught.value.argument == "b"
    with pytest.raises(ToolArgumentError, match="'a'") as caught:
        frame: Any = sys._getframe()
        asyncio.run(add(frame))
    assert caught.value.argument == "a"
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, HuskError)


def test_surplus_arguments_are_named_by_position() -> None:
    @tool
    def many(*values: Any) -> int:
        return len(values)

    with pytest.raises(ToolArgumentError) as caught:
        many.call_sync(1, 2, sys._getframe())
    assert caught.value.argument == "*args[2]"


class Stubborn:
    """Pickles, and refuses to be rebuilt in another process."""

    def __reduce__(self) -> Any:
        return _rebuild, (os.getpid(),)


def _rebuild(pid: int) -> Stubborn:
    if pid != os.getpid():
        raise RuntimeError("not here")
    return Stubborn()


def test_arguments_that_the_worker_cannot_rebuild_are_named() -> None:
    with pytest.raises(ToolArgumentError, match="not here") as caught:
        add.call_sync(1, Stubborn())
    assert caught.value.argument == "b"
    assert add.call_sync(1, 1) == 2


def test_wrong_arguments_raise_as_in_a_plain_call() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add.call_sync()


def test_unserialisable_results() -> None:
    @tool
    def generates() -> Any:
        return (n for n in range(3))

    with pytest.raises(ToolResultError, match="generator"):
        generates.call_sync()


def test_a_function_that_cannot_travel_names_what_it_holds() -> None:
    frame = sys._getframe()

    @tool
    def holds() -> Any:
        return frame

    with pytest.raises(ToolFunctionError, match="'frame'"):
        holds.call_sync()


# ---- which engine ----


def test_unknown_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_ENGINE", "cloud")
    with pytest.raises(HuskError, match="cloud"):
        add.call_sync(1)


def test_local_by_default_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUSK_ENGINE", raising=False)
    assert engine.current().name == "local"
    monkeypatch.setenv("HUSK_ENGINE", "local")
    assert engine.current().name == "local"


def test_nothing_is_imported_or_started_before_the_first_call() -> None:
    code = (
        "import sys, json, threading; from husk import tool\n"
        "@tool\ndef f(): pass\n"
        "print(json.dumps([sorted(m for m in sys.modules if m.split('.')[0] in "
        "('ray', 'httpx', 'cloudpickle', 'langchain_core', 'pydantic_ai', 'agno')), threading.active_count()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [[], 1]


def test_works_from_a_thread_of_its_own_after_the_thread_is_gone() -> None:
    results: list[Any] = []
    import threading

    for _ in range(2):
        thread = threading.Thread(target=lambda: results.append(asyncio.run(add(1, 1))))
        thread.start()
        thread.join(60)
    assert results == [2, 2]
    assert execute_tools([(add, {"a": 1})]) == [3]
