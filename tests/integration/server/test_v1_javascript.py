# SPDX-License-Identifier: Apache-2.0
"""Sessions in JavaScript: what a context keeps, values and errors, how cells end, hostile cells."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from v1_client import Api, check_error, v1, v1_server  # noqa: F401

pytestmark = pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="node is not installed")

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def js(v1: Api) -> str:
    return v1.session(language="javascript")


def value(v1: Api, session: str, code: str, **fields: Any) -> Any:
    r = v1.run(session, code, **fields)
    assert r["status"] == "completed", r
    return r["return_value"]


def forms(r: Any) -> list[dict[str, Any]]:
    return [{form["mime_type"]: form for form in output["forms"]} for output in r["outputs"]]


# ---- what is kept ----


def test_a_session_has_the_language_that_was_asked_for(v1: Api) -> None:
    made = v1.post("/sessions", {"language": "javascript", "mode": "persistent"})
    assert made["template_id"] == "node" and made["language_runtime"] == "javascript"
    r = v1.run(made["id"], "1 + 1")
    assert r["return_value"] == 2 and r["language"] == "javascript" and r["context_id"] == 0
    v1.call("DELETE", f"/sessions/{made['id']}")


def test_variables_functions_and_classes_live_on(v1: Api, js: str) -> None:
    v1.run(
        js, "const a = 1; let b = 2; var c = 3; function f(x) { return x + a; } class K { n = 4 }"
    )
    assert value(v1, js, "b += 10; [f(1), b, c, new K().n]") == [2, 12, 3, 4]


def test_const_let_and_class_may_be_declared_again(v1: Api, js: str) -> None:
    v1.run(js, "const a = 1; let b = 1; class K { n = 1 }")
    v1.run(js, "const a = 2; let b = 2; class K { n = 2 }")
    assert value(v1, js, "[a, b, new K().n]") == [2, 2, 2]
    r = v1.run(js, "a = 3")
    assert r["error"]["type"] == "TypeError", "a constant is one"


def test_require_and_import(v1: Api, js: str) -> None:
    v1.run(js, "require('fs').writeFileSync('own.js', 'exports.n = 7');")
    v1.run(js, "require('fs').writeFileSync('own.mjs', 'export const m = 8; export default 9');")
    assert value(v1, js, "const {n} = require('./own.js'); n") == 7
    assert value(v1, js, "const {m, default: d} = await import('./own.mjs'); [m, d]") == [8, 9]
    r = v1.run(js, "const path = await import('path'); path.join('a', 'b')")
    assert r["return_value"] == "a/b" and r["stderr"] == ""
    later = "const load = (name) => import(name); (await load('os')).EOL"
    assert value(v1, js, later) == "\n"
    assert v1.run(js, "await import('./missing.mjs')")["error"]["type"] == "Error"


def test_the_word_import_elsewhere_is_left_alone(v1: Api, js: str) -> None:
    code = """
    // import(1)
    const o = { import(x) { return x + '!'; } };
    [`import(a)`, 'import("b")', /import(c)/.source, o.import('d'), `${(await import('os')).EOL}`]
    """
    assert value(v1, js, code) == ["import(a)", 'import("b")', "import(c)", "d!", "\n"]


def test_await_at_top_level(v1: Api, js: str) -> None:
    assert value(v1, js, "const late = await new Promise((r) => setTimeout(r, 20, 5)); late") == 5
    assert value(v1, js, "await Promise.resolve({ a: late })") == {"a": 5}
    code = "let n = 0; for await (const x of [1, Promise.resolve(2)]) n += x; n"
    assert value(v1, js, code) == 3


def test_timers_go_on_between_cells(v1: Api, js: str) -> None:
    v1.run(js, "let ticks = 0; setInterval(() => ticks++, 1);")
    value(v1, js, "await new Promise((r) => setTimeout(r, 30)); ticks > 3") is True


# ---- values, output, errors ----


def test_the_value_of_the_last_expression(v1: Api, js: str) -> None:
    r = v1.run(js, "({ a: [1, null], b: 'x' })")
    assert r["return_value"] == {"a": [1, None], "b": "x"}
    assert r["value"] == "{ a: [ 1, null ], b: 'x' }"
    for code, shown in [
        ("10n", "10n"),
        ("NaN", "NaN"),
        ("() => 1", "[Function (anonymous)]"),
        ("null", "null"),
    ]:
        assert v1.run(js, code)["value"] == shown
    for code in ("undefined", "let quiet = 1", "if (false) 1", ";"):
        r = v1.run(js, code)
        assert r["value"] is None and r["outputs"] == [], code
    assert value(v1, js, "await Promise.resolve(6)") == 6


def test_output_is_complete_and_in_order(v1: Api, js: str) -> None:
    r = v1.run(js, "console.log('a'); console.error('b'); process.stdout.write('no end'); 1")
    assert (r["stdout"], r["stderr"]) == ("a\nno end", "b\n")
    r = v1.run(js, "require('child_process').execSync('echo child', { stdio: 'inherit' }); 1")
    assert r["stdout"] == "child\n"
    r = v1.run(js, "for (let i = 0; i < 20000; i++) console.log(i);")
    assert r["stdout"].split() == [str(i) for i in range(20000)]
    r = v1.run(js, "process.stdout.write('kept'); while (true) {}", timeout=1)
    assert (r["status"], r["stdout"]) == ("timeout", "kept")


def test_errors_name_the_cell_and_the_line(v1: Api, js: str) -> None:
    v1.run(js, "function far() {\n  throw new TypeError('bad');\n}")
    r = v1.run(js, "\n\nfar()")
    assert (r["status"], r["exit_code"]) == ("failed", 1)
    assert r["error"]["type"] == "TypeError" and r["error"]["message"] == "bad"
    assert (
        r["error"]["traceback"] == "TypeError: bad\n    at far (<cell>:2:9)\n    at <cell-2>:3:1\n"
    )
    r = v1.run(js, "let a = 1;\nlet b = ;")
    assert r["error"]["type"] == "SyntaxError"
    assert r["error"]["traceback"].startswith("<cell-3>:2\nlet b = ;\n        ^\n")
    r = v1.run(js, "await (async () => { await 1; throw new RangeError('late') })()")
    assert r["error"]["type"] == "RangeError" and "<cell-4>:1" in r["error"]["traceback"]
    assert v1.run(js, "throw 5")["error"] == {"type": "number", "message": "5", "traceback": "5"}


def test_unhandled_rejections_are_reported(v1: Api, js: str) -> None:
    r = v1.run(js, "Promise.reject(new Error('lost')); 1")
    assert r["return_value"] == 1
    assert r["stderr"] == "Uncaught (in promise) Error: lost\n    at <cell>:1:16\n"
    v1.run(js, "setTimeout(() => { throw new Error('between') }, 20);")
    r = v1.run(js, "await new Promise((r) => setTimeout(r, 60)); 2")
    assert "Uncaught Error: between" in r["stderr"] and r["return_value"] == 2


def test_rich_values(v1: Api, js: str) -> None:
    r = v1.run(js, f"Buffer.from('{PNG}', 'base64')")
    (shown,) = forms(r)
    assert shown["image/png"]["data"] == PNG and shown["text/plain"]["data"].startswith("<Buffer")
    (shown,) = forms(v1.run(js, "({ html: '<b>x</b>' })"))
    assert shown["text/html"]["data"] == "<b>x</b>"
    code = "({ [Symbol.for('Jupyter.display')]: () => ({ 'text/markdown': '*a*', 'application/json': { b: 1 } }) })"
    (shown,) = forms(v1.run(js, code))
    assert shown["text/markdown"]["data"] == "*a*" and shown["application/json"]["data"] == {"b": 1}
    r = v1.run(js, "display({ svg: '<svg/>' }); display({ 'text/latex': 'x^2' }, { raw: true }); 3")
    assert [sorted(f) for f in forms(r)] == [
        ["image/svg+xml", "text/plain"],
        ["text/latex"],
        ["text/plain"],
    ]
    r = v1.run(js, "for (let i = 0; i < 70; i++) display(i);")
    assert len(r["outputs"]) == 64 and r["outputs_dropped"] is True


# ---- what comes with a cell ----


def test_variables_arguments_and_stdin_are_for_one_cell(v1: Api, js: str) -> None:
    v1.run(js, "process.env.A = 'mine';")
    code = "[process.env.A, process.env.B, process.argv.slice(2), require('fs').readFileSync(0, 'utf8')]"
    got = value(v1, js, code, env_vars={"A": "1", "B": "2"}, args=["x y"], stdin="in")
    assert got == ["1", "2", ["x y"], "in"]
    assert value(v1, js, code) == ["mine", None, [], ""]
    read = "let text = ''; for await (const part of process.stdin) text += part; text"
    assert value(v1, js, read, stdin="one") == "one"
    assert value(v1, js, read, stdin="two") == "two"


def test_handlers(v1: Api, js: str) -> None:
    code = "exports.handler = async (event, context) => ({ sum: event.a + 1, left: context.remaining_time_in_millis > 0 })"
    for n in (1, 2):
        r = v1.run(js, handler_code=code, event={"a": n})
        assert r["return_value"] == {"sum": n + 1, "left": True} and r["kind"] == "handler"
    r = v1.run(js, handler_code="module.exports = {}", event={})
    assert r["error"]["type"] == "NoHandler"


def test_changed_files_are_named(v1: Api, js: str) -> None:
    assert v1.run(js, "require('fs').writeFileSync('made.txt', '1');")["artifacts"] == ["made.txt"]


# ---- the end of a cell by others ----


@pytest.mark.parametrize(
    "loop",
    [
        "while (true) {}",
        "await null; while (true) {}",
        "await new Promise(() => {})",
        "await new Promise((r) => setTimeout(r, 600000))",
        "require('child_process').execSync('sleep 600')",
    ],
)
def test_an_interrupt_keeps_variables(v1: Api, js: str, loop: str) -> None:
    v1.run(js, "let x = 7;")
    execution = v1.start(js, f"console.log('on'); {loop}; console.log('never');")
    v1.wait_output(execution, "on")
    assert v1.post(f"/sessions/{js}/interrupt", {})["interrupted"]
    assert v1.wait_status(execution, "failed")
    r = v1.get(f"/executions/{execution}").body
    assert r["stdout"] == "on\n" and r["exit_code"] in (1, 130)
    assert value(v1, js, "x") == 7


def test_an_interrupt_never_hits_the_next_cell(v1: Api, js: str) -> None:
    for round_ in range(40):
        execution = v1.start(js, f"await new Promise((r) => setTimeout(r, {round_ % 8}));")
        v1.post(f"/sessions/{js}/interrupt", {})
        code = "await new Promise((r) => setTimeout(r, 10)); for (let i = 0; i < 1e6; i++); 'whole'"
        r = v1.run(js, code)
        assert r["return_value"] == "whole", (round_, r)
        v1.wait_status(execution, "completed", "failed")


def test_a_soft_timeout_keeps_variables_and_a_hard_one_replaces_them(v1: Api, js: str) -> None:
    r = v1.run(js, "let x = 1; while (true) {}", timeout=1)
    assert (r["status"], r["exit_code"]) == ("timeout", 124)
    assert value(v1, js, "x") == 1
    r = v1.run(js, "await 1; while (true) {}", timeout=1)
    assert r["status"] == "timeout"
    assert value(v1, js, "x") == 1, "also of code that goes on after an await"
    r = v1.run(
        js, "require('child_process').execSync(`trap '' INT; sleep 600; sleep 600`)", timeout=1
    )
    assert r["status"] == "timeout"
    assert value(v1, js, "typeof x") == "undefined"


def test_the_process_ends(v1: Api, js: str) -> None:
    r = v1.run(js, "let x = 1; console.log('last'); process.exit(5)")
    assert (r["status"], r["exit_code"], r["stdout"]) == ("failed", 5, "last\n")
    assert value(v1, js, "typeof x") == "undefined"
    r = v1.run(js, "process.abort()")
    assert (r["status"], r["termination"]["detail"]) == ("crashed", "killed by SIGABRT")
    assert value(v1, js, "1") == 1


def test_memory(v1: Api) -> None:
    s = v1.session(language="javascript", memory="256Mi")
    r = v1.run(s, "const all = []; while (true) all.push(Buffer.alloc(1 << 20, 1));")
    assert r["status"] == "memory_exceeded", r
    assert value(v1, s, "2") == 2


def test_reset_and_no_copies(v1: Api, js: str) -> None:
    v1.run(js, "let x = 1;")
    for what in ("branch", "checkpoint"):
        answer = v1.post(f"/sessions/{js}/contexts/0/{what}")
        check_error(answer, 409, "Unsupported", "javascript", "Node.js")
    assert value(v1, js, "x") == 1
    assert v1.post(f"/sessions/{js}/reset", {})["language"] == "javascript"
    assert value(v1, js, "typeof x") == "undefined"


def test_three_languages_in_one_session(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "x = 'python'; open('f', 'w').write('1')")
    v1.run(s, "x=shell; echo 2 >> f", language="shell")
    v1.run(s, "let x = 'js'; require('fs').appendFileSync('f', '3');", language="javascript")
    assert v1.run(s, "[x, open('f').read()]")["return_value"] == ["python", "12\n3"]
    assert v1.run(s, "echo $x", language="shell")["stdout"] == "shell\n"
    assert value(v1, s, "x", language="javascript") == "js"
    listed = v1.get(f"/sessions/{s}/contexts")["items"]
    assert [c["language"] for c in listed] == ["python", "shell", "javascript"]


# ---- hostile cells ----

FRAME = """
const frame = (type, body) => {
  const head = Buffer.alloc(24); head.writeUInt32LE(type, 0); head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body]);
};
const link = process._getActiveHandles().find((h) => h.fd === 4 || h._handle?.fd === 4);
"""


@pytest.mark.parametrize(
    "code,statuses",
    [
        # its own driver's socket to huskd: frames without the token
        (
            "const out = require('fs').openSync('/proc/' + process.ppid + '/fd/3', 'w');",
            {"failed"},
        ),
        ("link.write(frame(20, Buffer.alloc(0))); await new Promise(() => {});", {"timeout"}),
        ("link.write(frame(99, Buffer.alloc(8))); await new Promise(() => {});", {"crashed"}),
        ("link.write(frame(18, Buffer.alloc(64, 255))); await new Promise(() => {});", {"crashed"}),
        ("link.write(Buffer.alloc(64, 255)); await new Promise(() => {});", {"crashed"}),
        ("link.end(); await new Promise(() => {});", {"crashed"}),
        ("require('fs').closeSync(4); await new Promise(() => {});", {"crashed", "timeout"}),
        ("process.kill(process.ppid, 'SIGKILL'); await new Promise(() => {});", {"crashed"}),
        ("process.kill(process.ppid, 'SIGSTOP'); await new Promise(() => {});", {"timeout"}),
        (
            "process.removeAllListeners(); JSON.stringify = 1; Buffer.concat = 1; 1",
            {"completed", "failed", "crashed", "timeout"},
        ),
    ],
)
def test_a_cell_that_breaks_its_context_gets_a_fresh_one(
    v1: Api, code: str, statuses: set[str]
) -> None:
    s = v1.session()
    v1.run(s, "kept = 1")
    v1.run(s, "let x = 1;", language="javascript")
    r = v1.run(s, FRAME + code, language="javascript", timeout=1)
    assert r["status"] in statuses, r
    if r["status"] == "crashed":
        assert value(v1, s, "typeof x", language="javascript") == "undefined"
    assert value(v1, s, "1 + 1", language="javascript", timeout=5) == 2
    assert v1.run(s, "kept")["return_value"] == 1, "its neighbours notice nothing"


def test_a_flood_of_frames_ends_the_cell(v1: Api) -> None:
    s = v1.session(language="javascript", memory="512Mi")
    code = (
        FRAME
        + "for (;;) { link.write(frame(18, Buffer.alloc(1 << 20))); await new Promise(setImmediate); }"
    )
    r = v1.run(s, code, timeout=20)
    assert r["status"] in ("crashed", "failed", "memory_exceeded"), r
    assert value(v1, s, "1 + 1") == 2


def test_a_forged_answer_costs_its_context_at_most(v1: Api, js: str) -> None:
    """The real one arrives while the next cell runs: no cell gets the value of another."""
    forged = "frame(20, Buffer.from([21, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0]))"
    r = v1.run(js, FRAME + f"link.write({forged}); link.write({forged}); await null; 7")
    assert r["return_value"] is None
    results = [v1.run(js, f"await null; {n}") for n in range(5)]
    right = [r["return_value"] == n for n, r in enumerate(results)]
    lost = [r["context_restarted"] for r in results]
    assert all(a or b for a, b in zip(right, lost)) and right[-1], results
