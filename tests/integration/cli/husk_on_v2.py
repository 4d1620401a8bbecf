# SPDX-License-Identifier: Apache-2.0
"""husk on a host with cgroup v2 alone. husk_v2_vm.sh runs this as root in a machine of its own; it
prints TAP. Everything is slow there, so limits of time are wide and nothing is measured.
"""
from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from v2_places import (
    CGROUPS,
    HOST,
    PATIENCE,
    USER,
    Place,
    Server,
    cause,
    check,
    container,
    delegated,
    equal,
    limits_of,
    nothing_is_left,
    user,
    wait_for,
)

PYTHON = ("python3", "-ISc")  # its fastest start
SMALL = ("--memory", "32M")
USERNS = ("--min-isolation", "userns")
HOG = "kept = []\nwhile True: kept.append(bytearray(b'x' * (4 << 20)))"
BOMB = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
CROWD = """
import os, time
n = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
        n += 1
except OSError:
    print(n)
"""
SHOW_LIMITS = """
place = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().removeprefix("0::")
for name in "memory.max", "memory.swap.max", "cpu.max", "pids.max":
    print(open(f"{place}/{name}").read().strip())
"""

Test = Callable[[], None]
TESTS: list[Test] = []


def test(function: Test) -> Test:
    TESTS.append(function)
    return function


# ---- root, at the top of the tree ----


@test
def doctor_finds_everything() -> None:
    done = HOST.run("husk", "doctor", "--json")
    equal(done.returncode, 0)
    facts = json.loads(done.stdout)
    equal((facts["cgroup"]["mode"], facts["complete"]), ("v2", True))
    equal(HOST.cgroup_layer()["fact"], "v2; memory, cpu, pids, kill")


@test
def code_runs_with_full_isolation() -> None:
    result = HOST.result("print(6 * 7)")
    equal((cause(result), result["stdout"]), (("completed", "exit", 0), "42\n"))
    receipt = result["receipt"]
    equal((receipt["isolation"], receipt["cgroup"], receipt["missing"]), ("full", "v2", ""))
    metrics = result["metrics"]
    check(
        metrics["cpu_time_ms"] > 0 and metrics["peak_memory_mb"] > 0 and metrics["processes"] > 0,
        metrics,
    )


@test
def limits_of_a_run_are_the_kernels() -> None:
    limits = (*SMALL, "--cpus", "0.25", "--pids", "20")
    process = HOST.start("husk", "run", *limits, "print(input())", stdin=subprocess.PIPE)
    full = wait_for(
        lambda: [p for p in CGROUPS.glob("husk/*/box-*") if (p / "cgroup.procs").read_text()]
    )
    equal(limits_of(full[0]), [str(32 << 20), "25000 100000", "20"])
    equal(process.communicate("hello\n", timeout=PATIENCE)[0], "hello\n")


@test
def run_ends_with_the_right_cause() -> None:
    equal(cause(HOST.result(*SMALL, HOG)), ("memory_exceeded", "oom", 137))
    shell = "x=x; while :; do x=$x$x; done"
    equal(cause(HOST.result("--lang", "shell", *SMALL, shell)), ("memory_exceeded", "oom", 137))
    result = HOST.result("--pids", "40", "--timeout", "1", BOMB)
    equal(cause(result), ("timeout", "timeout", 124))
    check(result["metrics"]["processes"] <= 40, result)


@test
def limited_sets_each_limit() -> None:
    done = HOST.run(
        "husk", "limited", *SMALL, "--cpus", "0.25", "--pids", "20", "--", *PYTHON, SHOW_LIMITS
    )
    equal(done.stdout.splitlines(), [str(32 << 20), "0", "25000 100000", "20"])
    equal(HOST.run("husk", "limited", "--pids", "10", "--", *PYTHON, CROWD).stdout, "10\n")
    done = HOST.run("husk", "limited", *SMALL, "--report-fd", "1", "--", *PYTHON, HOG)
    equal(done.returncode, 137)
    check("reached its memory limit of 32 MiB" in done.stderr, done)
    first, last = map(json.loads, done.stdout.splitlines())
    equal((first["limits"], last["signal"], last["oom_kills"] > 0), ("cgroup", 9, True))


@test
def limited_leaves_nothing_of_a_program_that_hides() -> None:
    hide = "import os\nif os.fork() == 0:\n    os.setsid()\n    exec(BOMB)\nos._exit(3)"
    program = f"BOMB = {BOMB!r}\n{hide}"
    equal(HOST.run("husk", "limited", "--pids", "40", "--", *PYTHON, program).returncode, 3)


def use(server: Server) -> None:
    """A run, and a session that loses a context for its memory but not its files."""
    equal(server.post("/run", {"code": "print(6 * 7)"})["stdout"], "42\n")
    resources = {"memory": "32Mi", "disk": "8Mi", "max_processes": 40}
    wanted = {"mode": "persistent", "resources": resources, "min_isolation": "userns"}
    session = "/api/v1/sessions/" + server.post("/api/v1/sessions", wanted)["id"]
    cells = [
        ("x = 41; open('kept', 'w').write('files stay')", ("completed", "exit", 0)),
        ("assert x == 41", ("completed", "exit", 0)),
        (HOG, ("memory_exceeded", "oom", 137)),
        (
            "assert open('kept').read() == 'files stay' and 'x' not in dir()",
            ("completed", "exit", 0),
        ),
        (BOMB, ("timeout", "timeout", 124)),
        ("assert open('kept').read() == 'files stay'", ("completed", "exit", 0)),
    ]
    for code, wanted_cause in cells:
        result = server.post(
            f"{session}/execute-sync", {"code": code, "timeout": 2 if code == BOMB else PATIENCE}
        )
        check(cause(result) == wanted_cause, code, result)


