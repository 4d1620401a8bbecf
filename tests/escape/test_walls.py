# SPDX-License-Identifier: Apache-2.0
"""Walls seen from outside: what only the host can check, or has to take part in."""
from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from escape_canary import Canary
from escape_run import ROOT, LiveBox, command, run_json
from escape_world import World

pytestmark = pytest.mark.usefixtures("clean_host")

HOLD = "import time\nprint('READY', flush=True)\ntime.sleep(50)"
SMALL = {"--memory": "128M", "--disk": "16M", "--pids": "32"}
FIRST_ID = 2147483648  # as docs/security-model.md says


def test_the_leftover_check_sees_a_live_box(canary: Canary) -> None:
    """Otherwise a clean host after every run would mean nothing."""
    before = World.now()
    with LiveBox(HOLD, SMALL, canary.parent_env()):
        left = "\n".join(before.leftovers())
    for kind in ("process ", "cgroup ", "namespace "):
        assert kind in left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_box_dies_with_the_husk_that_started_it(canary: Canary, number: int) -> None:
    """S7: whichever way husk ends, clean_host finds nothing of the box afterwards."""
    box = LiveBox(HOLD, SMALL, canary.parent_env())
    assert box.end(number) != 0


def test_a_box_dies_with_its_launcher(canary: Canary) -> None:
    """S7: the launcher alone could lose a box; when it is killed, husk says so."""
    with LiveBox(HOLD, SMALL, canary.parent_env()) as box:
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in box.pids()}
        launchers = [pid for pid, name in names.items() if name == "husk-launcher"]
        assert launchers, names
        os.kill(min(launchers), signal.SIGKILL)
        assert box.husk.wait(10) == 125


# ---- E1: ids


def id_maps(pid: int) -> list[tuple[int, int, int]]:
    """(inside, outside, count) of both maps, as the host sees them."""
    rows = []
    for name in ("uid_map", "gid_map"):
        for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
            inside, outside, count = (int(word) for word in line.split())
            rows.append((inside, outside, count))
    return rows


def foreign_users(pids: set[int]) -> Iterator[int]:
    """Processes that live in another user namespace than ours."""
    own = os.readlink("/proc/self/ns/user")
    for pid in pids:
        try:
            if os.readlink(f"/proc/{pid}/ns/user") != own:
                yield pid
        except OSError:
            continue


def test_ids_of_boxes_are_private_and_unprivileged(canary: Canary) -> None:
    env = canary.parent_env()
    blocks = []
    with LiveBox(HOLD, SMALL, env) as one, LiveBox(HOLD, SMALL, env) as two:
        for box in (one, two):
            innermost = []
            for pid in foreign_users(box.pids()):
                rows = id_maps(pid)
                assert rows and all(outside >= FIRST_ID for _, outside, _ in rows), rows
                status = Path(f"/proc/{pid}/status").read_text()
                ids = [
                    line.split()[1:] for line in status.splitlines() if line[:4] in ("Uid:", "Gid:")
                ]
                assert all(int(word) >= FIRST_ID for row in ids for word in row), ids
                if status.split("NSpid:")[1].split("\n")[0].split()[1:]:
                    innermost.append(rows)
            assert innermost, "the box was not found"
            blocks.append(innermost[-1])
    for _, start, count in blocks[0]:
        for _, other, other_count in blocks[1]:
            assert start + count <= other or other + other_count <= start, "two boxes share ids"


def test_receipt_names_the_id_block_in_use(canary: Canary) -> None:
    run = run_json(SMALL, "print(open('/proc/self/uid_map').read())", env=canary.parent_env())
    receipt = run.result["receipt"]
    assert receipt["id_block_start"] >= FIRST_ID
    assert receipt["id_block_size"] >= 1


# ---- E3: descriptors

LIST_FDS = {
    "python": """
import os
for name in os.listdir('/proc/self/fd'):
    try:
        print(name, os.readlink('/proc/self/fd/' + name))
    except OSError:
        pass
""",
    "shell": 'for entry in /proc/$$/fd/*; do echo "${entry##*/} $(readlink "$entry")"; done',
    "javascript": """
const fs = require("fs");
for (const name of fs.readdirSync("/proc/self/fd")) {
  try { console.log(name, fs.readlinkSync("/proc/self/fd/" + name)); } catch {}
}
""",
}
ANONYMOUS = ("pipe:", "socket:", "anon_inode:", "/dev/null", "/memfd:")
OWN_FILES = ("/workspace/", "/tmp/")


