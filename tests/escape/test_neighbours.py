# SPDX-License-Identifier: Apache-2.0
"""Boxes beside and after one another: none sees, starves or inherits from another."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from escape_canary import Canary
from escape_run import LiveBox, command, run_json
from escape_world import descendants, seen

pytestmark = pytest.mark.usefixtures("clean_host")

SMALL = {"--memory": "128M", "--disk": "16M", "--pids": "32", "--timeout": "10"}
RUNS = 20

VICTIM = """
import ctypes, os, socket, time
libc = ctypes.CDLL(None)
unix = socket.socket(socket.AF_UNIX); unix.bind('\\0husk-neighbour'); unix.listen()
tcp = socket.socket(); tcp.bind(('127.0.0.1', 45671)); tcp.listen()
for folder in ('/tmp', '/workspace', '/dev/shm'):
    open(folder + '/neighbour', 'w').write('secret of the neighbour')
assert libc.shmget(0x48554B, 4096, 0o1666) >= 0
libc.mq_open(b'/neighbour', os.O_CREAT | os.O_RDWR, 0o666, None)
print('READY', flush=True)
time.sleep(50)
"""
INTRUDER = """
import ctypes, os, signal, socket, sys
libc = ctypes.CDLL(None)
reached = []
for name, family, address in (('unix', socket.AF_UNIX, '\\0husk-neighbour'),
                              ('tcp', socket.AF_INET, ('127.0.0.1', 45671))):
    if socket.socket(family).connect_ex(address) == 0:
        reached.append(name)
for pid in map(int, sys.argv[1:]):
    for action in (lambda: os.kill(pid, signal.SIGKILL), lambda: os.pidfd_open(pid),
                   lambda: os.listdir('/proc/%d' % pid), lambda: open('/proc/%d/mem' % pid, 'rb'),
                   lambda: os.sched_getaffinity(pid), lambda: os.getpgid(pid)):
        try:
            action()
            reached.append(pid)
        except OSError:
            pass
for folder in ('/tmp', '/workspace', '/dev/shm'):
    if os.path.exists(folder + '/neighbour'):
        reached.append(folder)
if libc.shmget(0x48554B, 4096, 0o666) >= 0:
    reached.append('shared memory')
if libc.mq_open(b'/neighbour', os.O_RDWR) >= 0:
    reached.append('queue')
print(reached)
"""


def test_a_box_cannot_reach_its_neighbour(canary: Canary) -> None:
    """E13, E10: from A, everything that B has is not there."""
    env = canary.parent_env()
    with LiveBox(VICTIM, SMALL, env) as victim:
        pids = [str(pid) for pid in sorted(victim.pids())]
        run = run_json(SMALL, INTRUDER, *pids, env=env)
        assert run.result["stdout"] == "[]\n", run.summary()
        assert set(map(int, pids)) <= victim.pids(), "a process of the neighbour was killed"


# Each of these kernel quotas is counted per user id of the host.
GREEDY = """
import ctypes, fcntl, os, signal, time
libc = ctypes.CDLL(None)
while libc.inotify_init1(0) >= 0: pass
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
while libc.sigqueue(os.getpid(), 40, None) == 0: pass
count = 0
while count < 5000 and libc.msgget(0, 0o1600) >= 0: count += 1
pipes = []
try:
    for _ in range(300):
        pipes.append(os.pipe())
        fcntl.fcntl(pipes[-1][1], 1031, 1 << 20)
except OSError:
    pass
print('READY', flush=True)
time.sleep(50)
"""
MODEST = """
import ctypes, fcntl, os, signal, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
missing = []
for name, use in (('inotify', lambda: libc.inotify_init1(0)),
                  ('queue', lambda: libc.msgget(0, 0o1600)),
                  ('shared memory', lambda: libc.shmget(0, 4096, 0o1600))):
    if use() < 0:
        missing.append((name, ctypes.get_errno()))
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
if any(libc.sigqueue(os.getpid(), 40, None) for _ in range(50)):
    missing.append('signals')
if fcntl.fcntl(os.pipe()[1], 1031, 1 << 20) != 1 << 20:
    missing.append('pipes')
left, right = socket.socketpair()
socket.send_fds(left, [b'x'], [0] * 100)
threads = [threading.Thread(target=int) for _ in range(20)]
[t.start() for t in threads]
print(missing)
"""


def test_a_greedy_box_starves_nobody_of_kernel_quotas(canary: Canary) -> None:
    """R4: what A used up is still there for B."""
    env = canary.parent_env()
    with LiveBox(GREEDY, SMALL, env):
        run = run_json(SMALL, MODEST, env=env)
        assert run.result["stdout"] == "[]\n", run.summary()


def pending_signals() -> int:
    """Queued signals charged to our own user on the host."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("SigQ:")[1].split("/")[0])


def test_a_greedy_box_costs_the_hosts_own_user_nothing(canary: Canary) -> None:
    """R4: quotas used up inside are not those of the user that runs husk."""
    before = pending_signals()
    with LiveBox(GREEDY, SMALL, canary.parent_env()):
        host = subprocess.run(
            [sys.executable, "-c", MODEST], capture_output=True, text=True, check=False
        )
        assert host.stdout == "[]\n", "starved: " + host.stdout + host.stderr
        assert pending_signals() <= before + 100, "signals queued inside are charged to us"


