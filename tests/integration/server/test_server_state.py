# SPDX-License-Identifier: Apache-2.0
"""The supervisor's state: what a huskd that was taken over cannot touch, what it holds, what it can
print, and how a data folder of before is taken over.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import pwd
import shutil
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit import sizes
from husk_server import Server, free_port
from places import BIN, ROOT
from procfs import below, links_of
from v1_client import Api
from waiting import PATIENCE, wait_until

PYTHON = "/usr/bin/python3"
AGENT = "from husk import serve\nserve(lambda query: query, name='echo')\n"
EVIL = "#!/bin/sh\nid -u >>{said}\nexec sleep 60\n"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="huskd must be another account")


class Installation:
    """husk and husk-launcher beside a huskd of the test, in a folder that its account may enter."""

    def __init__(self, huskd: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="husk-taken-"))
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.report = self.folder / "report"
        self.report.mkdir()
        shutil.chown(self.report, "husk", "husk")
        (self.folder / "bin").mkdir()
        for name in ("husk", "husk-launcher"):
            shutil.copy(BIN / name, self.folder / "bin" / name)
        (self.folder / "lib").symlink_to(BIN.parent / "lib")
        (self.folder / "bin/huskd").write_text(huskd)
        (self.folder / "bin/huskd").chmod(0o755)
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "HUSK_TEST_REPORT": str(self.report),
        }

    def husk(self, *args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.folder / "bin/husk", *args],
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def down(self) -> subprocess.CompletedProcess[str]:
        return self.husk("down", "--data", self.data)

    def remove(self) -> None:
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def taken() -> Iterator[Installation]:
    one = Installation((ROOT / "tests/integration/lib/taken_huskd.py").read_text())
    try:
        yield one
    finally:
        one.remove()


# ---- a huskd that was taken over ----


def attempts_of(taken: Installation) -> dict[str, str]:
    file = taken.report / "attempts.json"
    wait_until(file.exists, "the attempts were made")
    found = json.loads(file.read_text())
    assert found["uid"] == pwd.getpwnam("husk").pw_uid
    attempts: dict[str, str] = found["attempts"]
    return attempts


@needs_root
@pytest.mark.parametrize("plan", [False, True])
def test_a_taken_huskd_reaches_nothing_of_the_supervisors(taken: Installation, plan: bool) -> None:
    more: list[str | Path] = []
    if plan:
        file = taken.folder / "plan.json"
        rest = {"folder": str(taken.folder), "sdk": "", "agents": [], "failed": []}
        file.write_text(json.dumps({"version": 1, "python": PYTHON} | rest))
        more = ["--agents-plan", file]
    done = taken.husk("up", "--detach", "--data", taken.data, "--listen", "none", *more)
    assert done.returncode == 0, done.stderr
    attempts = attempts_of(taken)
    assert len(attempts) >= 30
    assert {n: w for n, w in attempts.items() if not w.startswith("refused")} == {}
    assert taken.down().returncode == 0
    owner = {p.name: p.stat().st_uid for p in taken.data.iterdir()}
    assert owner == {"husk.log": 0, "settings": 0, "store": pwd.getpwnam("husk").pw_uid}


def worker_started(taken: Installation) -> bool:
    """Whatever name the log has by now."""
    found = False
    for path in taken.data.iterdir():
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            found = found or (path.is_file() and "worker_started" in path.read_text())
    return found


@needs_root
def test_a_taken_huskd_does_not_become_root(taken: Installation) -> None:
    """The log as a plan, exchanged for the real one at the next start of `husk agents up`."""
    said = taken.report / "said"
    evil = taken.report / "python"
    evil.write_text(EVIL.format(said=said))
    evil.chmod(0o755)
    project = taken.folder / "project"
    (project / "agents/echo").mkdir(parents=True)
    (project / "agents/echo/agent.py").write_text(AGENT)
    agent = {"name": "echo", "kind": "agent", "framework": "callable", "main": False}
    agent |= {"file": str(project / "agents/echo/agent.py"), "route_prefix": "/agents/echo"}
    agent |= {"num_cpus": 1.0, "num_gpus": 0.0, "memory_bytes": 128 << 20, "replicas": 1}
    agent |= {"streams": [], "chat": False, "max_in_flight": 1, "queue_length": 1}
    rows = [agent | {"request_timeout_ms": 1000, "retries": 0}]
    plan = {"version": 1, "python": str(evil), "folder": "/", "sdk": "", "agents": rows}
    (taken.report / "evil.json").write_text(json.dumps(plan | {"failed": []}))
    # fmt: off
    up = ("agents", "up", str(project), "--detach", "--data", str(taken.data), "--listen", "none", "--python", PYTHON)
    # fmt: on
    for _ in range(6):  # a race: one try may be lost by chance
        done = taken.husk(*up, HUSK_TEST_ROOT="1")
        assert done.returncode == 0, done.stderr
        wait_until(lambda: said.exists() or worker_started(taken), "a worker runs")
        assert not said.exists(), f"as user {said.read_text()} on the host"
        assert taken.down().returncode == 0


# ---- descriptors ----


def start_on_terminal(server: Server) -> tuple[subprocess.Popen[bytes], int]:
    """husk up in the foreground of a session whose terminal is ours."""
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    # fmt: off
    process = subprocess.Popen(
        [BIN / "husk", "up", "--data", server.data, "--listen", f"127.0.0.1:{server.port}", "--socket", server.socket],
        stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal,
    )
    # fmt: on
    os.close(theirs)
    return process, ours


def read_terminal(ours: int, until: str) -> str:
    text = ""
    while until not in text:
        try:
            text += os.read(ours, 4096).decode()
        except OSError as error:  # each process that had it is gone
            raise AssertionError(f"no {until!r} in {text!r}") from error
    return text


def test_daemon_and_launcher_have_no_terminal() -> None:
    server = Server()
    process, ours = start_on_terminal(server)
    try:
        read_terminal(ours, "Ctrl-C stops it.")
        assert os.readlink(f"/proc/{process.pid}/fd/0").startswith("/dev/pts/")
        # Children alone: what the launcher forks has its name until it execs.
        found = {p.name: p.pid for p in below(process.pid) if p.parent == process.pid}
        for name in ("huskd", "husk-launcher"):
            links = links_of(found[name])
            assert links[0] == "/dev/null", name
            assert links[1] == links[2] and links[1].startswith("pipe:"), name
            assert not [where for where in links.values() if "/dev/pts" in where], name
            assert int(Path(f"/proc/{found[name]}/stat").read_text().split()[6]) == 0, name
        # What the daemon logs still reaches the terminal.
        os.kill(found["huskd"], signal.SIGHUP)
        read_terminal(ours, "settings_read")
        os.write(ours, b"\x03")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        server.remove()


def test_why_it_cannot_start_reaches_the_terminal() -> None:
    server = Server()
    server.folder.chmod(0o700 if os.geteuid() == 0 else 0o755)
    if os.geteuid() != 0:
        server.make_store()
        server.store.chmod(0o500)
    process, ours = start_on_terminal(server)
    try:
        text = read_terminal(ours, "the server could not start")
        assert f"huskd: the data folder {server.data} is out of reach" in text
        assert process.wait(PATIENCE) == 125
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        server.remove()


@needs_root
def test_huskd_of_root_has_no_capability_in_any_set() -> None:
    """The bounding set too: else an exec of a set-uid program could give some back."""
    with Server.run() as server:
        status = Path(f"/proc/{server.pid_of_huskd()}/status").read_text()
        sets = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
        assert sorted(sets) == ["CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm"]
        assert {int(value, 16) for value in sets.values()} == {0}, sets


# ---- what huskd prints ----

BEGIN = """#!/usr/bin/python3
import os, signal, socket, struct
link = socket.socket(fileno=3)
link.recvmsg(1 << 17, socket.CMSG_SPACE(64))
"""
READY = (
    'link.send(struct.pack("=I", os.getpid()))\n'
    'link.send(struct.pack("=III", os.getpid(), 1, 0))\n'  # and programs run
)
FLOOD = BEGIN + READY + 'while True:\n    os.write(1, b"x" * 1000 + b"\\n")\n'
ESCAPES = f"""{BEGIN}{READY}
os.write(2, b"\\x1b]0;owned\\x07 \\x1b[2J\\rforged\\n")
link.recv(1)
"""
ORPHAN = f"""{BEGIN}
def left(n, f):
    for stream in (1, 2):
        try:
            os.write(stream, b"on my own\\n")
        except BrokenPipeError:
            pass
    open(os.environ["HUSK_TEST_REPORT"] + "/finished", "w").close()
    os._exit(0)

