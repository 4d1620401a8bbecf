# SPDX-License-Identifier: Apache-2.0
"""Sandbox: run, shell, handler, streams, contexts, life, against a real server."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import ROOT, SdkServer
from waiting import PATIENCE, wait_until

import husk
from husk import AsyncSandbox, Client, Output, Sandbox, errors


@pytest.fixture(scope="module")
def box(server: SdkServer) -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


# ---- running ----


def test_three_lines(server: SdkServer, capsys: pytest.CaptureFixture[str]) -> None:
    with Sandbox() as s:
        print(s.run("1+1").text)
    assert capsys.readouterr().out == "2\n"


def test_result_of_a_cell(box: Sandbox) -> None:
    result = box.run("import sys; print('out'); print('err', file=sys.stderr); {'a': [1, None]}")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.value == {"a": [1, None]}
    assert result.value_text == "{'a': [1, None]}"
    assert result.text == "out\n{'a': [1, None]}"
    assert result.ok and result.is_over and result.exit_code == 0 and result.error is None
    assert result.session_id == box.id and result.id.startswith("exec_")
    assert result.check() is result
    assert not result.is_truncated


def test_values_that_json_cannot_say(box: Sandbox) -> None:
    assert box.run("{1, 2}").value == "{1, 2}"
    assert box.run("None").value is None
    assert box.run("x = 1").value is None
    assert box.run("'text'").value == "text"
    assert box.run("0").value == 0


def test_a_value_that_was_cut_is_none(box: Sandbox) -> None:
    whole = box.run("'x' * (1 << 19)")
    assert whole.value == "x" * (1 << 19) and not whole.is_truncated
    for code in ("'x' * (3 << 20)", "'\u00e4' * (3 << 20)", "set(range(300_000))"):
        cut = box.run(code)
        assert cut.ok and cut.is_truncated and cut.value is None, code
        assert cut.value_text and len(cut.value_text) > 1 << 18
    many = box.run("[[]] * 200_001")
    assert many.value == repr([[]] * 200_001) and not many.is_truncated
    dropped = box.run("for i in range(2000): display(i)\n{1, 2}")
    assert dropped.is_truncated and dropped.value == "{1, 2}", "only the displays were dropped"


def test_state_lives_on(box: Sandbox) -> None:
    box.run("import math\ndef f(x): return math.sqrt(x)\nkept = f(9)")
    assert box.run("kept, f(4)").value_text == "(3.0, 2.0)"


def test_cost_and_receipt(box: Sandbox) -> None:
    result = box.run("sum(range(10**5))")
    assert result.cost.duration_ms > 0 and (result.cost.peak_memory_mb or 0) > 0
    assert result.receipt is not None and result.receipt.network == "none"
    assert "ms CPU" in str(result.cost) and "isolation" in str(result.receipt)
    assert box.receipt().limits["memory_bytes"] == result.receipt.limits["memory_bytes"]


def test_arguments_of_a_run(box: Sandbox) -> None:
    code = "import os, sys; print(os.environ['A'], sys.argv[1:], sys.stdin.read())"
    result = box.run(code, env={"A": "1"}, args=["x", "y"], stdin="in")
    assert result.stdout == "1 ['x', 'y'] in\n"
    assert box.run("1", language="python").value == 1


def test_what_code_does_is_no_exception_until_asked(box: Sandbox) -> None:
    result = box.run("print('before'); 1/0")
    assert not result.ok and result.status == "failed" and result.stdout == "before\n"
    assert result.error is not None and result.error["type"] == "ZeroDivisionError"
    with pytest.raises(errors.RunFailedError, match="ZeroDivisionError") as caught:
        result.check()
    assert caught.value.result is result and caught.value.code == "Run.failed"
    assert isinstance(caught.value, errors.RunError)


def test_time_and_memory_limits(server: SdkServer) -> None:
    with Sandbox(memory="64Mi", timeout=60) as s:
        late = s.run("x = 1\nwhile True: pass", timeout=1)
        assert late.status == "timeout"
        with pytest.raises(TimeoutError):
            late.check()
        assert s.run("x").value == 1, "variables survive the time limit"
        big = s.run("y = bytearray(500 << 20)")
        assert big.status == "memory_exceeded"
        with pytest.raises(MemoryError):
            big.check()


def test_shell(box: Sandbox) -> None:
    box.run("open('f.txt', 'w').write('hello')")
    result = box.shell("cat f.txt; echo $1 $B >&2; exit 3", args=["one"], env={"B": "two"})
    assert (result.stdout, result.stderr, result.exit_code) == ("hello", "one two\n", 3)
    assert box.shell("cat", stdin="through").stdout == "through"


def test_handler(box: Sandbox) -> None:
    code = "def handler(event, context):\n    return {'sum': event['a'] + event['b'], 'n': context.function_name}"
    result = box.handler(code, {"a": 1, "b": 2}, handler_context={"function_name": "add"})
    assert result.check().value == {"sum": 3, "n": "add"}
    raised = box.handler("def handler(event):\n    raise KeyError('k')", {})
    assert raised.error is not None and raised.error["type"] == "KeyError"
    slow = box.handler("def handler(e):\n    import time; time.sleep(60)", {"__timeout": 1})
    assert slow.status == "timeout"


def test_callbacks_see_output_before_the_end(box: Sandbox) -> None:
    seen: list[str] = []
    wrong: list[str] = []
    shown: list[Output] = []
    code = (
        "import sys, time\nprint('first', flush=True)\nwhile not __import__('os').path.exists('go'): time.sleep(.01)\n"
        "print('bad', file=sys.stderr)\n'value'"
    )

    def on_stdout(text: str) -> None:
        seen.append(text)
        box.files.write("go", b"")  # the code waits for this: it is running while we hear of it

    result = box.run(code, on_stdout=on_stdout, on_stderr=wrong.append, on_output=shown.append)
    assert "".join(seen) == "first\n" and "".join(wrong) == "bad\n"
    assert result.ok and result.stdout == "first\n" and result.value == "value"
    assert [o.text for o in shown] == ["'value'"]
    assert [o.text for o in result.results] == ["'value'"]


def test_a_callback_that_raises_is_heard(box: Sandbox) -> None:
    def on_stdout(text: str) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        box.run("print(1)", on_stdout=on_stdout)
    assert box.run("1").value == 1


def test_stream(box: Sandbox) -> None:
    stream = box.stream("print('a', flush=True); print('b'); 7")
    kinds = [event.kind for event in stream]
    assert kinds[0] == "status" and kinds[-2:] == ["result", "end"] and "stdout" in kinds
    assert stream.result.value == 7 and stream.result.stdout == "a\nb\n"
    assert "".join(box.stream(command="echo one; echo two").text()) == "one\ntwo\n"
    assert box.stream("1/0").result.status == "failed"
    with pytest.raises(errors.InvalidParameterError):
        box.stream("1", command="ls")


def test_bytes_that_are_no_text(box: Sandbox) -> None:
    stream = box.stream("import sys; sys.stdout.buffer.write(b'\\xff\\x00ok')")
    assert b"".join(e.bytes for e in stream if e.kind == "stdout") == b"\xff\x00ok"


def test_a_stream_that_was_closed_before_it_began_has_no_result(box: Sandbox) -> None:
    stream = box.stream("1")
    stream.close()
    with pytest.raises(husk.HuskError, match="before its run began"):
        stream.result

    async def main() -> None:
        async with AsyncSandbox() as s:
            stream = s.stream("1")
            await stream.close()
            with pytest.raises(husk.HuskError, match="before its run began"):
                await stream.result()

    asyncio.run(main())


# ---- contexts ----


def test_interrupt(box: Sandbox) -> None:
    stream = box.stream("kept = 5\nprint('runs', flush=True)\nimport time\ntime.sleep(60)")
    for event in stream:
        if event.kind == "stdout":
            assert box.interrupt().interrupted
    error = stream.result.error
    assert error is not None and error["type"] == "KeyboardInterrupt"
    assert box.run("kept").value == 5
    assert not box.interrupt().interrupted, "nothing runs any more"


def test_reset(box: Sandbox) -> None:
    box.run("gone = 1")
    box.files.write("stays.txt", "x")
    box.reset()
    error = box.run("gone").error
    assert error is not None and error["type"] == "NameError"
    assert box.files.read("stays.txt") == b"x"


def test_checkpoint_restore_branch(server: SdkServer) -> None:
    with Sandbox() as s:
        s.run("x = 1")
        point = s.checkpoint()
        s.run("x = 2")
        twin = s.branch()
        assert s.run("x += 10; x", context=twin.context_id).value == 12
        assert s.run("x").value == 2
        s.restore(point)
        assert s.run("x").value == 1
        s.restore(point.checkpoint_id, context=twin.context_id)
        assert s.run("x", context=twin.context_id).value == 1
        listed = s.contexts()
        assert {c.context_id for c in listed.items} == {0, twin.context_id}
        assert [c.checkpoint_id for c in listed.checkpoints] == [point.checkpoint_id]


# ---- life ----


def test_limits_arrive(server: SdkServer) -> None:
    with Sandbox(
        "python", timeout=77, memory="128Mi", cpus=0.5, disk="32Mi", pids=40, env={"E": "v"}
    ) as s:
        info = s.info()
        assert info.timeout == 77 and info.template_id == "python" and info.mode == "persistent"
        limits = s.receipt().limits
        assert limits["memory_bytes"] == 128 << 20 and limits["disk_bytes"] == 32 << 20
        assert limits["cpus"] == 0.5 and limits["pids"] == 40
        assert s.run("import os; os.environ['E']").value == "v"
        assert s.extend(99).timeout == 99
        stats = s.stats()
        assert stats.executions == 1 and stats.memory_bytes > 0
        assert len(s.executions()) == 1


def test_the_end_of_the_block_ends_the_session(server: SdkServer) -> None:
    with Sandbox(id="my-own-id") as s:
        assert s.id == "my-own-id" and s.is_owner
    with Client() as client:
        assert client.get_session("my-own-id").status == "terminated"
    with pytest.raises(errors.SandboxClosedError):
        s.run("1")
    s.close()


def test_only_the_maker_ends_it(server: SdkServer) -> None:
    with Sandbox() as maker:
        with Sandbox.attach(maker.id) as guest:
            assert not guest.is_owner
            guest.run("shared = 1")
            with pytest.raises(errors.NotOwnerError):
                guest.terminate()
        assert maker.run("shared").value == 1
        maker.terminate()
        maker.terminate()
        with pytest.raises(errors.SessionEndedError):
            Sandbox(session_id=maker.id)
    with pytest.raises(errors.InvalidParameterError):
        Sandbox(session_id="x", memory="1Gi")


def test_an_agent_finds_its_session_and_leaves_it(server: SdkServer) -> None:
    with Sandbox(agent_id="agent-1") as first:
        first.run("x = 1")
        with Sandbox(agent_id="agent-1") as again:
            assert again.id == first.id and not again.is_owner
            assert again.run("x").value == 1
        assert first.run("x").value == 1


def test_a_forked_process_does_not_end_it(server: SdkServer) -> None:
    with Sandbox() as s:
        s.run("x = 1")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")  # such as that of an unclosed socket
                    code = 0 if s.run("x").value == 1 and not s.is_owner else 2
                    s.close()
                code = code or (3 if caught else 0)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert s.run("x").value == 1


def wait_over(s: Sandbox) -> None:
    wait_until(lambda: s.info().is_over, "the sandbox is over")


def test_ephemeral(server: SdkServer) -> None:
    with Sandbox(mode="ephemeral") as s:
        assert s.run("print(6 * 7)").stdout == "42\n"
        wait_over(s)
        with pytest.raises(errors.SessionEndedError):
            s.run("1")


def test_a_session_that_timed_out_says_so(server: SdkServer) -> None:
    with Sandbox(timeout=1) as s:
        s.run("x = 1")
        wait_over(s)
        with pytest.raises(errors.SessionEndedError, match="timeout") as caught:
            s.run("x")
        assert caught.value.session_id == s.id


def test_unclosed_is_warned_about(server: SdkServer) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = Sandbox().id
        gc.collect()
    assert any(
        issubclass(w.category, ResourceWarning) and session in str(w.message) for w in caught
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Sandbox():
            pass
        gc.collect()
    assert not [w for w in caught if "Sandbox" in str(w.message)]
    with Client() as client:
        client.terminate_session(session)


def test_threads_share_a_sandbox(box: Sandbox) -> None:
    box.run("total = 0")
    found: list[object] = []

    def work() -> None:
        for _ in range(20):
            found.append(box.run("total += 1; total").value)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == list(range(1, 81)), "each run happened once"  # type: ignore[type-var]


def test_a_callback_that_raises_interrupts_the_run(box: Sandbox) -> None:
    def refuse(text: str) -> None:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="seen"):
        box.run(
            "print('seen', flush=True)\nimport time\ntime.sleep(20)",
            on_stdout=refuse,
            timeout=100,
        )
    assert box.run("1").value == 1
    assert box.executions().items[1].status == "failed"


def printed(script: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    return done.stdout


def test_ctrl_c_interrupts_the_run_too(server: SdkServer) -> None:
    """The code in the sandbox stops when its caller is interrupted."""
    script = (
        "import os, signal, threading, time\n"
        "from husk import Sandbox\n"
        "with Sandbox() as s:\n"
        "    def poke():\n"
        "        while not s.files.exists('started'): time.sleep(.02)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Thread(target=poke).start()\n"
        "    try:\n"
        "        s.run(\"open('started', 'w').close()\\nimport time\\ntime.sleep(60)\", timeout=100)\n"
        "    except KeyboardInterrupt:\n"
        "        print(s.run('1').value, s.executions().items[1].status)\n"
    )
    assert printed(script) == "1 failed\n"


@pytest.mark.parametrize("arguments", ["", "on_stdout=print", "durable=False"])
def test_ctrl_c_ends_the_command_and_nothing_else(server: SdkServer, arguments: str) -> None:
    watched = arguments if arguments.startswith("on") else ""
    script = (
        "import os, signal, threading, time\n"
        "from husk import Sandbox\n"
        f"with Sandbox({'' if watched else arguments}) as s:\n"
        "    got = []\n"
        "    cell = \"open('a', 'w').close()\\nimport os, time\\nwhile not os.path.exists('go'): time.sleep(.02)\\n7\"\n"
        "    other = threading.Thread(target=lambda: got.append(s.run(cell).value))\n"
        "    other.start()\n"
        "    def poke():\n"
        "        while not (s.files.exists('a') and s.files.exists('b')): time.sleep(.02)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Thread(target=poke).start()\n"
        "    try:\n"
        f"        s.shell('touch b; sleep 60', timeout=100, {watched})\n"
        "    except KeyboardInterrupt:\n"
        "        states = [e.status for e in s.executions().items]\n"
        "        s.files.write('go', '')\n"
        "        other.join()\n"
        "        print('cancelled' in states, got)\n"
    )
    assert printed(script) == "True [7]\n"


def test_whatever_is_asked_of_a_session_that_is_over_says_so(
    server: SdkServer, tmp_path: Path
) -> None:
    with Sandbox() as s:
        s.files.write("f", "1")
        s.client.terminate_session(s.id)
        asked: list[Callable[[], object]] = [
            lambda: s.run("1"),
            lambda: list(s.stream("1")),
            lambda: s.stream(command="true").result,
            s.branch,
            s.checkpoint,
            lambda: s.restore(1),
            s.interrupt,
            s.reset,
            s.contexts,
            s.receipt,
            lambda: s.extend(5),
            lambda: s.files.read("f"),
            lambda: s.files.read_text("f"),
            lambda: s.files.write("f", "2"),
            lambda: s.files.exists("f"),
            s.files.list,
            lambda: s.files.download("f", tmp_path),
        ]
        for number, ask in enumerate(asked):
            with pytest.raises(errors.SessionEndedError, match="terminated") as caught:
                ask()
            assert caught.value.session_id == s.id, number


def test_a_termination_that_failed_can_be_tried_again(
    server: SdkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client() as client:
        s = Sandbox(client=client)
        with monkeypatch.context() as patch:
            patch.setattr(client, "send", _refuse)
            with pytest.raises(errors.UnavailableError):
                s.terminate()
        s.terminate()
        assert client.get_session(s.id).status == "terminated"
        with pytest.raises(errors.SandboxClosedError):
            s.run("1")


def _refuse(call: Any) -> None:
    raise errors.UnavailableError("not now")


# ---- form ----


def test_both_classes_have_the_same_methods() -> None:
    def names(kind: type) -> set[str]:
        return {n for n in dir(kind) if not n.startswith("_")}

    assert names(AsyncSandbox) - names(Sandbox) == {"start"}
    assert names(Sandbox) - names(AsyncSandbox) == set()
    for name in ("run", "shell", "handler", "extend", "restore"):
        sync, waiting = getattr(Sandbox, name), getattr(AsyncSandbox, name)
        assert inspect.signature(sync) == inspect.signature(waiting)
        assert list(inspect.signature(sync).parameters)[0] == "self"
        assert sync.__doc__ == waiting.__doc__ and sync.__doc__


def test_the_package_imports_nothing_at_first() -> None:
    script = (
        "import sys, husk\n"
        "assert not {'httpx', 'asyncio', 'husk.client'} & set(sys.modules), sys.modules\n"
        "import husk.sandbox\n"
        "heavy = {'httpx', 'ray', 'pydantic', 'langchain', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)


def test_every_exported_name_is_there_and_typed() -> None:
    source = inspect.getsource(husk)
    for name in husk._MODULES:
        assert getattr(husk, name) is not None
        assert f" as {name}\n" in source, f"{name} has no row below TYPE_CHECKING"
    assert husk.__version__ == (ROOT / "VERSION").read_text().strip()


@pytest.mark.parametrize(
    "on_idle,state,kept", [("park", "parked", "False"), ("freeze", "frozen", "True")]
)
def test_an_idle_sandbox_can_rest(
    server: SdkServer, on_idle: Literal["park", "freeze"], state: str, kept: str
) -> None:
    with Sandbox(timeout=1, on_idle=on_idle) as box:
        box.run("kept = 1").check()
        wait_until(lambda: box.info().idle_state == state, f"it is {state}")
        result = box.run("'kept' in globals()")
        assert result.value_text == kept and result.ok
        assert result.restart_reason == ("parked" if on_idle == "park" else None)
        assert box.extend(60, on_idle="end").on_idle == "end"
