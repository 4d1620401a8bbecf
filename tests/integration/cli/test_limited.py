# SPDX-License-Identifier: Apache-2.0
"""husk limited: limits that hold, signals that arrive, exit codes and reports."""
from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from limited_client import PYTHON, Limited, needs_root, run
from places import BIN
from programs import MIB, Program, type_after
from waiting import PATIENCE

# ---- exit codes ----


@pytest.mark.parametrize("code", [0, 1, 7, 125, 255])
def test_exit_code_is_the_programs(husk: Program, code: int) -> None:
    got, report, _, err = run(husk, "--best-effort", "--", "/bin/sh", "-c", f"exit {code}")
    assert (got, err) == (code, "")
    assert report[1]["exit_code"] == code
    assert report[1]["signal"] == 0


def test_signal_that_kills_it_is_told(husk: Program) -> None:
    got, report, _, _ = run(husk, "--best-effort", "--", "/bin/sh", "-c", "kill -USR1 $$")
    assert got == 128 + signal.SIGUSR1
    assert report[1]["signal"] == signal.SIGUSR1
    assert report[1]["exit_code"] == got


def test_report_has_just_these_lines(husk: Program) -> None:
    limited = Limited.start(husk, "--best-effort", "--", "/bin/sh", "-c", "echo $$")
    _, report, out, _ = limited.end()
    assert [line["event"] for line in report] == ["started", "ended"]
    assert report[0]["pid"] == int(out)
    assert set(report[0]) == {"event", "pid", "limits"}
    assert set(report[1]) == {
        "event",
        "exit_code",
        "signal",
        "oom_kills",
        "peak_memory_bytes",
        "cpu_ms",
    }
    assert report[1]["peak_memory_bytes"] > 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "needs a program"),
        (["--memory", "much", "--", "true"], "--memory 'much' is not a size"),
        (["--memory", "1M", "--", "true"], "memory is 1048576, must be between"),
        (["--cpus", "0", "--", "true"], "--cpus must be more than 0"),
        (["--pids", "-1", "--", "true"], "--pids '-1' is not a whole number"),
        (["--name", "A b", "--", "true"], "--name 'A b' must be"),
        (["--report-fd", "77", "--", "true"], "--report-fd 77 is not open"),
        (["--memroy", "1G", "--", "true"], "did you mean --memory?"),
        (["--", "/no/such/program"], "cannot run /no/such/program: No such file"),
        (["--", "/etc/passwd"], "cannot run /etc/passwd: Permission denied"),
    ],
)
def test_what_cannot_be_done_is_one_line(husk: Program, args: list[str], says: str) -> None:
    if args[:1] == ["--"]:
        args = ["--best-effort", *args]
    done = husk("limited", *args)
    assert (done.code, done.text) == (125, "")
    assert says in done.error
    assert done.error.count("\n") == 1


