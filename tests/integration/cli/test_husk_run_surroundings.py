# SPDX-License-Identifier: Apache-2.0
"""husk run: environment, files and mounts of programs, and the receipt that tells of them."""
from __future__ import annotations

import hashlib
import json
import os

import pytest
from places import ROOT
from programs import MIB, Program


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
    runtimes = ROOT / "runtimes" / "python"
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
