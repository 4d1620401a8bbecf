# SPDX-License-Identifier: Apache-2.0
"""husk limited: nothing is left of what it started, whichever process is killed; and what there is without
the right to make cgroups.
"""
from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest
from programs import Program
from limited_client import (
    AS_NOBODY,
    PYTHON,
    Limited,
    cgroups_of,
    children,
    husk_for_all,
    is_alive,
    needs_root,
    run,
    run_as_nobody,
)
from waiting import PATIENCE, wait_until

# ---- nothing is left ----

DAEMON = (
    "import os, sys, time\n"
    "told, tell = os.pipe()\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        print(os.getpid(), flush=True)\n"
    "        os.close(1); os.close(2); os.close(tell)\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "os.close(tell)\n"
    "os.read(told, 1)\n"
)


def test_what_daemonised_is_killed_at_the_end(husk: Program) -> None:
    code, _, out, _ = run(husk, "--best-effort", "--", PYTHON, "-c", DAEMON)
    assert code == 0
    assert not is_alive(int(out))


def start_with_daemon(husk: Program, before: list[str] | None = None) -> tuple[Limited, list[int]]:
    """A program that does not end and a daemon of it: husk limited, and the pids of both."""
    script = DAEMON + "time.sleep(600)\n"
    limited = Limited.start(husk, "--best-effort", "--", PYTHON, "-c", script, before=before)
    assert limited.process.stdout is not None
    daemon = int(limited.process.stdout.readline())
    return limited, [limited.started()["pid"], daemon]


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("victim", ["front", "keeper"])
def test_kill_9_leaves_nothing(husk_for_all: Program, user: str, victim: str) -> None:
    if os.geteuid() != 0 and user == "root":
        pytest.skip("only root can be root")
    before = AS_NOBODY if user == "nobody" else None
    limited, pids = start_with_daemon(husk_for_all, before)
    keeper = children(limited.process.pid)[0]
    assert user == "nobody" or cgroups_of(limited.process.pid)
    os.kill(limited.process.pid if victim == "front" else keeper, signal.SIGKILL)
    code = limited.process.wait(PATIENCE)
    assert code == (-signal.SIGKILL if victim == "front" else 125)
    wait_until(lambda: not any(map(is_alive, [*pids, keeper])), "its processes are gone")
    wait_until(lambda: not cgroups_of(limited.process.pid), "its cgroup is gone")
    if victim == "keeper":
        assert limited.process.stderr is not None
        assert (
            b"the keeper of program was killed, and program with it"
            in limited.process.stderr.read()
        )


@needs_root
def test_what_is_left_when_both_are_killed_is_swept(husk: Program) -> None:
    limited, pids = start_with_daemon(husk)
    keeper = children(limited.process.pid)[0]
    os.kill(keeper, signal.SIGSTOP)  # so that the first death is not noticed
    os.kill(limited.process.pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    limited.process.wait(PATIENCE)
    wait_until(lambda: not is_alive(pids[0]), "the program has died with its keeper")
    run(husk, "--", "/bin/true")
    assert not is_alive(pids[1])
    assert not cgroups_of(limited.process.pid)


def test_dies_with_its_parent(husk: Program) -> None:
    """The parent is a shell that is killed while husk runs."""
    script = DAEMON + "print(os.getpid(), flush=True)\ntime.sleep(600)\n"
    parent = subprocess.Popen(
        # fmt: off
        ["/bin/sh", "-c", '"$@"; exit 1', "sh", husk.path, "limited", "--best-effort", "--", PYTHON, "-c", script],
        # fmt: on
        stdout=subprocess.PIPE,
        env=husk.environment(),
    )
    assert parent.stdout is not None
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    front = children(parent.pid)[0]
    parent.kill()
    parent.wait(PATIENCE)
    wait_until(lambda: not any(map(is_alive, [front, *pids])), "all have gone with the parent")


def test_does_not_die_with_a_thread_of_its_parent(husk: Program) -> None:
    started: list[Limited] = []
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda n, f: sys.exit(4))\n"
        "print('ready', flush=True)\n"
        # Not one long sleep: Python notices a signal that comes right before it only afterwards.
        "while True: time.sleep(0.05)\n"
    )

    def work() -> None:
        started.append(Limited.start(husk, "--best-effort", "--", PYTHON, "-c", script))
        started[0].started()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    limited = started[0]
    assert limited.process.stdout is not None
    assert limited.process.stdout.readline() == b"ready\n"
    limited.process.terminate()
    assert limited.end()[0] == 4


@needs_root
def test_no_cgroup_is_left_after_an_ordinary_end(husk: Program) -> None:
    limited = Limited.start(husk, "--", "/bin/true")
    limited.end()
    assert not cgroups_of(limited.process.pid)


# ---- without the right to make cgroups ----


def test_refusal_says_what_to_do(husk_for_all: Program) -> None:
    code, report, _, err = run_as_nobody(husk_for_all, "--memory", "64M", "--", "/bin/true")
    assert (code, report) == (125, [])
    assert "--best-effort" in err and "root" in err
    assert err.count("\n") == 1


def test_best_effort_limits_memory_by_address_space(husk_for_all: Program) -> None:
    code, report, _, err = run_as_nobody(
        husk_for_all, "--best-effort", "--memory", "256M", "--", PYTHON, "-c", "bytearray(1 << 29)"
    )
    assert code == 1
    assert "MemoryError" in err
    assert report[0]["limits"] == "rlimit"
    assert report[1]["oom_kills"] == 0


def test_best_effort_pins_to_so_many_processors(husk_for_all: Program) -> None:
    script = "import os; print(len(os.sched_getaffinity(0)), end='')"
    args = ["--best-effort", "--cpus", "0.5", "--", PYTHON, "-c", script]
    code, report, out, _ = run_as_nobody(husk_for_all, *args)
    assert (code, out) == (0, "1")
    assert report[1]["cpu_ms"] > 0


def test_best_effort_says_that_pids_are_not_limited(husk_for_all: Program) -> None:
    code, _, _, err = run_as_nobody(
        husk_for_all, "--best-effort", "--pids", "4", "--", "/bin/sh", "-c", "exit 2"
    )
    assert code == 2
    assert "--pids is not enforced" in err


def test_best_effort_leaves_no_descendant(husk_for_all: Program) -> None:
    code, _, out, _ = run_as_nobody(husk_for_all, "--best-effort", "--", PYTHON, "-c", DAEMON)
    assert code == 0
    assert not is_alive(int(out))