@pytest.mark.parametrize("language", sorted(LIST_FDS))
def test_no_descriptor_of_the_starter_is_open_inside(canary: Canary, language: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1024), hard))
    opened = [os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open(canary.secret_file, os.O_RDWR)]
    opened += [os.open(canary.secret_dir, os.O_PATH) for _ in range(298)]
    try:
        run = run_json(
            {**SMALL, "--memory": "256M", "--lang": language},
            LIST_FDS[language],
            env=canary.parent_env(),
            pass_fds=tuple(opened),
        )
    finally:
        for fd in opened:
            os.close(fd)
    lines = run.result["stdout"].splitlines()
    found = dict(line.split(" ", 1) for line in lines if " " in line)
    assert {"0", "1", "2"} <= set(found), run.summary()
    strange = {n: t for n, t in found.items() if not t.startswith(ANONYMOUS + OWN_FILES)}
    assert not strange
    sockets = [n for n, target in found.items() if int(n) > 2 and target.startswith("socket:")]
    if language == "python":
        assert set(found) <= {"0", "1", "2", *sockets} and len(sockets) <= 1, found


# ---- E8: terminal

TYPE_INTO_TERMINAL = """
import ctypes, os
libc = ctypes.CDLL(None)
fds = [0, 1, 2]
try:
    fds.append(os.open('/dev/tty', os.O_RDWR))
except OSError:
    pass
for fd in fds:
    for request in (0x5412, 0x5412 | 1 << 32):
        for letter in b'owned\\n':
            libc.ioctl(fd, ctypes.c_ulong(request), bytes([letter]))
"""
SHELL_AROUND = 'stty -echo; "$@"; IFS= read -r -t 1 line; echo "TYPED[$line]"'


def in_terminal(line: list[str], env: dict[str, str]) -> str:
    """Runs a command as the foreground job of a fresh terminal, then shows what is typed there."""
    master, slave = os.openpty()
    with subprocess.Popen(
        ["setsid", "-c", "-w", "bash", "-c", SHELL_AROUND, "bash", *line],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
    ):
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 4096)
            except OSError:
                break
            shown += data
    os.close(master)
    return shown.decode("utf-8", "replace")


def test_nothing_is_typed_into_the_starters_terminal(canary: Canary) -> None:
    env = canary.parent_env()
    unboxed = in_terminal(["/usr/bin/python3", "-c", TYPE_INTO_TERMINAL], env)
    if Path("/proc/sys/dev/tty/legacy_tiocsti").read_text().strip() == "1":
        assert "TYPED[owned]" in unboxed, "without a box the attack works on this kernel"
    boxed = in_terminal(command(SMALL, TYPE_INTO_TERMINAL), env)
    assert "TYPED[]" in boxed, boxed


SEQUENCES = {
    "output": "import os\nos.write(1, b'\\x1b]52;c;AAAA\\x07\\x9bc')\nos.write(2, b'\\x1bPq')",
    "value": "type('T', (), {'__repr__': lambda self: '\\x1b]52;c;AAAA\\x07'})()",
    "error": "raise ValueError('\\x1b]52;c;AAAA\\x07')",
    "error type": "raise type('\\x1b]52;c;AAAA\\x07', (Exception,), {})",
}


@pytest.mark.parametrize("where", sorted(SEQUENCES))
def test_control_sequences_are_shown_not_obeyed(canary: Canary, where: str) -> None:
    """E9: nothing that a program prints, returns or raises reaches the terminal as a command."""
    shown = in_terminal(command(SMALL, SEQUENCES[where]), canary.parent_env())
    assert "AAAA" in shown and "\x1b" not in shown and "\x9b" not in shown, repr(shown)


# ---- E17: crash handler

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
CRASHES = {
    "python": ("python", "import ctypes; ctypes.string_at(0)"),
    "python child": ("python", "import os\nif os.fork() == 0: os.abort()\nos.wait()"),
    "python thread": (
        "python",
        "import ctypes, threading\nthreading.Thread(target=ctypes.string_at, args=(0,)).start()",
    ),
    "shell": ("shell", "kill -SEGV $$"),
    "javascript": ("javascript", "process.abort()"),
}


