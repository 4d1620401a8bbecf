# SPDX-License-Identifier: Apache-2.0
"""A box that cannot be built is refused by `husk run`: exit code 125, one line why, no code run.

test_setup_fail_closed.c goes through every call of the box's own set-up; here the whole program is
traced, so that what launcher and zygote do before is covered as well.
"""
from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

HUSK = os.environ.get("HUSK_BIN", str(Path(__file__).parents[2] / "build" / "bin" / "husk"))
LAUNCHER = str(Path(HUSK).with_name("husk-launcher"))
EXIT_HUSK = 125
SHOW = "print('ran')"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="full isolation needs root")
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def run_with_failure(
    call: str, error: str, when: int | str, *words: str
) -> subprocess.CompletedProcess[str]:
    """husk run, in which the when-th such call of every process fails ("1+": each of them)."""
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
    return subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", *inject, HUSK, "run", *(words or (SHOW,))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_refused(run: subprocess.CompletedProcess[str], reason: str) -> None:
    assert "ran" not in run.stdout, "the program ran although a step had failed"
    assert run.returncode == EXIT_HUSK, run
    assert run.stderr.startswith("husk: ") and run.stderr.count("\n") == 1, run.stderr
    assert reason in run.stderr


# ---- the box's own steps

BOX_STEPS = [
    ("landlock_add_rule", 1, "landlock"),
    ("landlock_restrict_self", 1, "landlock"),
]


@needs_root
@needs_strace
@pytest.mark.parametrize(("call", "when", "step"), BOX_STEPS)
def test_a_step_that_fails_is_named(call: str, when: int, step: str) -> None:
    assert_refused(run_with_failure(call, "EPERM", when), f'isolation step "{step}"')


@needs_root
@needs_strace
@pytest.mark.parametrize(
    ("call", "when", "step"),
    [("seccomp", 1, "seccomp"), ("unshare", 2, "mount lock")],  # the other half: see the C test
)
def test_a_zygote_that_cannot_be_confined_is_refused(call: str, when: int, step: str) -> None:
    run = run_with_failure(call, "EPERM", when)
    assert_refused(run, f'confine the zygote, step "{step}"')


# ---- what launcher and zygote do before: the root of the template and its namespaces

ROOT_CALLS = [
    ("clone3", "start "),  # of the launcher itself
    ("capset", "drop its rights"),  # of the guard; a box's own: see the C test
    ("setgroups", "drop supplementary groups"),
    ("unshare", "new cgroup namespace"),
    ("sethostname", "host name"),
    ("open_tree", "open_tree"),
    ("mount_setattr", "mount_setattr"),
    ("move_mount", "mount "),
    ("pivot_root", "pivot_root"),
    ("umount2", "detach the old root"),
]


@needs_root
@needs_strace
@pytest.mark.parametrize("error", ["EPERM", "ENOMEM", "EAGAIN"])
@pytest.mark.parametrize(("call", "reason"), ROOT_CALLS)
def test_a_root_that_cannot_be_built_is_refused(call: str, reason: str, error: str) -> None:
    assert_refused(run_with_failure(call, error, 1), reason)


@needs_root
@needs_strace
def test_no_mount_of_the_root_may_fail() -> None:
    """Each mount in turn, zygote's and box's alike; then one that nobody makes, and it runs."""
    refused = 0
    while refused < 60:
        run = run_with_failure("mount", "EPERM", refused + 1)
        if "ran" in run.stdout:
            break
        assert_refused(run, "")
        refused += 1
    assert 10 < refused < 60, "a failed mount was passed over, or none was made to fail"
    for later in range(refused + 2, refused + 6):
        assert "ran" in run_with_failure("mount", "EPERM", later).stdout


@needs_root
@needs_strace
def test_without_landlock_full_isolation_is_refused() -> None:
    run = run_with_failure("landlock_create_ruleset", "ENOSYS", 1)
    assert_refused(run, "landlock")


WRITE_EVERYWHERE = """
import errno
for path in ('/usr/new', '/etc/new', '/new', '/proc/new', '/workspace/new', '/tmp/new'):
    try:
        open(path, 'w').close()
        print(path)
    except OSError as e:
        assert e.errno in (errno.EROFS, errno.ENOENT), e  # Landlock would say EACCES
"""


@needs_root
@needs_strace
def test_without_landlock_less_isolation_says_so_and_mounts_decide() -> None:
    flags = ("--min-isolation", "userns", "--json")
    run = run_with_failure("landlock_create_ruleset", "ENOSYS", "1+", *flags, WRITE_EVERYWHERE)
    result = json.loads(run.stdout)
    assert result["receipt"]["missing"] == "landlock"
    assert result["stdout"] == "/workspace/new\n/tmp/new\n"


# ---- limits that the C tests cannot see: their harness has no core dumps to begin with

LIMITS = """
import resource
for name in ('CORE', 'NOFILE', 'NPROC', 'FSIZE', 'MEMLOCK', 'MSGQUEUE', 'SIGPENDING', 'STACK', 'RTPRIO', 'NICE'):
    soft, hard = resource.getrlimit(getattr(resource, 'RLIMIT_' + name))
    print(name, soft, hard)
"""


@needs_root
def test_a_core_dump_may_be_exactly_one_byte_long() -> None:
    """Not 0: at 0 the kernel still starts a piped core handler of the host, at 1 it does not."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("core dumps were switched off for good before this test")
    run = subprocess.run(
        [HUSK, "run", "--memory", "64M", "--disk", "8M", "--pids", "9", LIMITS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    limits = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    assert limits == {
        "CORE": "1 1",
        "NOFILE": "1024 1024",
        "NPROC": "9 9",
        "FSIZE": "-1 -1",
        "MEMLOCK": "65536 65536",
        "MSGQUEUE": "819200 819200",
        "SIGPENDING": "4096 4096",
        "STACK": "8388608 8388608",
        "RTPRIO": "0 0",
        "NICE": "0 0",
    }


@needs_root
def test_the_launchers_memory_is_in_no_core_dump(tmp_path: Path) -> None:
    """Everything of everybody goes through it."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("core dumps were switched off for good before this test")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        os.chdir(tmp_path)
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        os.dup2(theirs.fileno(), 3, inheritable=True)
        os.execl(LAUNCHER, LAUNCHER)
    theirs.close()
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not children.read_text():  # its guard comes last
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the launcher did not start"
    os.kill(pid, signal.SIGSEGV)
    status = os.waitpid(pid, 0)[1]
    ours.close()
    assert os.WTERMSIG(status) == signal.SIGSEGV and not os.WCOREDUMP(status)
