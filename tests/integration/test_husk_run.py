# SPDX-License-Identifier: Apache-2.0
"""husk run: programs, their streams, endings and files."""
from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import MIB, Program, Tripwire
from waiting import PATIENCE


# ---- what to run ----


def test_code_prints_and_shows_its_last_value(husk: Program) -> None:
    done = husk("run", "print('out'); 6 * 7")
    assert (done.code, done.text, done.error) == (0, "out\n42\n", "")


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("None", ""),
        ("x = 5", ""),
        ("'text'", "'text'\n"),
        ("print('a', end=''); 1", "a\n1\n"),
        ("for i in range(2): print(i)", "0\n1\n"),
        ("", ""),
    ],
)
def test_values(husk: Program, code: str, shown: str) -> None:
    done = husk("run", code)
    assert (done.code, done.text) == (0, shown)


@pytest.mark.parametrize(
    ("n", "error"), [(MIB - 2, ""), (MIB - 1, "husk: the value is longer than 1 MiB and was cut\n")]
)
def test_a_value_that_is_cut_says_so(husk: Program, n: int, error: str) -> None:
    done = husk("run", f"'x' * {n}")
    assert (done.code, len(done.text), done.error) == (0, MIB + 1, error)


def test_a_syntax_error_while_it_runs_does_not_run_it_again(husk: Program) -> None:
    done = husk("run", "print('once') or eval('1 +')")
    assert done.code == 1 and done.text == "once\n" and "SyntaxError" in done.error


def test_value_can_be_switched(husk: Program) -> None:
    (husk.cwd / "s.py").write_text("print('script')\n3 + 4\n")
    assert husk("run", "--no-value", "print(1); 5").text == "1\n"
    assert husk("run", "s.py").text == "script\n"
    assert husk("run", "--value", "s.py").text == "script\n7\n"


def test_script_with_arguments(husk: Program) -> None:
    (husk.cwd / "s.py").write_text("import sys\nprint(sys.argv)\nprint(__name__)\n")
    done = husk("run", "s.py", "first", "--json", "-x", "--")
    assert done.code == 0
    assert done.text == "['s.py', 'first', '--json', '-x', '--']\n__main__\n"


def test_code_gets_arguments(husk: Program) -> None:
    assert husk("run", "import sys; sys.argv[1:]", "a", "-b").text == "['a', '-b']\n"


def test_script_with_byte_order_mark(husk: Program) -> None:
    (husk.cwd / "bom.py").write_bytes(b"\xef\xbb\xbfprint('fine')\n")
    done = husk("run", "bom.py")
    assert (done.code, done.text) == (0, "fine\n")


@pytest.mark.parametrize("word", ["shell", "sh", "bash"])
def test_shell(husk: Program, word: str) -> None:
    done = husk("run", "--lang", word, 'echo "$1 $#"; exit 3', "one", "two")
    assert (done.code, done.text, done.error) == (3, "one 2\n", "")


def test_shell_gets_every_argument(husk: Program) -> None:
    args = [str(i) for i in range(5000)]
    done = husk("run", "--lang", "shell", "echo $#; echo ${@: -1}", *args)
    assert (done.code, done.text) == (0, "5000\n4999\n")


@pytest.mark.parametrize("word", ["python", "py"])
def test_python_by_name(husk: Program, word: str) -> None:
    assert husk("run", "--lang", word, "1 + 1").text == "2\n"


@pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="node is not installed")
@pytest.mark.parametrize("word", ["javascript", "js", "node"])
def test_javascript(husk: Program, word: str) -> None:
    done = husk("run", "--lang", word, "console.log('hi', process.argv.slice(2)); 6 * 7", "a")
    assert (done.code, done.text) == (0, "hi [ 'a' ]\n42\n")


def test_language_by_extension(husk: Program) -> None:
    (husk.cwd / "s.sh").write_text('echo "shell $1"\n')
    (husk.cwd / "s.txt").write_text("echo text\n")
    assert husk("run", "s.sh", "x").text == "shell x\n"
    assert husk("run", "--lang", "sh", "s.txt").text == "text\n"
    done = husk("run", "s.txt")
    assert done.code == 125
    assert "say --lang" in done.error


