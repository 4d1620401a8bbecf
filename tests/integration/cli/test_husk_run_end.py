# SPDX-License-Identifier: Apache-2.0
"""husk run: the ways in which programs end, and what husk exits with."""
from __future__ import annotations

import json
import re
import signal

import pytest
from programs import Program
from waiting import PATIENCE


# ---- exit codes and endings ----


def test_exit_code_of_the_program(husk: Program) -> None:
    assert husk("run", "raise SystemExit(7)").code == 7
    assert husk("run", "import sys; sys.exit()").code == 0
    done = husk("run", "import sys; sys.exit('reason')")
    assert (done.code, done.error) == (1, "reason\n")


def test_exception_in_code(husk: Program) -> None:
    done = husk("run", "def f():\n    1 / 0\nf()")
    assert (done.code, done.text) == (1, "")
    assert done.error.startswith("Traceback (most recent call last):\n")
    assert done.error.endswith("ZeroDivisionError: division by zero\n")
    assert done.error.count("Traceback") == 1
    assert "runner.py" not in done.error


def test_exception_in_script_is_shown_once(husk: Program) -> None:
    (husk.cwd / "bad.py").write_text("x = {}\nx['key']\n")
    done = husk("run", "bad.py")
    assert done.code == 1
    assert done.error.count("KeyError: 'key'") == 1
    assert 'File "bad.py", line 2' in done.error
    assert "runner.py" not in done.error


def test_syntax_error(husk: Program) -> None:
    done = husk("run", "def (:")
    assert done.code == 1
    assert done.error.count("SyntaxError") == 1


def test_timeout(husk: Program) -> None:
    done = husk(
        "run", "--timeout", "500ms", "import time; print('before', flush=True); time.sleep(60)"
    )
    assert (done.code, done.text) == (124, "before\n")
    assert re.fullmatch(r"husk: .*time.*--timeout raises the limit\n", done.error)


def test_timeout_of_a_busy_process_tree(husk: Program) -> None:
    done = husk(
        "run", "--lang", "sh", "--timeout", "500ms", "sleep 60 & (while :; do :; done) & wait"
    )
    assert done.code == 124


def test_out_of_memory(husk: Program) -> None:
    done = husk("run", "--memory", "64M", "x = bytearray(500 << 20)")
    assert done.code == 137
    assert re.search(r"^husk: .*memory.*--memory raises the limit$", done.error, re.M)


def test_disk_full(husk: Program) -> None:
    done = husk("run", "--disk", "2M", "open('big', 'wb').write(b'x' * (20 << 20))")
    assert done.code not in (0, 125)
    assert "--disk raises the limit" in done.error


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["-f", "x:a", "-f", "x:a/b", "print(1)"], "put file a/b: Not a directory"),
        (["-f", "x:a", "-f", "x:a/b", "s.py"], "put file a/b: Not a directory"),
        (["--lang", "shell", "-f", "x:a", "-f", "x:a/b", "id"], "put file a/b: Not a directory"),
        (["-f", "x:" + "a" * 300, "1"], f"put file {'a' * 300}: File name too long"),
        (["--pids", "1", "--lang", "shell", "id"],
         "cannot fork the interpreter: too many processes for the box"),
    ],
)  # fmt: skip
def test_a_run_that_the_box_refuses(husk: Program, args: list[str], why: str) -> None:
    (husk.cwd / "x").write_text("x")
    (husk.cwd / "s.py").write_text("print(1)")
    done = husk("run", *args)
    assert (done.code, done.text, done.error) == (125, "", f"husk: {why}\n")
    done = husk("run", "--json", *args)
    assert (done.code, json.loads(done.out)["error"]["message"]) == (125, why)


def test_a_program_may_exit_as_a_shell_that_cannot_start(husk: Program) -> None:
    done = husk("run", "raise SystemExit(126)")
    assert (done.code, done.error) == (126, "")


def test_too_much_output(husk: Program) -> None:
    done = husk("run", "--max-output", "64K", "while True: print('y' * 100)")
    assert done.code not in (0, 125)
    assert "--max-output raises the limit" in done.error
    assert len(done.out) >= 64 << 10


def test_output_beyond_what_is_kept_is_shown(husk: Program) -> None:
    done = husk("run", "print('z' * 5_000_000)")
    assert done.code == 0
    assert len(done.out) == 5_000_001


def test_pids_limit(husk: Program) -> None:
    code = (
        "import threading, time\n"
        "try:\n"
        "    for i in range(60): threading.Thread(target=time.sleep, args=(1,)).start()\n"
        "    print('started all')\n"
        "except RuntimeError as e: print('refused')\n"
        "import os; os._exit(0)"
    )
    assert "refused" in husk("run", "--pids", "10", code).text
    assert "started all" in husk("run", "--pids", "100", code).text


def test_crash(husk: Program) -> None:
    done = husk("run", "import ctypes; ctypes.string_at(0)")
    assert done.code == 128 + signal.SIGSEGV
    assert done.error == "husk: the program was killed by SIGSEGV\n"
    crash = husk("run", "--lang", "sh", "kill -SEGV $$")
    assert crash.code == 128 + signal.SIGSEGV


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(husk: Program, signo: signal.Signals) -> None:
    running = husk.start_up("run", "print('up', flush=True)\nimport time\ntime.sleep(60)")
    running.send_signal(signo)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert err == b"husk: interrupted\n"


def test_interrupt_of_a_program_that_ignores_signals(husk: Program) -> None:
    code = (
        "import signal, time\n"
        "for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(1)"
    )
    running = husk.start_up("run", code)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 130


def test_box_has_a_clean_signal_state(husk: Program) -> None:
    code = (
        "import signal\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
        "print([s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) != signal.SIG_DFL])"
    )
    assert husk("run", code).text == "set()\n[]\n"
    pipe = husk("run", "--lang", "sh", "--timeout", "20", "yes | head -1; echo ${PIPESTATUS[0]}")
    assert pipe.text == "y\n141\n"


def test_killed_husk_leaves_nothing(husk: Program) -> None:
    running = husk.start_up("run", "print('up', flush=True)\nimport time\ntime.sleep(60)")
    running.kill()
    running.communicate(timeout=PATIENCE)
    # The fixture checks that no process is left.