def test_report_on_a_descriptor_that_cannot_be_written(husk: Program) -> None:
    with open("/dev/null", "rb") as source:
        fd = source.fileno()
        done = subprocess.run(
            [husk.path, "limited", "--report-fd", str(fd), "--", "true"],
            pass_fds=[fd],
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 125
    assert b"is open for reading only" in done.stderr


def test_a_reader_of_reports_that_goes_ends_nothing(husk: Program) -> None:
    limited = Limited.start(husk, "--best-effort", "--", "/bin/sh", "-c", "read x; exit 3")
    os.close(limited.report_fd)
    assert limited.process.wait(PATIENCE) == 3


# ---- what the program gets ----


def test_program_has_callers_descriptors_environment_and_folder(husk: Program) -> None:
    read, write = os.pipe()
    script = (
        f"import os; os.write({write}, b'here'); print(os.getcwd(), os.environ['MARK']);"
        "print(sorted(int(f) for f in os.listdir('/proc/self/fd')))"
    )
    report_read, report_write = os.pipe()
    try:
        done = subprocess.run(
            # fmt: off
            [husk.path, "limited", "--best-effort", "--report-fd", str(report_write), "--", PYTHON, "-c", script],
            # fmt: on
            pass_fds=[write, report_write],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=husk.cwd,
            env=husk.environment({"MARK": "of the caller"}),
            check=True,
        )
        assert os.read(read, 10) == b"here"
    finally:
        for fd in (read, write, report_read, report_write):
            os.close(fd)
    first, second = done.stdout.decode().splitlines()
    assert first == f"{husk.cwd} of the caller"
    # One more is the folder that it lists. The report is not there, nor anything of husk's own.
    open_fds = set(json.loads(second))
    assert {0, 1, 2, write} < open_fds and len(open_fds) == 5
    assert report_write not in open_fds


def test_end_of_a_socket_is_seen_when_the_program_closes_it(husk: Program) -> None:
    """husk itself keeps no copy of what the program inherited."""
    read, write = os.pipe()
    script = f"import os, sys; os.close({write}); sys.stdin.read()"
    process = subprocess.Popen(
        [husk.path, "limited", "--best-effort", "--", PYTHON, "-c", script],
        pass_fds=[write],
        stdin=subprocess.PIPE,
        env=husk.environment(),
    )
    os.close(write)
    try:
        assert os.read(read, 1) == b""  # would wait for the end of the program otherwise
        assert process.poll() is None
    finally:
        os.close(read)
        process.communicate(timeout=PATIENCE)


# ---- limits ----


@needs_root
def test_memory_limit_kills(husk: Program) -> None:
    code, report, _, err = run(
        husk, "--memory", "64M", "--name", "hungry", "--", PYTHON, "-c", "bytearray(300 << 20)"
    )
    assert code == 137
    assert (
        err
        == "husk: hungry was killed: it reached its memory limit of 64 MiB (raise it with --memory)\n"
    )
    assert report[0]["limits"] == "cgroup"
    assert report[1]["oom_kills"] >= 1
    assert report[1]["signal"] == signal.SIGKILL
    assert report[1]["peak_memory_bytes"] <= 64 * MIB


@needs_root
def test_memory_limit_ends_the_whole_program(husk: Program) -> None:
    """It is a child that is killed; what would be left of the program ends too."""
    script = (
        "import subprocess, sys, time\n"
        "subprocess.run([sys.executable, '-c', 'bytearray(300 << 20)'])\n"
        "time.sleep(600)\n"
    )
    code, report, _, _ = run(husk, "--memory", "64M", "--", PYTHON, "-c", script)
    assert code == 137
    assert report[1]["oom_kills"] >= 1


@needs_root
def test_memory_is_shared_by_all_processes(husk: Program) -> None:
    """Four times 30 MiB do not fit into 64, though each of them does."""
    script = (
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(30 << 20); time.sleep(600)\n"
        "os.wait(); time.sleep(600)\n"
    )
    code, report, _, _ = run(husk, "--memory", "64M", "--", PYTHON, "-c", script)
    assert (code, report[1]["oom_kills"] >= 1) == (137, True)


@needs_root
def test_cpu_limit_throttles(husk: Program) -> None:
    """Two processes that want a core each get a fifth of one together."""
    script = (
        "import os, time\n"
        "os.fork()\n"
        "end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end: pass\n"
    )
    code, report, _, _ = run(husk, "--cpus", "0.2", "--", PYTHON, "-c", script)
    assert code == 0
    # 300 ms are meant; twice that is far below the 1,500 that one of them alone would take.
    assert report[1]["cpu_ms"] < 600


@needs_root
def test_pids_limit_refuses_forks(husk: Program) -> None:
    script = (
        "import os, time\n"
        "n = 0\n"
        "try:\n"
        "    while n < 50:\n"
        "        if os.fork() == 0: time.sleep(600)\n"
        "        n += 1\n"
        "except BlockingIOError: print(n)\n"
    )
    code, _, out, _ = run(husk, "--pids", "8", "--", PYTHON, "-c", script)
    assert (code, out) == (0, "7\n")


@needs_root
def test_without_limits_there_are_none(husk: Program) -> None:
    script = "bytearray(600 << 20); print('fine')"
    code, _, out, _ = run(husk, "--", PYTHON, "-c", script)
    assert (code, out) == (0, "fine\n")


# ---- signals ----


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on_once(husk: Program, which: signal.Signals) -> None:
    script = (
        "import signal, sys, time\n"
        "seen = []\n"
        f"signal.signal({int(which)}, lambda n, f: seen.append(n))\n"
        "print('ready', flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "print(seen)\n"
        "sys.exit(9)\n"
    )
    limited = Limited.start(husk, "--best-effort", "--", PYTHON, "-c", script)
    assert limited.process.stdout is not None
    assert limited.process.stdout.readline() == b"ready\n"
    limited.process.send_signal(which)
    code, _, out, _ = limited.end()
    assert (code, out) == (9, f"[{int(which)}]\n")


def test_ctrl_c_reaches_the_program_once(husk: Program) -> None:
    script = (
        "import signal, sys, time\n"
        "seen = []\n"
        "signal.signal(signal.SIGINT, lambda n, f: seen.append(n))\n"
        "print('ready', flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "print('seen', len(seen))\n"
    )
    command = ("limited", "--best-effort", "--", PYTHON, "-c", script)
    done = husk.in_terminal(*command, react=type_after(b"ready"))
    assert done.code == 0
    assert b"seen 1\n" in done.shown


def test_runs_from_a_caller_that_ignores_dead_children(husk: Program) -> None:
    code = subprocess.run(
        # fmt: off
        ["env", "--ignore-signal=CHLD", husk.path, "limited", "--best-effort", "--", "/bin/sh", "-c", "exit 5"],
        # fmt: on
        env=husk.environment(),
        timeout=PATIENCE,
        check=False,
    ).returncode
    assert code == 5


def test_help_lists_every_option() -> None:
    text = subprocess.run(
        [BIN / "husk", "limited", "--help"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    for option in ("memory", "cpus", "pids", "best-effort", "name", "report-fd", "help"):
        assert f"--{option}" in text