def test_code_from_stdin(husk: Program) -> None:
    done = husk(
        "run", "-", "arg", stdin=b"import sys\nprint(sys.argv[1], sys.stdin.read() == '')\n"
    )
    assert (done.code, done.text) == (0, "arg True\n")


def test_code_of_one_mebibyte_and_no_more(husk: Program, tripwire: Tripwire) -> None:
    tail = b"\nprint('end')"
    whole = b"#" * (MIB - len(tail)) + tail
    assert husk("run", "-", stdin=whole).text == "end\n"
    (husk.cwd / "large.py").write_bytes(whole)
    assert husk("run", "large.py").text == "end\n"
    (husk.cwd / "larger.py").write_bytes(b"#" + whole)
    for done in (
        husk("run", "larger.py", env=tripwire.env),
        husk("run", "-", stdin=b"#" + whole, env=tripwire.env),
    ):
        assert done.code == 125
        assert "larger than 1 MiB" in done.error
    assert not tripwire.tripped()


def test_long_shell_code(husk: Program) -> None:
    code = b"# " + b"x" * 500_000 + b"\necho end\n"
    assert husk("run", "--lang", "sh", "-", stdin=code).text == "end\n"


# ---- standard streams ----


def test_stdin_reaches_the_program(husk: Program) -> None:
    data = os.urandom(300_000)
    done = husk("run", "import sys, hashlib; hashlib.sha256(sys.stdin.buffer.read()).hexdigest()",
                stdin=data)  # fmt: skip
    assert done.text == f"'{hashlib.sha256(data).hexdigest()}'\n"


def test_program_that_ignores_stdin(husk: Program) -> None:
    assert husk("run", "1", stdin=b"x" * 2_000_000).text == "1\n"


def test_closed_stdin_is_empty(husk: Program) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" run "import sys; sys.stdin.read()" <&-', husk.path],
        capture_output=True,
        cwd=husk.cwd,
        env=husk.environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"''\n")


def test_closed_stdout_is_reported(husk: Program) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" run "print(1)" >&-', husk.path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=husk.cwd,
        env=husk.environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 125
    assert b"cannot write output" in done.stderr


def test_binary_output_is_unchanged(husk: Program) -> None:
    code = "import sys; o = sys.stdout.buffer; o.write(bytes(range(256)) * 1000); o.flush()"
    done = husk("run", "--no-value", code)
    assert done.code == 0
    assert done.out == bytes(range(256)) * 1000


def test_both_streams_stay_apart(husk: Program) -> None:
    done = husk("run", "import sys; print('o'); print('e', file=sys.stderr)")
    assert (done.out, done.err) == (b"o\n", b"e\n")


def test_output_comes_while_the_program_runs(husk: Program) -> None:
    running = husk.start("run", "import time; print('now', flush=True); time.sleep(50)")
    assert running.stdout is not None
    assert running.stdout.readline() == b"now\n"
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 130


def test_reader_that_goes_away_ends_the_program(husk: Program) -> None:
    running = husk.start("run", "while True: print('y' * 1000)")
    assert running.stdout is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.wait(PATIENCE) == 141
    assert running.stderr is not None
    running.stderr.close()


