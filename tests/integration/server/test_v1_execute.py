# SPDX-License-Identifier: Apache-2.0
"""What executions of /api/v1 do, against a real huskd: code, commands, handlers, refusals."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from v1_client import WAITS, Api, check_error, v1, v1_server  # noqa: F401
from v1_files import put

LOOP = "print('on', flush=True)\nwhile True: pass"

needs_node = pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="node is not installed")


# ---- one interpreter ----


def test_ten_executes_share_one_interpreter(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "import math\ntotal = 0\ndef add(n):\n    global total\n    total += n")
    v1.run(s, "class Box:\n    size = 3\nbox = Box()")
    for n in range(1, 9):
        result = v1.run(s, f"add({n})\ntotal")
        assert result["return_value"] == n * (n + 1) // 2
        assert result["status"] == "completed" and result["exit_code"] == 0
    assert v1.run(s, "math.floor(box.size + 0.5)")["return_value"] == 3
    assert v1.get(f"/sessions/{s}/executions")["total"] == 11


def test_result_has_every_field(v1: Api) -> None:
    s = v1.session()
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, None, 'x']}"
    r = v1.run(s, code, timeout=33)
    assert r["kind"] == "code" and r["language"] == "python" and r["code"] == code
    assert r["timeout"] == 33 and r["context_id"] == 0 and r["session_id"] == s
    assert r["stdout"] == "out\n" and r["stderr"] == "err\n"
    assert r["return_value"] == {"a": [1, None, "x"]} and r["value"] == str(r["return_value"])
    assert r["error"] is None and r["termination"]["cause"] == "exit"
    assert r["metrics"]["duration_ms"] > 0 and r["metrics"]["peak_memory_mb"] > 0
    assert r["execution_time"] == pytest.approx(r["metrics"]["duration_ms"] / 1000)
    assert r["created_at"] <= r["started_at"] <= r["completed_at"]
    assert r["receipt"]["isolation"] == "full"
    assert r["receipt"]["limits"]["timeout_ms"] == 33_000
    for path in (f"/executions/{r['id']}", f"/executions/{r['id']}/result"):
        assert v1.get(path).body == r


def test_an_interrupt_between_the_code_and_its_answer(v1: Api) -> None:
    """As SIGINT does when the code is over and its answer is being put together: a result like
    others.
    """
    s = v1.session()
    r = v1.run(
        s,
        "import sys\n"
        "def stop(*args):\n"
        "    raise KeyboardInterrupt\n"
        "frame = sys._getframe()\n"
        "while 'artifacts' not in frame.f_globals:\n"
        "    frame = frame.f_back\n"
        "frame.f_globals['artifacts'].since = stop\n",
    )
    assert (r["status"], r["exit_code"]) == ("failed", 130)
    assert r["error"] == {"type": "KeyboardInterrupt", "message": "", "traceback": None}


def test_exception_is_a_result_and_the_session_survives(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 1")
    r = v1.run(s, "print('before')\n1 / 0")
    assert r["status"] == "failed" and r["exit_code"] == 1 and r["stdout"] == "before\n"
    assert r["error"]["type"] == "ZeroDivisionError"
    assert "1 / 0" in r["error"]["traceback"]
    assert v1.run(s, "x")["return_value"] == 1
    assert v1.run(s, "raise SystemExit(7)")["exit_code"] == 7
    assert v1.run(s, "x")["return_value"] == 1


def test_timeout_interrupts_and_keeps_state(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 'kept'")
    r = v1.run(s, LOOP, timeout=1)
    assert r["status"] == "timeout" and r["exit_code"] == 124 and r["stdout"] == "on\n"
    assert r["termination"]["cause"] == "timeout" and r["metrics"]["duration_ms"] >= 1000
    assert v1.run(s, "x")["return_value"] == "kept"


def test_memory_limit_is_named(v1: Api) -> None:
    s = v1.session(mode="ephemeral", memory="64Mi")
    r = v1.run(s, "x = bytearray(500 << 20)")
    assert r["status"] == "memory_exceeded" and r["exit_code"] in (1, 137)
    assert r["termination"]["cause"] == "oom" and "64 MiB" in r["termination"]["limit"]


def test_a_crash_is_a_result(v1: Api) -> None:
    s = v1.session(mode="ephemeral")
    r = v1.run(s, "import ctypes; ctypes.string_at(0)")
    assert r["status"] == "crashed" and r["exit_code"] == 128 + 11


def test_values_that_json_cannot_say(v1: Api) -> None:
    s = v1.session()
    assert v1.run(s, "object")["return_value"] is None
    big = v1.run(s, "10 ** 30")
    assert big["value"] == str(10**30) and big["status"] == "completed"
    assert big["return_value"] is None
    many = v1.run(s, "{'big': 2**63, 'id': 2**53 + 1, 'one': 1}")
    assert many["return_value"] is None and "9223372036854775808" in many["value"]
    fits = v1.run(s, "[2**63 - 1, -(2**63), 2**53 + 1, 1.0]")
    assert repr(fits["return_value"]) == repr([2**63 - 1, -(2**63), 2**53 + 1, 1.0])
    assert v1.run(s, "float('nan')")["return_value"] is None
    assert v1.run(s, "'\\x00é'")["return_value"] == "\x00é"
    assert v1.run(s, "x = 3")["value"] is None
    crowd = v1.run(s, "[[]] * 200_001")
    assert crowd["return_value"] is None and crowd["value"].startswith("[[], []")
    assert v1.run(s, "[0] * 190_000")["return_value"] == [0] * 190_000


def test_output_that_is_no_text(v1: Api) -> None:
    s = v1.session()
    r = v1.run(s, "import sys; _ = sys.stdout.buffer.write(b'a\\xff\\x00b'); sys.stdout.flush()")
    assert r["stdout"] == "a�\x00b"


def test_long_output_is_cut_and_says_so(v1: Api) -> None:
    s = v1.session()
    r = v1.run(s, "print('x' * (3 << 20))")
    assert r["stdout_truncated"] is True and r["stderr_truncated"] is False
    assert len(r["stdout"]) == 1 << 20 and r["status"] == "completed"
    r = v1.run(s, "'x' * (3 << 20)")
    assert len(r["value"]) == 1 << 20 and r["return_value"] is None and r["outputs_dropped"] is True
    assert v1.run(s, "'x' * (1 << 19)")["outputs_dropped"] is False


def test_rich_outputs(v1: Api) -> None:
    s = v1.session()
    code = (
        "class P:\n"
        "    def __repr__(self): return 'plain'\n"
        "    def _repr_html_(self): return '<b>x</b>'\n"
        "    def _repr_json_(self): return [2**63, 1]\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n"
        "P()"
    )
    forms = {f["mime_type"]: f for f in v1.run(s, code)["outputs"][-1]["forms"]}
    assert forms["text/plain"]["data"] == "plain" and forms["text/plain"]["encoding"] == "text"
    assert forms["text/html"]["data"] == "<b>x</b>"
    assert forms["application/json"]["encoding"] == "text"
    assert forms["application/json"]["data"] == "[9223372036854775808, 1]"
    assert forms["image/png"] == {
        "mime_type": "image/png",
        "encoding": "base64",
        "data": "iVBORw==",
    }


def test_args_stdin_and_environment(v1: Api) -> None:
    s = v1.session(env_vars={"A": "session", "B": "session"})
    code = "import os, sys\n(sys.argv[1:], sys.stdin.read(), os.environ['A'], os.environ['B'])"
    r = v1.run(s, code, args=["one", "zwei ü"], stdin="in\nput", env_vars={"B": "call"})
    assert r["return_value"] == [["one", "zwei ü"], "in\nput", "session", "call"]
    again = v1.run(s, "import os, sys\n(sys.argv[1:], sys.stdin.read(), os.environ['B'])")
    assert again["return_value"] == [[], "", "session"]


def test_variables_of_one_execution_are_not_there_for_the_next(v1: Api) -> None:
    s = v1.session(env_vars={"A": "session"})
    look = "__import__('os').environ.get"
    for code in (f"{look}('SECRET')", "1 / 0", "import os; os.environ['SECRET'] = 'changed'"):
        v1.run(s, code, env_vars={"SECRET": "x", "A": "call"})
        assert v1.run(s, f"{look}('SECRET'), {look}('A')")["return_value"] == [None, "session"]


# ---- commands ----


def test_command_sees_the_files_of_the_session(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 1\nopen('made', 'w').write('by python')")
    r = v1.run(s, command='cat made; pwd; echo "$1"; echo new > back', args=["arg"])
    assert r["kind"] == "command" and r["exit_code"] == 0
    assert r["stdout"] == "by python/workspace\narg\n"
    assert v1.run(s, "(x, open('back').read())")["return_value"] == [1, "new\n"]


def test_command_reports_its_exit_code(v1: Api) -> None:
    s = v1.session()
    r = v1.run(s, command="echo bad >&2; exit 3")
    assert r["status"] == "failed" and r["exit_code"] == 3 and r["stderr"] == "bad\n"
    slow = v1.run(s, command="sleep 100", timeout=1)
    assert slow["status"] == "timeout" and slow["exit_code"] == 124
    assert v1.run(s, command="cat", stdin="through")["stdout"] == "through"


def test_command_in_an_ephemeral_session(v1: Api) -> None:
    s = v1.session(mode="ephemeral")
    assert v1.run(s, command="echo $((6 * 7))")["stdout"] == "42\n"


# ---- handlers ----

ADD = "def handler(event, context):\n    return {'sum': event['a'] + event['b']}"


def test_handler_gets_event_and_context(v1: Api) -> None:
    s = v1.session(mode="ephemeral")
    r = v1.run(s, handler_code=ADD, event={"a": 1, "b": 2})
    assert r["kind"] == "handler" and r["return_value"] == {"sum": 3} and r["code"] == ADD


@pytest.mark.parametrize("mode", ["ephemeral", "persistent"])
def test_handler_in_both_modes_and_arities(v1: Api, mode: str) -> None:
    s = v1.session(mode=mode)
    one = "def handler(event):\n    print('seen')\n    return event"
    r = v1.run(s, handler_code=one, event={"deep": {"er": [1]}})
    assert r["return_value"] == {"deep": {"er": [1]}} and r["stdout"] == "seen\n"


def test_code_with_an_event_is_a_handler(v1: Api) -> None:
    s = v1.session()
    r = v1.run(s, ADD, event={"a": 4, "b": 5})
    assert r["kind"] == "handler" and r["return_value"] == {"sum": 9}


def test_handler_context_fields_and_remaining_time(v1: Api) -> None:
    s = v1.session()
    code = (
        "def handler(event, context):\n"
        "    return [context.function_name, context.get_remaining_time_in_millis() > 0]"
    )
    r = v1.run(s, handler_code=code, event={}, context={"function_name": "mine"})
    assert r["return_value"] == ["mine", True]


@pytest.mark.parametrize(
    "event,timeout",
    [
        ({}, 300),
        ({"__timeout": 7}, 7),
        ({"__timeout": 0}, 300),
        ({"__timeout": -5}, 300),
        ({"__timeout": 99999}, 3600),
        ({"__timeout": "soon"}, 300),
    ],
)
def test_timeout_in_the_event(v1: Api, event: Any, timeout: int) -> None:
    s = v1.session()
    r = v1.run(s, handler_code="def handler(event): return 1", event=event)
    assert r["timeout"] == timeout and r["return_value"] == 1
    assert r["receipt"]["limits"]["timeout_ms"] == timeout * 1000


def test_timeout_in_the_event_is_enforced_and_wins(v1: Api) -> None:
    s = v1.session()
    code = "import time\ndef handler(event):\n    time.sleep(60)"
    r = v1.run(s, handler_code=code, event={"__timeout": 1}, timeout=50)
    assert r["status"] == "timeout" and r["timeout"] == 1


def test_handler_failures_are_results(v1: Api) -> None:
    s = v1.session()
    r = v1.run(s, handler_code="def handler(event): raise KeyError('k')", event={})
    assert r["status"] == "failed" and r["error"]["type"] == "KeyError"
    r = v1.run(v1.session(), handler_code="x = 1", event={})
    assert r["status"] == "failed" and "handler" in r["error"]["message"]


# ---- other languages ----


def test_shell_template(v1: Api) -> None:
    s = v1.session(template_id="shell", mode="ephemeral")
    r = v1.run(s, "echo hello; exit 4")
    assert r["stdout"] == "hello\n" and r["exit_code"] == 4 and r["language"] == "shell"


@pytest.mark.parametrize("field", ["handler_code", "code"])
@pytest.mark.parametrize(
    "fields,body",
    [({"template_id": "shell", "mode": "ephemeral"}, {}), ({}, {"language": "shell"})],
)
def test_a_shell_has_no_handlers(v1: Api, fields: Any, body: Any, field: str) -> None:
    s = v1.session(**fields)
    for route in ("execute", "execute-sync", "execute-stream"):
        answer = v1.post(f"/sessions/{s}/{route}", {field: "echo made", "event": {}, **body})
        check_error(answer, 409, "Conflict")
        assert "handlers" in answer["error_detail"]
    assert v1.get(f"/sessions/{s}/executions")["total"] == 0
    assert v1.run(s, "echo on", **body)["stdout"] == "on\n"  # it is still there


@needs_node
@pytest.mark.parametrize("field", ["handler_code", "code"])
def test_javascript_handler(v1: Api, field: str) -> None:
    code = "exports.handler = async (event) => { console.log('seen'); return {sum: event.a + event.b}; }"
    s = v1.session(template_id="node", mode="ephemeral")
    body: dict[str, Any] = {field: code, "event": {"a": 1, "b": 2}}
    r = v1.run(s, **body)
    assert r["kind"] == "handler" and r["language"] == "javascript"
    assert r["status"] == "completed" and r["return_value"] == {"sum": 3}
    assert r["stdout"] == "seen\n" and r["error"] is None


@pytest.mark.parametrize(
    "template,code",
    [
        ("python", "def handler(e, c): return [c.request_id, c.log_stream_name]"),
        pytest.param(
            "node", "handler = (e, c) => [c.request_id, c.log_stream_name]", marks=needs_node
        ),
    ],
)
def test_ids_of_a_context_are_uuids_of_their_own(v1: Api, template: str, code: str) -> None:
    seen = []
    for _ in range(2):
        s = v1.session(template_id=template, mode="ephemeral")
        seen += v1.run(s, handler_code=code)["return_value"]
    assert len(set(seen)) == 4
    assert [str(uuid.UUID(text)) for text in seen] == seen
    assert {uuid.UUID(text).version for text in seen} == {4}


@needs_node
def test_javascript_handler_context_and_time_limit(v1: Api) -> None:
    s = v1.session(template_id="node", mode="ephemeral")
    code = "const handler = (e, c) => [e, c.function_name, c.remaining_time_in_millis > 200000]"
    r = v1.run(s, handler_code=code, context={"function_name": "mine"})
    assert r["return_value"] == [{}, "mine", True] and r["timeout"] == 300
    s = v1.session(template_id="node", mode="ephemeral")
    r = v1.run(s, handler_code="handler = () => { for (;;); }", event={"__timeout": 1})
    assert r["status"] == "timeout" and r["timeout"] == 1


@needs_node
def test_javascript_handlers_find_lambdas_names(v1: Api) -> None:
    s = v1.session(template_id="node", mode="ephemeral")
    code = (
        "exports.handler = async (e, c) => [c.functionName, c.awsRequestId === c.request_id,"
        " c.logGroupName, c.memoryLimitInMB, c.identity.cognito_identity_id, c.clientContext,"
        " c.getRemainingTimeInMillis() > 0]"
    )
    r = v1.run(s, handler_code=code, context={"function_name": "mine"})
    assert r["return_value"] == ["mine", True, "/lambda-sandbox/logs", 256, None, None, True]


@needs_node
@pytest.mark.parametrize(
    "code,kind",
    [
        ("const x = 1", "NoHandler"),
        ("function handler() { throw new RangeError('no'); }", "RangeError"),
    ],
)
def test_javascript_handler_failures_are_results(v1: Api, code: str, kind: str) -> None:
    s = v1.session(template_id="node", mode="ephemeral")
    r = v1.run(s, handler_code=code, event={})
    assert r["status"] == "failed" and r["exit_code"] == 1 and r["return_value"] is None
    assert r["error"]["type"] == kind and kind in r["error"]["traceback"]


@needs_node
def test_javascript_code_reports_its_last_value(v1: Api) -> None:
    s = v1.session(template_id="node", mode="ephemeral")
    r = v1.run(s, "console.log('out'); ({a: [1, null]})")
    assert r["stdout"] == "out\n" and r["return_value"] == {"a": [1, None]}
    assert r["value"] == "{ a: [ 1, null ] }" and r["kind"] == "code"
    s = v1.session(template_id="node", mode="ephemeral")
    r = v1.run(s, "throw new TypeError('bad')")
    assert r["status"] == "failed" and r["error"]["type"] == "TypeError"


def test_a_language_that_the_template_lacks_is_a_conflict(v1: Api) -> None:
    s = v1.session(template_id="shell")
    answer = v1.post(f"/sessions/{s}/execute", {"code": "1", "language": "python"})
    check_error(answer, 409, "Conflict", "shell", "python")


@pytest.mark.parametrize(
    "base,code", [("shell", "echo $OWN"), pytest.param("node", "process.env.OWN", marks=needs_node)]
)
def test_a_template_of_ones_own_is_used(v1: Api, base: str, code: str) -> None:
    made = v1.post(
        "/templates",
        {"id": f"own-{base}", "name": "x", "base": base, "default_env_vars": {"OWN": "mine"}},
    )
    assert made.status == 201, made.raw
    r = v1.run(v1.session(template_id=f"own-{base}", mode="ephemeral"), code)
    assert (r["stdout"] or r["return_value"]).strip() == "mine", r


@pytest.mark.parametrize("template", ["shell", pytest.param("node", marks=needs_node)])
@pytest.mark.parametrize("body", [{"code": "1"}, {"handler_code": "def handler(event): return 1"}])
def test_python_needs_a_python_template(v1: Api, template: str, body: dict[str, str]) -> None:
    s = v1.session(template_id=template, mode="ephemeral")
    answer = v1.post(f"/sessions/{s}/execute-sync", {**body, "language": "python"})
    check_error(answer, 409, "Conflict")
    assert v1.get(f"/sessions/{s}/executions")["total"] == 0


@pytest.mark.parametrize(
    "template,language", [("python", "javascript"), ("shell", "python"), ("node", "python")]
)
def test_a_wrong_language_does_not_spend_an_ephemeral_session(
    v1: Api, template: str, language: str
) -> None:
    s = v1.session(template_id=template, mode="ephemeral")
    answer = v1.post(f"/sessions/{s}/execute", {"code": "1", "language": language})
    check_error(answer, 409, "Conflict", template, language)
    r = v1.run(s, "echo hello", language="shell")
    assert r["stdout"] == "hello\n" and r["status"] == "completed"


# ---- requests that are refused ----

WRONG: list[Any] = [
    {},
    {"code": ""},
    {"code": 1},
    {"code": "1", "command": "ls"},
    {"code": "1", "handler_code": "x"},
    {"command": "ls", "event": {}},
    {"command": "ls", "language": "shell"},
    {"code": "1", "context": {}},
    {"code": "1", "timeout": 0},
    {"code": "1", "timeout": 3601},
    {"code": "1", "language": "cobol"},
    {"code": "1", "event": []},
    {"code": "1", "args": "x"},
    {"code": "1", "args": [1]},
    {"code": "1", "context_id": -1},
    {"code": "1", "context_id": 65536},
    {"code": "1", "env_vars": {"A=B": "x"}},
    {"code": "1", "colour": "red"},
    {"code": "x" * (1048576 + 1)},
]


@pytest.mark.parametrize("route", ["execute", "execute-sync", "execute-stream"])
def test_wrong_bodies(v1: Api, route: str) -> None:
    s = v1.session()
    for body in WRONG:
        answer = v1.post(f"/sessions/{s}/{route}", body)
        check_error(answer, 422, "InvalidParameter")
    assert v1.get(f"/sessions/{s}/executions")["total"] == 0


def test_too_large_bodies(v1: Api) -> None:
    s = v1.session()
    answer = v1.call("POST", f"/sessions/{s}/execute", raw=b" " * (8388608 + 1))
    check_error(answer, 413, "TooLarge")


def test_code_of_the_largest_size_runs(v1: Api) -> None:
    s = v1.session()
    code = "x = 1 #".ljust(1048576, "-")
    assert v1.run(s, code)["status"] == "completed"


def test_nul_in_code_is_refused(v1: Api) -> None:
    s = v1.session()
    raw = b'{"code": "print(1)\\u0000"}'
    answer = v1.call("POST", f"/sessions/{s}/execute", raw=raw)
    check_error(answer, 400, "InvalidParameter")


def test_unknown_context(v1: Api) -> None:
    s = v1.session()
    for context in (5, 63, 64, 65535):
        answer = v1.post(f"/sessions/{s}/execute-sync", {"code": "1", "context_id": context})
        check_error(answer, 404, "NotFound", f"no context {context}")
        assert "/contexts" in answer["solution"]


# ---- files that an execution made ----


def test_artifacts_are_the_files_that_this_execution_changed(v1: Api) -> None:
    s = v1.session()
    made = v1.run(
        s,
        "import os\nos.makedirs('out/deep')\nfor n in ('b', 'out/deep/a'):\n  open(n, 'w').write('x')",
    )
    assert made["artifacts"] == ["b", "out/deep/a"]
    v1.run(s, "import time; time.sleep(0.05)")
    changed = v1.run(s, "open('b', 'a').write('y'); open('.hidden', 'w').write('z')")
    assert changed["artifacts"] == ["b"]
    v1.run(s, "import time; time.sleep(0.05)")
    assert v1.run(s, "open('b').read()")["artifacts"] == []
    moved = v1.post(f"/sessions/{s}/execute-sync", {"command": "mv b c; ln -s /etc/passwd link"})
    assert moved["artifacts"] == ["c"]


def test_artifacts_of_a_cell_that_failed_and_of_one_that_broke_the_tools(v1: Api) -> None:
    s = v1.session()
    failed = v1.run(s, "open('half', 'w').write('x')\n1 / 0")
    assert failed["status"] == "failed" and failed["artifacts"] == ["half"]
    broken = v1.run(s, "import os; os.scandir = None; x = 5")
    assert broken["status"] == "completed" and broken["artifacts"] == []
    assert v1.run(s, "x")["return_value"] == 5


def test_artifacts_are_bounded(v1: Api) -> None:
    s = v1.session(resources={"disk": "512Mi"})
    many = v1.run(s, "for i in range(1500): open(f'f{i:04}', 'w').close()")
    assert len(many["artifacts"]) == 1000


# ---- the answer's form ----


def test_numbers_are_as_they_were_written(v1: Api) -> None:
    """In answers, in events and in records that are read again: no digits that nobody wrote."""
    session = v1.session()
    answer = v1.post(f"/sessions/{session}/execute-sync", {"code": "[2.272, 0.1, 1e22, -1.5e-9]"})
    assert b'"return_value":[2.272,0.1,1e22,-1.5e-9]' in answer.raw, answer.raw
    again = v1.get(f"/executions/{answer['execution_id']}")
    assert b'"return_value":[2.272,0.1,1e22,-1.5e-9]' in again.raw, again.raw
    assert answer["metrics"] == again["metrics"]


def test_an_accepted_execution_has_both_names_of_its_id(v1: Api) -> None:
    answer = v1.post(f"/sessions/{v1.session()}/execute", {"code": "1"})
    assert answer["id"] == answer["execution_id"]
    v1.wait_status(answer["id"], "completed")


# ---- metrics of one cell ----


def test_peak_memory_is_that_of_the_cell(v1: Api) -> None:
    s = v1.session()
    large = v1.run(s, "x = bytearray(100 << 20); del x")["metrics"]["peak_memory_mb"]
    small = v1.run(s, "1")["metrics"]["peak_memory_mb"]
    assert large > 100 and 0 < small < 50
    assert v1.get(f"/sessions/{s}/stats")["peak_memory_mb"] >= large


def test_cells_side_by_side_share_their_peak(v1: Api) -> None:
    s = v1.session()
    other = v1.post(f"/sessions/{s}/contexts/0/branch")["context_id"]
    first = v1.start(s, f"x = bytearray(80 << 20); del x\nprint('on', flush=True)\n{WAITS}")
    v1.wait_output(first, "on")
    beside = v1.run(s, "1", context_id=other)["metrics"]["peak_memory_mb"]
    put(v1, s, "go", b"")
    v1.wait_status(first, "completed")
    own = v1.get(f"/executions/{first}")["metrics"]["peak_memory_mb"]
    assert beside > 80 and own > 80


def test_processes_are_those_at_the_end(v1: Api) -> None:
    s = v1.session()
    start = v1.run(s, "1")["metrics"]["processes"]
    sleepers = "import subprocess\np = [subprocess.Popen(['sleep', '600']) for i in range(5)]"
    assert v1.run(s, sleepers)["metrics"]["processes"] == start + 5
    assert v1.get(f"/sessions/{s}/stats")["processes"] == start + 5
    assert v1.run(s, "[q.kill() or q.wait() for q in p]")["metrics"]["processes"] == start
