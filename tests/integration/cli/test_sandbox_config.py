# SPDX-License-Identifier: Apache-2.0
"""sandbox-run: .sandboxrc.json, the time limit and logging."""
from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from places import ROOT
from programs import ECHO, Program, Tripwire, run_handler, write_config, write_handler


def test_configuration_is_honoured(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run, "import time\ndef handler(event):\n    time.sleep(event.get('s', 60))\n"
    )
    write_config(
        sandbox_run,
        {"cli": {"default_timeout": 1, "default_format": "json", "show_profile": True}},
    )
    with ThreadPoolExecutor() as pool:  # each takes longer than the limit
        default = pool.submit(sandbox_run, "h.py")
        flag = pool.submit(sandbox_run, "h.py", "--timeout", "30", "-e", '{"s": 1.5}')
        event = pool.submit(sandbox_run, "h.py", "-e", '{"s": 1.5, "__timeout": 30}')
    done = default.result()
    assert done.code == 4
    assert json.loads(done.out)["exit_code"] == 4
    assert (flag.result().code, event.result().code) == (0, 0)
    done = sandbox_run("h.py", "--format", "pretty", "-e", '{"s": 0}')
    assert done.text == "null\n"
    assert "Peak memory" in done.error


def test_smaller_of_flag_and_event_applies(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "import time\ndef handler(event):\n    time.sleep(60)\n")
    with ThreadPoolExecutor() as pool:  # each takes a second
        flag = pool.submit(sandbox_run, "h.py", "-t", "1", "-e", '{"__timeout": 30}')
        event = pool.submit(sandbox_run, "h.py", "-t", "30", "-e", '{"__timeout": 1}')
    assert (flag.result().code, event.result().code) == (4, 4)


def test_time_limit_is_what_the_handler_sees(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "def handler(event, context):\n    return context.get_remaining_time_in_millis()\n",
    )
    cases: list[tuple[list[str], int]] = [
        ([], 300),
        (["-t", "40"], 40),
        (["-e", '{"__timeout": 50}'], 50),
        (["-e", '{"__timeout": 0}'], 300),
        (["-e", '{"__timeout": -1}', "-t", "40"], 40),
        (["-e", '{"__timeout": 1e9}'], 3600),
        (["-e", '{"__timeout": 1e9}', "-t", "70"], 70),
    ]
    for args, seconds in cases:
        left = run_handler(sandbox_run, *args)["result"]
        assert (seconds - 30) * 1000 < left <= seconds * 1000, args


def test_memory_limit(sandbox_run: Program) -> None:
    write_handler(sandbox_run, "def handler(event):\n    return len(bytearray(100 << 20))\n")
    assert run_handler(sandbox_run)["result"] == 100 << 20
    write_config(sandbox_run, {"sandbox": {"memory_limit": 65536}})
    assert run_handler(sandbox_run)["exit_code"] == 1


def test_context_tells_the_memory_limit(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run, "def handler(event, context):\n    return context.memory_limit_in_mb\n"
    )
    assert run_handler(sandbox_run)["result"] == 256
    write_config(sandbox_run, {"sandbox": {"memory_limit": 65536}})
    assert run_handler(sandbox_run)["result"] == 64
    assert run_handler(sandbox_run, "-c", '{"function_name": "f"}')["result"] == 64
    assert run_handler(sandbox_run, "-c", '{"memory_limit_in_mb": 7}')["result"] == 7


def test_process_limit(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run,
        "import threading, time\n"
        "def handler(event):\n"
        "    n = 0\n"
        "    try:\n"
        "        for n in range(50):\n"
        "            threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        "    except RuntimeError:\n"
        "        pass\n"
        "    return n\n",
    )
    write_config(sandbox_run, {"sandbox": {"max_user_progress": 10}})
    assert run_handler(sandbox_run)["result"] < 10


def test_working_directory_before_home(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    write_config(sandbox_run, {"cli": {"default_format": "yaml"}}, home=True)
    assert yaml.safe_load(sandbox_run("h.py").out)["exit_code"] == 0
    write_config(sandbox_run, {"cli": {"default_format": "json"}})
    assert json.loads(sandbox_run("h.py").out)["exit_code"] == 0
    write_config(sandbox_run, {})  # an empty one still hides that of the home directory
    assert sandbox_run("h.py").text == json.dumps({"event": {}}, indent=2) + "\n"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sandbox": {"allow_network": True}}, "sandbox.allow_network"),
        ({"sandbox": {"cpu_quota": 0}}, "sandbox.cpu_quota"),
        ({"sandbox": {"memory_limit": "1G"}}, "sandbox.memory_limit"),
        ({"sandbox": {"memory_limit": 1}}, "memory_limit: must be a whole number from 16384"),
        ({"sandbox": {"memroy_limit": 4}}, "sandbox.memroy_limit"),
        ({"cli": {"default_timeout": -1}}, "cli.default_timeout"),
        ({"cli": {"default_format": "xml"}}, "cli.default_format"),
        ({"logging": {"level": "loud"}}, "logging.level"),
        ({"login": {}}, "login"),
        ([], "object"),
    ],
)
def test_wrong_configuration(
    sandbox_run: Program, tripwire: Tripwire, settings: Any, named: str
) -> None:
    write_handler(sandbox_run, ECHO)
    write_config(sandbox_run, settings)
    done = sandbox_run("h.py", env=tripwire.env)
    assert (done.code, done.text) == (2, "")
    assert done.error.startswith("sandbox-run: .sandboxrc.json: ")
    assert named in done.error
    assert done.error.count("\n") == 1
    assert not tripwire.tripped()


def test_configuration_that_is_not_json(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    (sandbox_run.cwd / ".sandboxrc.json").write_text("{cli: 1}")
    done = sandbox_run("h.py")
    assert done.code == 2
    assert "line 1, column" in done.error


def test_log_level(sandbox_run: Program) -> None:
    write_handler(sandbox_run, ECHO)
    assert sandbox_run("h.py").error == ""
    assert "run.end status=completed" in sandbox_run("h.py", "--log-level", "INFO").error
    debug = sandbox_run("h.py", "--log-level", "DEBUG").error
    assert "run.start" in debug and "run.end" in debug
    write_config(sandbox_run, {"logging": {"level": "INFO"}})
    assert "run.end" in sandbox_run("h.py").error
    assert sandbox_run("h.py", "--log-level", "ERROR").error == ""


def test_documented_settings_are_the_known_ones() -> None:
    source = (ROOT / "src" / "cli" / "sandbox_run" / "sandbox_config.c").read_text()
    page = (ROOT / "docs" / "cli.md").read_text()
    known = {f"{s}.{k}" for s, k in re.findall(r'\{"(\w+)", "(\w+)", \w+\}', source)}
    assert len(known) == 11
    for name in known:
        assert f"`{name}`" in page, name