def test_full_disk_behind_stdout_is_reported(husk: Program) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [husk.path, "run", "print(1)"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=husk.cwd,
            env=husk.environment(),
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 125
    assert b"cannot write output: No space left on device" in done.stderr


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
    running = husk.start("run", "print('up', flush=True)\nimport time\ntime.sleep(60)")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
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
    running = husk.start("run", code)
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
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
    running = husk.start("run", "print('up', flush=True)\nimport time\ntime.sleep(60)")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.kill()
    running.communicate(timeout=PATIENCE)
    # The fixture checks that no process is left.


# ---- environment, files, mounts ----


def test_environment(husk: Program) -> None:
    code = "import os; [os.environ.get(k) for k in ('A', 'B', 'COPIED', 'SECRET')]"
    done = husk(
        "run", "--env", "A=1", "-e", "B=x=y z", "--env", "COPIED", code,
        env={"COPIED": "yes", "SECRET": "no"},
    )  # fmt: skip
    assert done.text == "['1', 'x=y z', 'yes', None]\n"


def test_files_in(husk: Program) -> None:
    data = os.urandom(100_000)
    (husk.cwd / "in.bin").write_bytes(data)
    (husk.cwd / "empty").write_bytes(b"")
    done = husk(
        "run", "--file", "in.bin", "--file", "in.bin:sub/dir/other", "-f", "empty",
        "import hashlib, os; h = lambda p: hashlib.sha256(open(p, 'rb').read()).hexdigest();"
        "print(h('in.bin')); print(h('sub/dir/other')); os.path.getsize('empty')",
    )  # fmt: skip
    digest = hashlib.sha256(data).hexdigest()
    assert done.text == f"{digest}\n{digest}\n0\n"


def test_modules_named_like_those_of_the_runner(husk: Program) -> None:
    runtimes = Path(__file__).resolve().parents[2] / "runtimes" / "python"
    names = [path.stem for path in runtimes.glob("*.py")]
    assert "artifacts" in names
    for name in names:
        (husk.cwd / f"{name}.py").write_text(f"MINE = '{name}'")
    code = "".join(f"import {name}; print({name}.MINE)\n" for name in names)
    done = husk("run", *(word for name in names for word in ("--file", f"{name}.py")), code)
    assert (done.code, done.text.split()) == (0, names), done.error


def test_files_out(husk: Program) -> None:
    code = (
        "import os; os.mkdir('d'); open('a', 'wb').write(bytes(range(256)) * 5000);"
        "open('d/b', 'w').write('text'); open('empty', 'w').close()"
    )
    (husk.cwd / "results").mkdir()
    done = husk("run", "--no-value", "--out", "a", "-o", "d/b:results/c", "--out", "d/b", "--out",
                "empty", code)  # fmt: skip
    assert (done.code, done.error) == (0, "")
    assert (husk.cwd / "a").read_bytes() == bytes(range(256)) * 5000
    assert (husk.cwd / "results" / "c").read_text() == "text"
    assert (husk.cwd / "b").read_text() == "text"
    assert (husk.cwd / "empty").read_bytes() == b""


def test_missing_out_file(husk: Program) -> None:
    done = husk("run", "--out", "nothing", "1")
    assert done.code == 125
    assert done.text == "1\n"
    assert done.error.startswith("husk: --out nothing: ")
    assert not (husk.cwd / "nothing").exists()
    assert husk("run", "--out", "nothing", "raise SystemExit(9)").code == 9


def test_out_file_that_leads_elsewhere_stays_in_the_box(husk: Program) -> None:
    secret = husk.cwd / "secret"
    secret.write_text("of the host")
    husk("run", "--no-value", "--out", "link", f"import os; os.symlink({str(secret)!r}, 'link')")
    assert not (husk.cwd / "link").exists()
    husk("run", "--no-value", "--out", "etc", "import os; os.symlink('/etc/shadow', 'etc')")
    assert not (husk.cwd / "etc").exists()


def test_mount_read_only(husk: Program) -> None:
    shared = husk.cwd / "shared"
    shared.mkdir(mode=0o755)
    (shared / "data").write_text("from the host")
    code = (
        "print(open('/data/data').read())\n"
        "try: open('/data/new', 'w')\n"
        "except OSError as e: print(type(e).__name__)"
    )
    husk.cwd.chmod(0o755)
    done = husk("run", "--mount", f"{shared}:/data:ro", code)
    assert done.code == 0, done.error
    assert done.text.splitlines()[0] == "from the host"
    assert done.text.splitlines()[1] in ("OSError", "PermissionError")
    assert sorted(p.name for p in shared.iterdir()) == ["data"]


def test_mount_of_one_file_by_relative_path(husk: Program) -> None:
    (husk.cwd / "one:file").write_text("single")
    done = husk("run", "--mount", "one:file:/opt/one:ro", "open('/opt/one').read()")
    assert (done.code, done.text) == (0, "'single'\n"), done.error


def test_mount_writable(husk: Program) -> None:
    shared = husk.cwd / "shared"
    shared.mkdir()
    if os.geteuid() == 0:
        os.chown(shared, 1000, 1000)  # what belongs to host id 0 is never writable in a box
    done = husk("run", "--mount", "shared:/data", "open('/data/new', 'w').write('hello')")
    assert done.code == 0, done.error
    assert (shared / "new").read_text() == "hello"


# ---- json, receipt ----


def test_json_of_a_success(husk: Program) -> None:
    done = husk(
        "run", "--json", "import sys; print('o'); print('e', file=sys.stderr); {'a': [1, 2]}"
    )
    assert (done.code, done.error) == (0, "")
    assert done.out.count(b"\n{") == 0
    r = json.loads(done.out)
    assert (r["status"], r["exit_code"]) == ("completed", 0)
    assert (r["stdout"], r["stderr"]) == ("o\n", "e\n")
    assert r["metrics"]["duration_ms"] > 0
    assert r["metrics"]["peak_memory_mb"] > 0
    assert r["termination"]["cause"] == "exit"
    assert r["receipt"]["network"] == "none"
    assert r["receipt"]["isolation"] in ("full", "userns")


@pytest.mark.parametrize(
    ("args", "code", "status", "cause"),
    [
        (["raise SystemExit(3)"], 3, "failed", "exit"),
        (["1 / 0"], 1, "failed", "exit"),
        (["--timeout", "300ms", "import time; time.sleep(60)"], 124, "timeout", "timeout"),
        (["--memory", "64M", "x = bytearray(500 << 20)"], 137, "memory_exceeded", "oom"),
    ],
)
def test_json_of_failures(
    husk: Program, args: list[str], code: int, status: str, cause: str
) -> None:
    done = husk("run", "--json", *args)
    assert (done.code, done.error) == (code, "")
    r = json.loads(done.out)
    assert (r["status"], r["termination"]["cause"]) == (status, cause)


def test_json_of_an_exception(husk: Program) -> None:
    r = json.loads(husk("run", "--json", "undefined_name").out)
    assert r["error"]["type"] == "NameError"
    assert "undefined_name" in r["error"]["message"]
    assert r["error"]["traceback"].endswith("is not defined\n")


def test_json_of_binary_output(husk: Program) -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\xff\\x00\\x1b\\x9b\\xc2\\x9bz')"
    done = husk("run", "--no-value", "--json", code)
    assert b"\xc2\x9b" not in done.out
    assert json.loads(done.out)["stdout"] == "a\ufffd\x00\x1b\ufffd\x9bz"


def test_json_keeps_one_mebibyte_unless_told(husk: Program) -> None:
    code = "print('x' * 3_000_000)"
    short = json.loads(husk("run", "--json", code).out)
    assert len(short["stdout"]) == MIB
    assert short["stdout_truncated"] is True
    whole = json.loads(husk("run", "--json", "--max-output", "4M", code).out)
    assert len(whole["stdout"]) == 3_000_001
    assert whole["stdout_truncated"] is False


def test_json_still_saves_files(husk: Program) -> None:
    done = husk("run", "--json", "--out", "f", "open('f', 'w').write('x')")
    assert done.code == 0
    assert (husk.cwd / "f").read_text() == "x"


def test_receipt(husk: Program) -> None:
    done = husk("run", "--receipt", "--memory", "128M", "--cpus", "0.5", "--pids", "33", "--disk",
                "32M", "--timeout", "9", "1")  # fmt: skip
    assert (done.code, done.text) == (0, "1\n")
    assert "network none" in done.error
    assert "128 MiB memory, 32 MiB disk, 9000 ms, 0.5 cores, 33 processes" in done.error
    assert all(line.startswith("husk: ") for line in done.error.splitlines())


def test_every_limit_reaches_the_receipt(husk: Program) -> None:
    done = husk("run", "--json", "--memory", "128M", "--cpus", "0.25", "--pids", "40", "--disk", "16M",
                "--timeout", "7", "--max-output", "2M", "1")  # fmt: skip
    limits = json.loads(done.out)["receipt"]["limits"]
    assert limits["memory_bytes"] == 128 * MIB
    assert limits["disk_bytes"] == 16 * MIB
    assert limits["timeout_ms"] == 7000
    assert limits["pids"] == 40
    assert limits["output_bytes"] == 2 * MIB


def test_min_isolation(husk: Program) -> None:
    assert husk("run", "--min-isolation", "userns", "1").text == "1\n"
    full = husk("run", "--min-isolation", "full", "1")
    complete = husk("doctor").code == 0
    assert full.code == (0 if complete else 125)


def test_there_is_no_network(husk: Program) -> None:
    code = (
        "import socket\n"
        "try: socket.create_connection(('127.0.0.1', 22), 2); print('reached')\n"
        "except OSError: print('no')"
    )
    assert husk("run", code).text == "no\n"
