# SPDX-License-Identifier: Apache-2.0
"""Signals that the parent of husk ignores or blocks, as service managers, nohup and some languages
do.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

from audit import wait_tree
from husk_server import Server
from programs import Done, Program, write_handler
from v1_client import Api
from waiting import wait_until

CHILD = ("/usr/bin/env", "--ignore-signal=CHLD")


def started_by(before: tuple[str, ...], program: Program, *args: str) -> Done:
    return replace(program, path=Path(before[0]))(*before[1:], str(program.path), *args)


# ---- SIGCHLD: no process could wait for a child ----


def test_programs_in_a_box_can_wait_for_their_children(husk: Program) -> None:
    code = "import subprocess; subprocess.run(['false']).returncode"
    assert started_by(CHILD, husk, "run", code).text == "1\n"


def test_an_ignored_sigchld_does_not_keep_a_shell_from_its_end(husk: Program) -> None:
    shell = "false; echo $?; exit 3"
    done = started_by(CHILD, husk, "run", "--timeout", "5", "--lang", "shell", shell)
    assert (done.code, done.text, done.error) == (3, "1\n", "")


def test_doctor_finds_the_same_without_sigchld(husk: Program) -> None:
    plain = husk("doctor", "--json")
    assert started_by(CHILD, husk, "doctor", "--json") == plain


def test_sandbox_run_without_sigchld(sandbox_run: Program) -> None:
    write_handler(
        sandbox_run, "import os\ndef handler(event, context): return os.system('false')\n"
    )
    done = started_by(CHILD, sandbox_run, "h.py", "--format", "json")
    assert json.loads(done.out)["result"] == 256


class Childless(Server):
    before = CHILD


def test_a_server_without_sigchld_replaces_a_killed_daemon_and_ends() -> None:
    with Childless.run() as server:
        killed = server.kill_huskd()
        server.wait_said("daemon_ended")
        server.wait_ready()
        assert server.pid_of_huskd() != killed
        assert server.stop() == 0


# ---- the others: boxes would inherit them ----

STANDARD = (1 << 31) - 1  # of the real-time signals, libc ignores two while it starts a program
OTHERS = "HUP,INT,QUIT,PIPE,ALRM,TERM,CHLD,USR1,XFSZ"
SPOILT = ("/usr/bin/env", f"--ignore-signal={OTHERS}", f"--block-signal={OTHERS}")
SHOW = "grep -E '^Sig(Ign|Blk)' /proc/self/status"
SHOW_PYTHON = "print(*(l for l in open('/proc/self/status') if l[:6] in ('SigIgn', 'SigBlk')))"


def masks(shown: str) -> dict[str, int]:
    """Signal n is bit n - 1."""
    rows = (line.split() for line in shown.splitlines() if line.strip())
    return {name.rstrip(":"): int(mask, 16) & STANDARD for name, mask in rows}


def bits(*signals: int) -> int:
    return sum(1 << (n - 1) for n in signals)


FRESH = {"SigBlk": 0, "SigIgn": 0}
FRESH_PYTHON = {"SigBlk": 0, "SigIgn": bits(signal.SIGPIPE, signal.SIGXFSZ)}  # its own doing


def test_a_box_of_husk_run_has_fresh_signals(husk: Program) -> None:
    assert masks(started_by(SPOILT, husk, "run", "--lang", "shell", SHOW).text) == FRESH
    assert masks(started_by(SPOILT, husk, "run", SHOW_PYTHON).text) == FRESH_PYTHON


class Spoilt(Server):
    before = SPOILT


def test_boxes_of_a_server_have_fresh_signals() -> None:
    with Spoilt.run() as server:
        api = Api(server.port)
        kept = api.session()
        shells = [api.session(template_id="shell", mode="ephemeral") for _ in range(2)]
        assert masks(api.run(kept, SHOW_PYTHON)["stdout"]) == FRESH_PYTHON
        for first, second in ((kept, kept), shells):
            assert masks(api.run(first, command=SHOW)["stdout"]) == FRESH
            pipe = api.run(second, command="yes | head -1; echo ${PIPESTATUS[0]}")
            assert (pipe["stdout"], pipe["stderr"]) == ("y\n141\n", "")


def test_a_server_with_blocked_signals_ends_in_time() -> None:
    with Spoilt.run() as server:
        start = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - start < 30, "the daemon did not hear that it was to end"


class Unheard(Server):
    """Its log goes to a pipe, as with `husk up 2>&1 | tee log`."""

    before = ("/bin/sh", "-c", 'exec "$@" 2>"$LOG"', "sh")


def test_a_server_whose_log_nobody_reads_any_more_goes_on() -> None:
    server = Unheard()
    log = server.folder / "log"
    os.mkfifo(log)
    server.variables = {"LOG": str(log)}
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        server.start()
        session = Api(server.port).session()  # of which the next daemon has something to say
        os.close(reader)
        killed = server.kill_huskd()
        wait_until(lambda: is_alive(server, killed), "another daemon serves")
        assert Api(server.port).run(session, "1")["status"] == "completed"
        assert server.stop() == 0
    finally:
        server.remove()


def is_alive(server: Server, killed: int) -> bool:
    try:
        return server.get("/health").status == 200 and server.pid_of_huskd() != killed
    except OSError:
        return False


def test_a_service_manager_that_tells_all_processes_to_end() -> None:
    """Files are in boxes only; they are saved although all processes get the signal at once."""
    with Server.run() as server:
        api = Api(server.port)
        session = api.session()
        x = api.start(
            session,
            "open('a', 'w').write('kept'); print('on', flush=True); import time; time.sleep(600)",
            timeout=900,
        )
        api.wait_output(x, "on")
        tree = wait_tree(server)
        for pid in [tree.launcher, *tree.zygotes, *tree.boxes, tree.huskd]:
            os.kill(pid, signal.SIGTERM)
        assert server.stop() == 0
        server.start()
        assert api.run(session, "open('a').read()")["return_value"] == "kept"


def test_settings_to_be_read_again_while_it_starts() -> None:
    """As from a service manager that is asked to reload at once."""
    for _ in range(4):
        server = Server()
        stop = threading.Event()
        nagging = threading.Thread(target=hang_up, args=(server, stop))
        try:
            nagging.start()
            server.start()
        finally:
            stop.set()
            nagging.join()
            server.remove()


def hang_up(server: Server, stop: threading.Event) -> None:
    while not stop.wait(0.001):
        if not server.is_running():
            continue
        pid = server.process.pid
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            if len(children.split()) > 1:  # the launcher, and then the daemon
                os.kill(pid, signal.SIGHUP)