# ---- Z2, Z6: one box after another

CHANCE = """
import ctypes, json, os, random, secrets, ssl, tempfile, uuid
first = {
    'random': random.random(), 'getrandbits': random.getrandbits(64), 'uuid4': str(uuid.uuid4()),
    'secrets': secrets.token_hex(8), 'urandom': os.urandom(8).hex(), 'tempfile': tempfile.mktemp(),
    'ssl': ssl.RAND_bytes(8).hex(), 'C rand': ctypes.CDLL(None).rand(),
    'choice of a child': None,
}
try:
    import numpy
    first['numpy legacy'] = numpy.random.rand()
    first['numpy default'] = numpy.random.default_rng().random()
except ImportError:
    pass
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, repr(random.random()).encode())
    os._exit(0)
first['choice of a child'] = os.read(reader, 100).decode()
print(json.dumps(first))
"""


def test_chance_differs_from_box_to_box(canary: Canary) -> None:
    """Z2: boxes forked from a warm interpreter must not repeat one another's random numbers."""
    rows: list[dict[str, Any]] = []
    for _ in range(RUNS):
        run = run_json(SMALL, CHANCE, env=canary.parent_env())
        assert run.result["status"] == "completed", run.summary()
        rows.append(json.loads(run.result["stdout"]))
    for name in rows[0]:
        values = [str(row[name]) for row in rows]
        assert len(set(values)) == RUNS, f"{name} repeats: {values}"


LEAVE = """
import builtins, ctypes, os, sys, time
libc = ctypes.CDLL(None)
for folder in ('/tmp', '/workspace', '/dev/shm', os.path.expanduser('~')):
    open(folder + '/left', 'w').write('left')
for name in ('sitecustomize.py', 'usercustomize.py', 'json.py', '.pythonrc'):
    open('/workspace/' + name, 'w').write('print("LEFT")')
os.makedirs(os.path.expanduser('~/.local/lib/python3.11/site-packages'), exist_ok=True)
site = os.path.expanduser('~/.local/lib/python3.11/site-packages/left.pth')
open(site, 'w').write('import os; os._exit(9)')
os.environ['LEFT'] = 'left'
libc.shmget(0x1EF7, 4096, 0o1666)
libc.mq_open(b'/left', os.O_CREAT | os.O_RDWR, 0o666, None)
builtins.len = lambda thing: 7
sys.modules['math'] = None
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
"""
LOOK = """
import ctypes, json, os, math, sys
libc = ctypes.CDLL(None)
found = [p for p in ('/tmp', '/workspace', '/dev/shm') if set(os.listdir(p)) - {'code', 'main.py'}]
if 'LEFT' in os.environ or len([1]) != 1:
    found.append('state')
if libc.shmget(0x1EF7, 4096, 0o666) >= 0 or libc.mq_open(b'/left', os.O_RDWR) >= 0:
    found.append('ipc')
if [n for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()]:
    found.append('process')
print(found)
"""


def test_nothing_of_one_run_is_there_in_the_next(canary: Canary) -> None:
    """Z6: files, environment, shared memory, processes and patched modules are all gone."""
    env = canary.parent_env()
    for _ in range(2):
        assert run_json(SMALL, LEAVE, env=env).result["status"] == "completed"
        run = run_json(SMALL, LOOK, env=env)
        assert run.result["stdout"] == "[]\n", run.summary()


# ---- S9, R1, R2, R5: a full house

HOG = "kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20))"
BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
SPIN = "import os\nos.fork()\nwhile True: pass"
QUIET = "import time\nfor i in range(5): time.sleep(0.1)\nprint(sum(range(100000)))"
HOUSE = [HOG, BOMB, SPIN, QUIET, QUIET, HOG, BOMB, SPIN, QUIET, QUIET]
LIMITS = {"--memory": "64M", "--disk": "8M", "--pids": "24", "--cpus": "0.25", "--timeout": "4"}


def test_ten_boxes_at_once_keep_to_their_limits(canary: Canary) -> None:
    """Memory hogs, fork bombs and spinners beside four quiet programs, which all succeed."""
    started = [
        subprocess.Popen(
            command(LIMITS, "--json", code),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=canary.parent_env(),
        )
        for code in HOUSE
    ]
    seen.update(descendants(os.getpid()))
    deadline = time.monotonic() + 40
    results = []
    for husk in started:
        out, _ = husk.communicate(timeout=max(deadline - time.monotonic(), 1))
        results.append(json.loads(out))
    for code, result in zip(HOUSE, results, strict=True):
        metrics = result["metrics"]
        assert metrics["peak_memory_mb"] <= 65
        assert metrics["processes"] <= 24
        if code == QUIET:
            assert (result["status"], result["stdout"]) == ("completed", "4999950000\n"), result
        elif code == HOG:
            assert result["status"] == "memory_exceeded", result
        else:
            assert result["status"] == "timeout", result
            assert metrics["cpu_time_ms"] <= 4000 * 0.25 * 1.3 + 100, result
