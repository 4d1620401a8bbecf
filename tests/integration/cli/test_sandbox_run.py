# SPDX-License-Identifier: Apache-2.0
"""sandbox-run: handlers, exit codes, formats, terminals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import Any

import pytest
import yaml
from places import ROOT
from programs import ECHO, Program, Tripwire, option_names
from programs import type_after, run_handler, write_config, write_handler
from waiting import PATIENCE, wait_until

# ---- handlers ----


def test_handler_with_event_only(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    return event['x'] + 1\n")
    done = sandbox_run("h.py", "--event", '{"x": 41}')
    assert (done.code, done.text, done.error) == (0, "42\n", "")


def test_handler_with_context(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "def handler(event, context):\n"
        "    left = context.get_remaining_time_in_millis()\n"
        "    return [context.function_name, 0 < left <= 20000]\n",
    )
    document = run_handler(sandbox_run, "-c", '{"function_name": "f"}', "-t", "20")
    assert document["result"] == ["f", True]


def test_event_sources(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    (sandbox_run.cwd / "event.json").write_text('{"from": "file", "é": [1.5, null]}')
    assert run_handler(sandbox_run)["result"] == {"event": {}}
    assert run_handler(sandbox_run, "-e", '{"a": 1}')["result"] == {"event": {"a": 1}}
    assert run_handler(sandbox_run, "--event=[1]")["result"] == {"event": [1]}
    for flag in ("-f", "--event-file"):
        document = run_handler(sandbox_run, flag, "event.json")
        assert document["result"] == {"event": {"from": "file", "é": [1.5, None]}}


def test_the_context_is_lambdas(sandbox_run: Program) -> None:
    """Every attribute that handlers for AWS Lambda may read is there, whatever was sent."""
    write_handler(
        sandbox_run,
        "def handler(event, context):\n"
        "    identity, client = context.identity, context.client_context\n"
        "    return {\n"
        "        'names': [context.function_name, context.function_version],\n"
        "        'log': [context.log_group_name, context.log_stream_name],\n"
        "        'ids': context.aws_request_id == context.request_id,\n"
        "        'none': [context.invoked_function_arn, context.tenant_id],\n"
        "        'identity': [identity.cognito_identity_id, identity.cognito_identity_pool_id],\n"
        "        'client': client and [client.client.app_title, client.client.installation_id,\n"
        "                              client.custom, client.env],\n"
        "    }\n",
    )
    plain = run_handler(sandbox_run)["result"]
    assert plain["names"] == ["unknown-function", "$LATEST"] and plain["ids"] is True
    assert plain["log"][0] == "/lambda-sandbox/logs" and len(plain["log"][1]) == 36
    assert plain["none"] == plain["identity"] == [None, None] and plain["client"] is None
    sent = {
        "identity": {"cognito_identity_id": "who"},
        "client_context": {"client": {"app_title": "app"}, "custom": {"k": 1}},
    }
    given = run_handler(sandbox_run, "--context", json.dumps(sent))["result"]
    assert given["identity"] == ["who", None]
    assert given["client"] == ["app", None, {"k": 1}, {}]


@pytest.mark.parametrize(
    "context",
    [
        {"identity": {"x": 1}},
        {"identity": 1},
        {"client_context": {"x": 1}},
        {"client_context": {"client": {"x": 1}}},
        {"nothing": 1},
    ],
)
def test_fields_that_lambda_does_not_have(sandbox_run: Program, context: Any) -> None:
    write_handler(sandbox_run, "def handler(event, context):\n    return 1\n")
    done = sandbox_run("h.py", "--context", json.dumps(context))
    assert done.code == 1 and "context" in done.error, done


def test_another_function(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "def handler(event):\n    return 'wrong'\n"
        "async def lambda_handler(event, context):\n    return event['a']\n",
    )
    for name in ("lambda_handler", "h.lambda_handler"):
        assert run_handler(sandbox_run, "--handler", name, "-e", '{"a": 5}')["result"] == 5
    missing = sandbox_run("h.py", "--handler", "h.missing")
    assert missing.code == 3 and "missing(event, context)" in missing.error, missing
    for bad in ("other.lambda_handler", "h.", "1x", "a b", "h.lambda-handler", ""):
        assert sandbox_run("h.py", "--handler", bad).code == 1, bad


def test_any_awaitable_is_awaited(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import asyncio\n"
        "class Later:\n"
        "    def __await__(self):\n"
        "        yield from asyncio.sleep(0).__await__()\n"
        "        return 'waited'\n"
        "def handler(event):\n    return Later()\n",
    )
    assert run_handler(sandbox_run)["result"] == "waited"


def test_context_file(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event, context):\n    return context.function_name\n")
    (sandbox_run.cwd / "c.json").write_text('{"function_name": "from file"}')
    assert run_handler(sandbox_run, "--context-file", "c.json")["result"] == "from file"


def test_numbers_keep_their_digits(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run, "def handler(event):\n    return [0.1, 2**90, 1e300, -0.0, event['n'] + 1]\n"
    )
    done = sandbox_run("h.py", "-e", '{"n": 123456789012345678901234567890}', "--format", "json")
    assert done.code == 0
    assert json.loads(done.out)["result"][:2] == [0.1, 2**90]
    assert json.loads(done.out)["result"][4] == 123456789012345678901234567891
    assert " 0.1,\n" in done.text


def test_options_before_and_after_the_script(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    assert sandbox_run("--format", "json", "h.py", "-e", "1").code == 0


# ---- exit codes ----


def test_handler_raises(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    raise ValueError('bad thing')\n")
    done = sandbox_run("h.py")
    assert (done.code, done.text) == (1, "")
    assert done.error.startswith("Traceback (most recent call last):\n")
    assert done.error.endswith("ValueError: bad thing\n")
    assert 'File "h.py", line 2, in handler' in done.error
    document = run_handler(sandbox_run)
    assert document["result"] is None
    assert document["error"]["type"] == "ValueError"
    assert document["error"]["message"] == "bad thing"
    assert "Traceback" in document["error"]["traceback"]


@pytest.mark.parametrize(
    "text",
    [
        "def handler(event):\n    return object()\n",
        "def handler(event):\n    return {1, 2}\n",
        "def handler(event):\n    return '\\ud800'\n",
        "def handler(event):\n    import sys; sys.exit(0)\n",
        "def handler(event):\n    import sys; sys.exit(3)\n",
        "def handler(event):\n    import os; os._exit(0)\n",
        "def handler(event):\n    import ctypes; ctypes.string_at(0)\n",
        "def handler(event):\n    return compile('def (', 'x', 'exec')\n",
        "main = lambda event: compile('def (', 'x', 'exec')\nhandler = main\n",
        "1 / 0\n",
    ],
)
def test_general_failures(sandbox_run: Program, text: str) -> None:
    write_handler(sandbox_run, text)
    document = run_handler(sandbox_run)
    assert document["exit_code"] == 1
    assert document["result"] is None
    assert document["error"]["type"]


def test_out_of_memory(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    return len(bytearray(1 << 30))\n")
    assert run_handler(sandbox_run)["exit_code"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "def handler(event:\n",
        "def handler(event):\nreturn 1\n",
        "if 1:\n\tx = 1\n        y = 2\n",
        "for x, in y\n",
        "x = 1\n",
        "",
        "handler = 5\n",
        "def Handler(event):\n    return 1\n",
    ],
)
def test_code_that_does_not_load(sandbox_run: Program, text: str) -> None:
    write_handler(sandbox_run, text)
    document = run_handler(sandbox_run)
    assert document["exit_code"] == 3
    assert document["error"]["type"] in (
        "SyntaxError",
        "IndentationError",
        "TabError",
        "NoHandler",
    )


@pytest.mark.parametrize(
    ("byte", "why"),
    [(b"\xff", "is not UTF-8 text"), (b"\0", "has a NUL byte, which Python does not compile")],
)
def test_script_that_is_not_text(sandbox_run: Program, byte: bytes, why: str) -> None:
    (sandbox_run.cwd / "h.py").write_bytes(b"# " + byte + b"\ndef handler(e): return 1\n")
    done = sandbox_run("h.py")
    assert done.code == 3
    assert done.error == f"sandbox-run: h.py {why}\n"


def test_timeout(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import time\ndef handler(event):\n    print('before')\n    time.sleep(60)\n",
    )
    done = sandbox_run("h.py", "--timeout", "1")
    assert (done.code, done.text) == (4, "before\n")
    assert done.error.count("\n") == 1
    document = run_handler(sandbox_run, "-e", '{"__timeout": 0.5}')
    assert document["exit_code"] == 4
    assert document["stdout"] == "before\n"
    assert document["error"]["type"] == "Timeout"


def test_sandbox_that_cannot_start(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    done = sandbox_run("h.py", env={"HUSK_LAUNCHER": "/nonexistent/husk-launcher"})
    assert (done.code, done.text) == (5, "")
    assert done.error.startswith("sandbox-run: ") and done.error.count("\n") == 1


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(sandbox_run: Program, signo: signal.Signals) -> None:
    write_handler(
        sandbox_run,
        "import time\ndef handler(event):\n    print('up', flush=True)\n    time.sleep(60)\n",
    )
    running = sandbox_run.start_up("h.py")
    running.send_signal(signo)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert err == b"sandbox-run: interrupted\n"


# ---- wrong command lines and files ----


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 1),
        (["h.txt"], 1),
        (["h.py", "more.py"], 1),
        (["h.py", "--unknown"], 1),
        (["h.py", "--timeout", "0"], 1),
        (["h.py", "--timeout", "-5"], 1),
        (["h.py", "--timeout", "1.5"], 1),
        (["h.py", "--timeout", "99999999999999999999"], 1),
        (["h.py", "--format", "xml"], 1),
        (["h.py", "--log-level", "LOUD"], 1),
        (["h.py", "-v", "-q"], 1),
        (["h.py", "-e", "{}", "-f", "x"], 1),
        (["h.py", "-c", "{}", "--context-file", "x"], 1),
        (["missing.py"], 2),
        (["folder.py"], 2),
        (["h.py", "-e", "{"], 2),
        (["h.py", "-e", ""], 2),
        (["h.py", "-e", "{'a': 1}"], 2),
        (["h.py", "-e", '{"a": 1, "a": 2}'], 2),
        (["h.py", "-e", "NaN"], 2),
        (["h.py", "-e", '{"__timeout": "5"}'], 2),
        (["h.py", "-f", "missing.json"], 2),
        (["h.py", "-f", "h.py"], 2),
        (["h.py", "-c", "[]"], 2),
        (["h.py", "--context-file", "missing.json"], 2),
        (["h.py", "-o", "/nonexistent/out"], 2),
        (["h.py", "-o", "folder.py"], 2),
    ],
)
def test_wrong_command_line(
    sandbox_run: Program, tripwire: Tripwire, args: list[str], code: int
) -> None:
    write_handler(sandbox_run, ECHO)
    write_handler(sandbox_run, ECHO, "h.txt")
    (sandbox_run.cwd / "folder.py").mkdir()
    done = sandbox_run(*args, env=tripwire.env)
    assert (done.code, done.text) == (code, "")
    assert done.error.startswith("sandbox-run: ")
    assert done.error.count("\n") == 1
    assert not tripwire.tripped(), "a launcher was started"


@pytest.mark.parametrize("value", ["-1", "0", "1.5", "604801", "99999999999999999999"])
def test_time_limit_out_of_range(sandbox_run: Program, value: str) -> None:
    write_handler(sandbox_run, ECHO)
    done = sandbox_run("h.py", "-t", value)
    assert done.code == 1
    assert f"--timeout '{value}' is not a whole number from 1 to 604800" in done.error


def test_the_tripwire_works(sandbox_run: Program, tripwire: Tripwire) -> None:
    write_handler(sandbox_run, ECHO)
    assert sandbox_run("h.py", env=tripwire.env).code == 5
    wait_until(tripwire.tripped, "the launcher was started")


def test_script_larger_than_one_mebibyte(sandbox_run: Program, tripwire: Tripwire) -> None:
    write_handler(sandbox_run, "#" * (1 << 20) + "\n" + ECHO)
    assert sandbox_run("h.py", env=tripwire.env).code == 2
    assert not tripwire.tripped()


# ---- formats ----


PRINTING = (
    "import sys\n"
    "def handler(event):\n"
    "    print('said')\n"
    "    print('warned', file=sys.stderr)\n"
    "    return {'text': 'a: b', 'yes': ['no', 1, None, True], 'empty': {}, 'line': 'x\\ny'}\n"
)
RESULT = {"text": "a: b", "yes": ["no", 1, None, True], "empty": {}, "line": "x\ny"}


def check_document(document: Any) -> None:
    assert set(document) == {"exit_code", "stdout", "stderr", "result", "metrics"}
    assert document["exit_code"] == 0
    assert (document["stdout"], document["stderr"]) == ("said\n", "warned\n")
    assert document["result"] == RESULT
    metrics = document["metrics"]
    assert set(metrics) == {"duration_ms", "cpu_time_ms", "memory_peak_mb"}
    assert metrics["duration_ms"] > 0
    assert metrics["memory_peak_mb"] > 0
    assert metrics["cpu_time_ms"] > 0


def test_json_and_yaml(sandbox_run: Program) -> None:
    write_handler(sandbox_run, PRINTING)
    as_json = sandbox_run("h.py", "--format", "json")
    check_document(json.loads(as_json.out))
    as_yaml = sandbox_run("h.py", "--format", "yaml")
    check_document(yaml.safe_load(as_yaml.out))
    assert (as_json.error, as_yaml.error) == ("", "")


def test_pretty(sandbox_run: Program) -> None:
    write_handler(sandbox_run, PRINTING)
    done = sandbox_run("h.py", "--format", "pretty")
    assert (done.code, done.error) == (0, "warned\n")
    said, _, rest = done.text.partition("\n")
    assert said == "said"
    assert rest == json.dumps(RESULT, indent=2) + "\n"


def test_pretty_shows_output_while_the_handler_runs(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import time\ndef handler(event):\n    print('now')\n    time.sleep(50)\n",
    )
    running = sandbox_run.start("h.py")
    assert running.stdout is not None
    assert running.stdout.readline() == b"now\n"
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE)


def test_quiet(sandbox_run: Program) -> None:
    write_handler(sandbox_run, PRINTING)
    done = sandbox_run("h.py", "-q", "--profile")
    assert (done.text, done.error) == (json.dumps(RESULT, indent=2) + "\n", "")
    check_document(run_handler(sandbox_run, "-q"))
    write_handler(sandbox_run, "def handler(event):\n    raise KeyError('k')\n")
    done = sandbox_run("h.py", "--quiet")
    assert (done.code, done.error) == (1, "sandbox-run: KeyError: 'k'\n")


def test_verbose(sandbox_run: Program) -> None:
    write_handler(sandbox_run, PRINTING)
    document = run_handler(sandbox_run, "--verbose")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["timestamp"])
    assert document["result_type"] == "dict"
    done = sandbox_run("h.py", "-v")
    assert "Result type: dict\n" in done.error
    for value, name in [("1", "int"), ("1.5", "float"), ("None", "NoneType"), ("True", "bool"),
                        ("''", "str"), ("[]", "list")]:  # fmt: skip
        write_handler(sandbox_run, f"def handler(event):\n    return {value}\n")
        assert run_handler(sandbox_run, "-v")["result_type"] == name


def test_profile(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    return 1\n")
    for flag in ("-p", "--profile"):
        done = sandbox_run("h.py", flag)
        assert done.text == "1\n"
        assert re.fullmatch(
            r"Duration: +[\d.]+ ms\nCPU time: +[\d.]+ ms\nPeak memory: +[\d.]+ MiB\n", done.error
        )


def test_output_file(sandbox_run: Program) -> None:
    write_handler(sandbox_run, PRINTING)
    target = sandbox_run.cwd / "out"
    done = sandbox_run("h.py", "--format", "json", "-o", "out")
    assert (done.code, done.text) == (0, "")
    check_document(json.loads(target.read_text()))
    done = sandbox_run("h.py", "--output", "out")
    assert (done.text, done.error) == ("", "warned\n")
    assert target.read_text() == "said\n" + json.dumps(RESULT, indent=2) + "\n"
    assert sandbox_run("h.py", "--output", "out", "--quiet").error == ""


def test_bytes_that_are_not_text(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import sys\n"
        "def handler(event):\n"
        "    sys.stdout.buffer.write(b'a\\xff\\xc3\\x00\\x1b\\x9bz')\n"
        "    return 'caf\\u00e9 \\x1b\\x9b\\x7f'\n",
    )
    for kind in ("json", "yaml"):
        done = sandbox_run("h.py", "--format", kind)
        document = json.loads(done.out) if kind == "json" else yaml.safe_load(done.out)
        assert document["stdout"] == "a\ufffd\ufffd\x00\x1b\ufffdz"
        assert document["result"] == "café \x1b\x9b\x7f"
        assert b"\x1b" not in done.out and b"\xc2\x9b" not in done.out and b"\x7f" not in done.out


def test_too_much_output_fails_loudly(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    print('x' * (20 << 20))\n")
    document = run_handler(sandbox_run)
    assert document["exit_code"] == 1
    assert document["error"]["type"] == "Stopped"


def test_result_cannot_forge_the_document(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        'def handler(event):\n    print(\'"}, "exit_code": 9\')\n    return \'"}, "result": 1\'\n',
    )
    document = run_handler(sandbox_run)
    assert document["result"] == '"}, "result": 1'


# ---- terminals, help ----


def test_errors_are_red_on_terminals_only(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    raise ValueError('\\x1b]0;x\\x07')\n")
    seen = sandbox_run.in_terminal("h.py")
    assert seen.code == 1
    assert seen.shown.startswith(b"\x1b[31mTraceback")
    assert b"\\x1b]0;x\\x07" in seen.shown
    assert b"\x1b]" not in seen.shown
    assert b"\x1b[31m" not in sandbox_run.in_terminal("h.py", env={"NO_COLOR": "1"}).shown
    write_config(sandbox_run, {"cli": {"enable_colors": False}})
    assert b"\x1b" not in sandbox_run.in_terminal("h.py").shown


def test_terminal_output_is_harmless(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import sys\n"
        "def handler(event):\n"
        "    print('\\x1b]52;c;ZXZpbA==\\x07')\n"
        "    sys.stdout.buffer.write(b'\\x9b2J\\n')\n"
        "    return '\\x1b]0;x\\x07 \\x9b \\x7f'\n",
    )
    cases: list[list[str]] = [[], ["--format", "json"], ["--format", "yaml"], ["-q"]]
    for args in cases:
        seen = sandbox_run.in_terminal("h.py", *args)
        assert seen.code == 0
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f\x9b]", seen.shown), args


def test_ctrl_c_in_a_terminal(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run, "import time\ndef handler(event):\n    print('up')\n    time.sleep(60)\n"
    )
    assert sandbox_run.in_terminal("h.py", react=type_after(b"up")).code == 130


def test_terminal_does_not_get_typed_into(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import ctypes, os\n"
        "def handler(event):\n"
        "    libc, done = ctypes.CDLL(None), []\n"
        "    fds = [0, 1, 2]\n"
        "    for path in ('/dev/tty', '/dev/console'):\n"
        "        try: fds.append(os.open(path, os.O_RDWR))\n"
        "        except OSError: pass\n"
        "    for fd in fds:\n"
        "        for request in (0x5412, 0x541c, 0x5423):\n"
        "            for high in (0, 1 << 32):\n"
        "                ask = ctypes.c_ulong(request | high)\n"
        "                if libc.ioctl(fd, ask, ctypes.c_char_p(b'x')) == 0: done.append(fd)\n"
        "    return done\n",
    )
    seen = sandbox_run.in_terminal("h.py")
    assert (seen.code, seen.shown) == (0, b"[]\n")


def test_version_and_help(sandbox_run: Program, tripwire: Tripwire) -> None:
    version = (ROOT / "VERSION").read_text().strip()
    assert sandbox_run("--version").text == f"sandbox-run {version}\n"
    done = sandbox_run("--help", env=tripwire.env)
    assert done.code == 0
    assert done.text.startswith("Usage: sandbox-run")
    assert sandbox_run("-h").text == done.text
    manual = (ROOT / "man" / "sandbox-run.1").read_text().replace("\\-", "-")
    page = (ROOT / "docs" / "cli.md").read_text()
    for option in option_names(done.text):
        assert option in manual, option
        assert option in page, option


# ---- surroundings ----


def test_min_isolation(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    for level in ("full", "userns"):
        assert run_handler(sandbox_run, "--min-isolation", level)["result"] == {"event": {}}
    done = sandbox_run("h.py", "--min-isolation", "none")
    assert done.code == 1 and "--min-isolation 'none' is not known" in done.error


def test_a_home_that_is_no_folder(sandbox_run: Program) -> None:
    """As service accounts have it."""
    write_handler(sandbox_run, ECHO)
    done = sandbox_run("h.py", env={"HOME": "/dev/null"})
    assert (done.code, done.error) == (0, "")


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_lost_words_are_no_success(sandbox_run: Program, flag: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sandbox_run.path, flag], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"sandbox-run: cannot write output\n")


def test_reader_that_goes_away(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    while True: print('y' * 1000)\n")
    running = sandbox_run.start("h.py")
    assert running.stdout is not None and running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b"sandbox-run: cannot write output: Broken pipe\n"
    assert running.wait(PATIENCE) == 1
    running.stderr.close()
