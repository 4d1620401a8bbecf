# SPDX-License-Identifier: Apache-2.0
"""husk run: what to run, and its streams."""
from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from programs import MIB, Program, Tripwire
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
    assert "with --lang" in done.error


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