def rest(server: Server) -> None:
    """An idle session is frozen, also one that was not created for it, and goes on."""
    wanted = {"mode": "persistent", "min_isolation": "userns"}
    choices: list[dict[str, Any]] = [{"timeout": 1, "on_idle": "freeze"}, {}]
    for fields in choices:
        session = "/api/v1/sessions/" + server.post("/api/v1/sessions", {**wanted, **fields})["id"]
        server.post(f"{session}/execute-sync", {"code": "x = 41"})
        server.post(f"{session}/extend", {"timeout": 1, "on_idle": "freeze"})
        until = time.monotonic() + PATIENCE
        while server.get(session)["idle_state"] != "frozen":
            check(time.monotonic() < until, server.get(session))
            time.sleep(0.05)
        server.post(f"{session}/extend", {"timeout": 600})
        result = server.post(f"{session}/execute-sync", {"code": "x"})
        equal((result["value"], result["context_restarted"]), ("41", False))


@test
def server_runs_code_and_keeps_sessions() -> None:
    with Server(HOST) as server:
        use(server)
        rest(server)


# ---- below a cgroup of our own ----


@test
def user_with_a_delegated_cgroup_has_limits() -> None:
    equal(user().cgroup_layer()["present"], True)
    result = user().result(*USERNS, *SMALL, HOG)
    equal(
        (cause(result), result["receipt"]["missing"]),
        (("memory_exceeded", "oom", 137), "private ids"),
    )
    nested = (
        "husk",
        "limited",
        "--pids",
        "40",
        "--",
        "husk",
        "limited",
        "--pids",
        "10",
        "--",
        *PYTHON,
        CROWD,
    )
    equal(user().run(*nested).stdout, "10\n")


@test
def container_has_full_isolation() -> None:
    equal(container().cgroup_layer()["present"], True)
    equal(container().result("1")["receipt"]["isolation"], "full")
    equal(container().run("husk", "limited", "--pids", "10", "--", *PYTHON, CROWD).stdout, "10\n")
    with Server(container()) as server:
        equal(server.post("/run", {"code": HOG, "memory_limit": 64})["status"], "memory_exceeded")


# ---- where limits cannot be had ----


def is_refused(place: Callable[[], Place], says: str, *before: str) -> None:
    """Nothing is run without the limits that were asked for, and husk says why."""
    layer = place().cgroup_layer(*before)
    check(not layer["present"] and says in layer["fact"], layer)
    done = place().run(*before, "husk", "run", "print('it ran')")
    equal((done.returncode, done.stdout), (125, ""))
    check("this host cannot enforce: cgroup limits" in done.stderr, done)
    done = place().run(*before, "husk", "limited", *SMALL, "--", *PYTHON, "print('it ran')")
    equal((done.returncode, done.stdout), (125, ""))
    check(says in done.stderr, done)


def is_weaker_when_asked(place: Callable[[], Place], *before: str) -> None:
    run = ("husk", "run", "--json", *USERNS, *SMALL, HOG)
    done = place().run(*before, *run)
    check(done.stdout != "", done)
    result = json.loads(done.stdout)
    equal(cause(result), ("memory_exceeded", "oom", 137))
    check("cgroup limits" in result["receipt"]["missing"], result)
    equal(result["receipt"]["cgroup"], "none")
    check(result["metrics"]["peak_memory_mb"] > 8, result)
    limited = ("husk", "limited", "--best-effort", *SMALL, "--report-fd", "1", "--")
    done = place().run(*before, *limited, *PYTHON, HOG)
    equal((done.returncode, json.loads(done.stdout.splitlines()[0])["limits"]), (1, "rlimit"))


@test
def other_processes_in_our_cgroup_stay_and_are_told_of() -> None:
    says = "other processes live in our cgroup; start husk in a cgroup of its own"
    shell = (
        "bash",
        "-c",
        '"$@"; code=$?; read -r own </proc/$$/cgroup; [ "${own##*/}" != husk-self ] && exit $code',
        "-",
    )
    is_refused(container, says, *shell)
    is_weaker_when_asked(container, *shell)


@test
def controller_that_is_not_delegated_is_missed() -> None:
    def place() -> Place:
        return delegated("+memory +pids", user=USER)

    is_refused(place, "the cpu controller here: was it delegated?")
    receipt = place().result(*USERNS, "1")["receipt"]
    equal((receipt["missing"], receipt["cgroup"]), ("cgroup limits, private ids", "v2"))


@test
def user_without_a_cgroup_is_refused() -> None:
    def place() -> Place:
        return Place(user=USER)

    is_refused(place, "cannot write to /sys/fs/cgroup: Permission denied")


def main() -> int:
    failed = 0
    print(f"1..{len(TESTS)}", flush=True)
    for number, function in enumerate(TESTS, 1):
        try:
            function()
            nothing_is_left()
        except Exception:
            failed += 1
            print("# " + traceback.format_exc().strip().replace("\n", "\n# "))
            print("not ", end="")
        print(f"ok {number} - {function.__name__}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