def test_no_crash_inside_starts_the_hosts_core_handler(canary: Canary, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    marker = tmp_path / "marker"
    handler = tmp_path / "handler"
    handler.write_text(f'#!/bin/sh\necho "$1" >> {marker}\ncat > /dev/null\n')
    handler.chmod(0o755)
    before = CORE_PATTERN.read_text()
    try:
        CORE_PATTERN.write_text(f"|{handler} %P")
        for name, (language, code) in CRASHES.items():
            flags = {**SMALL, "--memory": "256M", "--lang": language}
            run = run_json(flags, code, env=canary.parent_env())
            assert run.result["status"] in ("crashed", "completed"), (name, run.summary())
        control = subprocess.Popen([sys.executable, "-c", "import os; os.abort()"])
        control.wait(10)
    finally:
        CORE_PATTERN.write_text(before)
    assert marker.exists(), "the handler did not run for a crash outside: this test proves nothing"
    assert marker.read_text().split() == [str(control.pid)]


SHOW_CORE_LIMIT = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
NOBODY = 65534


def run_without_core_dumps(
    canary: Canary, user: int, flags: dict[str, str], *words: str
) -> subprocess.CompletedProcess[bytes]:
    """A hard limit of 0, on a host that pipes core dumps to a program."""
    before = CORE_PATTERN.read_text()
    try:
        CORE_PATTERN.write_text("|/bin/false %P")
        return subprocess.run(
            command(flags, *words, SHOW_CORE_LIMIT),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=canary.parent_env(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            user=user,
            group=user,
            extra_groups=[],
            timeout=20,
            check=False,
        )
    finally:
        CORE_PATTERN.write_text(before)


def test_where_the_core_limit_cannot_be_one_byte_nothing_runs(canary: Canary) -> None:
    """A hard limit of 0 can only be raised with a right that not every root has; at 0 handlers
    run.
    """
    done = run_without_core_dumps(canary, 0, SMALL)
    if done.returncode == 125:
        assert b"core dump limit" in done.stderr and done.stdout == b"", done
    else:
        assert done.stdout == b"(1, 1)\n", done


def test_without_root_a_core_limit_that_is_missing_is_named(canary: Canary) -> None:
    done = run_without_core_dumps(canary, NOBODY, SMALL)
    assert (done.returncode, done.stdout) == (125, b"") and b"core dump limit" in done.stderr, done
    done = run_without_core_dumps(canary, NOBODY, {**SMALL, "--min-isolation": "userns"}, "--json")
    result = json.loads(done.stdout)
    assert result["stdout"] == "(0, 0)\n"
    assert "core dump limit" in result["receipt"]["missing"].split(", ")


# ---- E18: strings of the host

SHOW_ALL = """
import os, platform, socket, sys
print('NODE', platform.node(), socket.gethostname(), os.uname().nodename)
print(sys.path, sys.flags, dict(os.environ), os.listdir('/'))
for pid in [name for name in os.listdir('/proc') if name.isdigit()]:
    for name in ('mountinfo', 'mounts', 'environ', 'cmdline', 'cgroup', 'comm', 'maps', 'status'):
        try:
            print(open('/proc/%s/%s' % (pid, name), 'rb').read().decode('latin-1'))
        except OSError:
            pass
for folder, folders, files in os.walk('/etc'):
    folders[:] = set(folders) - {'ssl', 'fonts', 'alternatives'}
    for name in files:
        try:
            print(name, open(os.path.join(folder, name), 'rb').read(4000).decode('latin-1'))
        except OSError:
            pass
print('ALL SHOWN')
1 / 0
"""


def test_nothing_inside_names_the_host(canary: Canary) -> None:
    run = run_json(SMALL, SHOW_ALL, env=canary.parent_env())
    text = run.result["stdout"] + run.result["stderr"] + str(run.result["error"])
    assert "NODE husk husk husk" in text and "ALL SHOWN" in text, run.summary()
    words = [
        str(ROOT),
        str(Path.home()) + "/",
        str(canary.secret_dir),
        os.environ["HUSK_TEST_TMPDIR"],
    ]
    machine_id = Path("/etc/machine-id")
    if machine_id.exists():
        words.append(machine_id.read_text().strip())
    if len(socket.gethostname()) > 3:
        words.append(socket.gethostname())
    # One line of the mount table says where husk is installed: its runtime is mounted from there.
    shown = re.sub(r"(?m)^\d+ \d+ \d+:\d+ \S+/husk /husk ro,.*$", "", text)
    assert [word for word in words if word in shown] == []