signal.signal(signal.SIGPIPE, signal.SIG_IGN)
signal.signal(signal.SIGTERM, left)
{READY}
while True:
    signal.pause()
"""


@pytest.fixture
def printing(request: pytest.FixtureRequest) -> Iterator[Installation]:
    one = Installation(request.param)
    try:
        yield one
    finally:
        one.remove()


def log_size(one: Installation) -> int:
    return sum(size for path, size in sizes(one.data).items() if path.name.startswith("husk.log"))


@needs_root
@pytest.mark.parametrize("printing", [FLOOD], indirect=True, ids=["flood"])
def test_a_flood_fills_no_disk_and_holds_nobody_up(printing: Installation) -> None:
    done = printing.husk("up", "--detach", "--data", printing.data, "--listen", "none")
    assert done.returncode == 0, done.stderr
    log = printing.data / "husk.log"
    wait_until(lambda: "output_dropped source=huskd" in log.read_text(), "lines were dropped")
    assert log_size(printing) < 40 << 20
    start = time.monotonic()
    assert printing.husk("down", "--data", printing.data).returncode == 0
    assert time.monotonic() - start < 30
    assert log_size(printing) < 40 << 20


@needs_root
@pytest.mark.parametrize("printing", [ESCAPES], indirect=True, ids=["escapes"])
def test_control_characters_of_huskd_are_shown_as_text(printing: Installation) -> None:
    done = printing.husk("up", "--detach", "--data", printing.data, "--listen", "none")
    assert done.returncode == 0, done.stderr
    log = printing.data / "husk.log"
    wait_until(lambda: "forged" in log.read_text(), "it was logged")
    assert b"\x1b" not in log.read_bytes() and b"\r" not in log.read_bytes()
    assert "\\x1b]0;owned\\x07 \\x1b[2J\\x0dforged\n" in log.read_text()


@needs_root
@pytest.mark.parametrize("printing", [ORPHAN], indirect=True, ids=["orphan"])
def test_a_huskd_without_supervisor_can_still_finish(printing: Installation) -> None:
    done = printing.husk("up", "--detach", "--data", printing.data, "--listen", "none")
    assert done.returncode == 0, done.stderr
    os.kill(int((printing.data / "husk.pid").read_text()), signal.SIGKILL)
    wait_until((printing.report / "finished").exists, "it has finished")


@needs_root
def test_what_workers_print_is_in_the_log_of_a_detached_server() -> None:
    server = Server()
    (server.folder / "agents/echo").mkdir(parents=True)
    (server.folder / "agents/echo/agent.py").write_text(AGENT + "print('I am a worker')\n")
    # fmt: off
    up: list[str | Path] = [BIN / "husk", "agents", "up", server.folder, "--detach", "--data", server.data, "--listen", "none", "--python", PYTHON]
    # fmt: on
    down: list[str | Path] = [BIN / "husk", "down", "--data", server.data]
    try:
        subprocess.run(up, capture_output=True, timeout=PATIENCE, check=True)
        log = server.data / "husk.log"
        wait_until(lambda: "I am a worker\n" in log.read_text(), "it was logged")
        subprocess.run(down, capture_output=True, timeout=PATIENCE, check=True)
        assert not (server.data / "agents.json").exists()
    finally:
        subprocess.run(down, capture_output=True, timeout=PATIENCE, check=False)
        server.remove()


# ---- folders of before ----


def make_old(server: Server) -> None:
    """As an older husk left it: all of it is the daemon's, and a log of root's is in it."""
    for path in list(server.store.iterdir()):
        path.rename(server.data / path.name)
    server.store.rmdir()
    (server.data / "settings").unlink()
    (server.data / "husk.log").write_text("of before\n")
    (server.data / "agents.json").write_text("{}")
    server.data.chmod(0o700)
    if os.geteuid() == 0:
        shutil.chown(server.data, "husk", "husk")


def test_an_old_folder_is_taken_over_with_its_sessions() -> None:
    with Server.run() as server:
        api = Api(server.port)
        session = api.session()
        api.run(session, "open('kept.txt', 'w').write('here'); kept = 1")
        assert server.stop() == 0
        make_old(server)
        server.start()
        assert api.run(session, "open('kept.txt').read()")["value"] == "'here'"
        assert sorted(p.name for p in server.data.iterdir()) == [
            "husk.pid",
            "husk.sock",
            "settings",
            "store",
        ]
        assert (server.store / "husk.log").read_text() == "of before\n"
        assert server.data.stat().st_uid == os.geteuid()
        server.stop()
        server.start()  # and is one like others from then on
        assert api.run(session, "open('kept.txt').read()")["value"] == "'here'"


# ---- settings ----


def test_a_broken_file_does_not_keep_the_server_up() -> None:
    server = Server()
    file = server.folder / "husk.conf"
    file.write_text("drain_timeout = 3s\n")
    server.flags = ("--config", str(file))
    try:
        server.start()
        file.write_text(f"drain_timeout = soon\nno_such_key = 1\ndata = {server.data}\n")
        done = subprocess.run(
            [BIN / "husk", "down", "--config", file],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "husk is down\n"), done.stderr
        assert "soon" in done.stderr  # what is wrong is still told
        assert server.process.wait(PATIENCE) == 0
        saved = (server.data / "settings").read_bytes().split(b"\0")
        assert b"drain_timeout=3s" in saved
    finally:
        server.remove()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("text", ["data = relative\n", None])
def test_down_does_not_guess_which_server_is_meant(text: str | None, named: bool) -> None:
    """The file has a data folder that is refused, or is not there at all. --data replaces it."""
    with Server.run() as server:
        file = server.folder / "husk.conf"
        if text is not None:
            file.write_text(text)
        more = ["--data", str(server.data)] if named else []
        done = subprocess.run(
            [BIN / "husk", "down", "--config", file, *more],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stdout) == ((0, "husk is down\n") if named else (125, ""))
        assert str(file) in done.stderr and "no server runs" not in done.stderr
        assert server.is_running() != named


# ---- the account ----


@needs_root
def test_without_its_account_root_serves_nothing() -> None:
    """In a mount namespace whose /etc/passwd has no husk."""
    server = Server()
    try:
        accounts = Path("/etc/passwd").read_text().splitlines(keepends=True)
        other = server.folder / "passwd"
        other.write_text("".join(line for line in accounts if not line.startswith("husk:")))
        script = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
        up = [str(BIN / "husk"), "up", "--data", str(server.data), "--listen", "none"]
        without = ["unshare", "--mount", "sh", "-c", script, "sh", str(other)]
        done = subprocess.run(
            [*without, *up], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 125
        assert "there is no account 'husk' for huskd" in done.stderr
        assert "useradd --system" in done.stderr and "--user" in done.stderr
        assert not server.data.exists()
        done = subprocess.run(
            [*without, *up, "--user", "nobody", "--detach"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert server.store.stat().st_uid == pwd.getpwnam("nobody").pw_uid
        down = [str(BIN / "husk"), "down", "--data", str(server.data)]
        subprocess.run([*without, *down], timeout=PATIENCE, check=True, capture_output=True)
    finally:
        server.remove()


# ---- addresses ----


@pytest.mark.parametrize("command", [["husk", "up"], ["husk", "agents", "up"], ["rayai", "up"]])
def test_other_machines_are_let_in_only_when_told_so(command: list[str]) -> None:
    server = Server()
    try:
        (server.folder / "agents").mkdir()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HUSK_", "SANDBOX_"))}
        where = ["--data", str(server.data), "--listen", f"0.0.0.0:{server.port}"]
        done = subprocess.run(
            [BIN / command[0], *command[1:], *where],
            cwd=server.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == (1 if command[0] == "rayai" else 125)
        assert f"other machines can reach 0.0.0.0:{server.port}" in done.stderr
        assert "--insecure-listen" in done.stderr
        assert not server.data.exists()
    finally:
        server.remove()


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_insecure_listen_is_a_setting_like_others(how: str) -> None:
    server = Server()
    port = free_port()
    file = server.folder / "husk.conf"
    file.write_text("insecure_listen = true\n" if how == "file" else "")
    flags = {"flag": ["--insecure-listen"], "file": ["--config", str(file)]}.get(how, [])
    server.flags = ("--listen", f"0.0.0.0:{port}", *flags)
    server.variables = {"HUSK_INSECURE_LISTEN": "1"} if how == "variable" else {}
    try:
        server.start()
        server.wait_said(f"warning: 0.0.0.0:{port} can be reached from other machines")
    finally:
        server.remove()
