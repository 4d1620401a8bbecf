# SPDX-License-Identifier: Apache-2.0
"""husk up and husk down: starting, refusing to start, living side by side, ending."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from audit import Audit, check_all_gone, wait_tree
from husk_server import Server, one  # noqa: F401
from places import BIN
from v1_client import Api, answer_to
from waiting import PATIENCE, wait_until

EXIT_HUSK = 125
NOBODY = pwd.getpwnam("nobody").pw_uid
HUSK = pwd.getpwnam("husk").pw_uid if os.geteuid() == 0 else -1
COUNT = "import time\nfor i in range({n}):\n    print(i, flush=True)\n    time.sleep({pause})\n"


def husk(
    *args: str | Path, env: dict[str, str] | None = None, user: int | None = None
) -> subprocess.CompletedProcess[str]:
    """A husk that is expected to end by itself."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HUSK_", "SANDBOX_"))}
    return subprocess.run(
        [BIN / "husk", *args],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**clean, **(env or {})},
        user=user,
    )


def up_args(server: Server) -> list[str | Path]:
    address = f"127.0.0.1:{server.port}"
    return ["up", "--data", server.data, "--listen", address, "--socket", server.socket]


def is_ready(server: Server) -> bool:
    try:
        return server.get("/api/v1/health/ready").status == 200
    except OSError:
        return False


# ---- places ----


def test_what_only_root_can_enter_serves_too(tmp_path: Path) -> None:
    """As with a clone in root's home: the daemon's account has no way to its own program."""
    closed = tmp_path / "closed"
    shutil.copytree(BIN, closed / "bin")
    shutil.copytree(BIN.parent / "lib" / "husk", closed / "lib" / "husk")
    closed.chmod(0o700)
    server = Server()
    server.programs = closed / "bin"
    try:
        server.start()
        with pytest.raises(PermissionError):
            subprocess.run([closed / "bin" / "huskd"], user=NOBODY, check=False)
        assert server.post("/run", {"code": "print(6 * 7)"}).json["stdout"] == "42\n"
        api = Api(server.port)
        assert api.run(api.session(), "6 * 7")["value"] == "42"
    finally:
        server.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="huskd must be another account")
def test_a_strict_umask_locks_the_account_out_of_nothing() -> None:
    server = Server()
    server.data = server.folder / "made" / "on the way" / "data"
    server.socket = server.data / "husk.sock"
    before = os.umask(0o077)
    try:
        server.start()
        templates = {"HUSK_TEMPLATE_DIR": str(server.templates)}
        done = husk("template", "add", "mine", "--python", "/usr/bin/python3", env=templates)
        assert done.returncode == 0, done.stderr
        api = Api(server.port)
        assert api.run(api.session(template_id="mine"), "6 * 7")["value"] == "42"
    finally:
        os.umask(before)
        server.remove()


# ---- refusals ----


def test_second_server_on_the_same_data_is_refused(one: Server) -> None:
    other = Server()
    api = Api(one.port)
    session = api.session()
    api.run(session, "kept = 1")
    try:
        done = husk("up", "--data", one.data, "--listen", f"127.0.0.1:{other.port}")
        assert done.returncode == EXIT_HUSK
        assert f"husk is up already with {one.data} (process {one.process.pid})" in done.stderr
        assert "husk down" in done.stderr and len(done.stderr.splitlines()) == 1
        assert api.run(session, "kept")["value"] == "1"  # the first one is unharmed
    finally:
        other.remove()


def test_daemon_refuses_to_be_started_by_hand() -> None:
    done = subprocess.run(
        [BIN / "huskd", "--help"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (1, "huskd: started by `husk up`, not by hand\n")


def test_taken_port_is_refused() -> None:
    server = Server()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.port))
        taken.listen()
        done = husk(*up_args(server))
    try:
        assert done.returncode == EXIT_HUSK
        assert f"listen on 127.0.0.1:{server.port} (choose another with --listen" in done.stderr
        assert "Address already in use" in done.stderr
        assert not server.socket.exists() and not (server.data / "husk.pid").exists()
        server.start()  # nothing is in the way any more
    finally:
        server.remove()


def test_taken_socket_is_refused(one: Server) -> None:
    other = Server()
    other.socket = one.socket
    try:
        done = husk(*up_args(other))
        assert done.returncode == EXIT_HUSK
        assert f"another server listens on {one.socket}" in done.stderr
        assert one.over_socket("GET", "/health").status == 200
        one.socket.with_name("plain").write_text("mine")
        other.socket = one.socket.with_name("plain")
        done = husk(*up_args(other))
        assert done.returncode == EXIT_HUSK and "is not a socket" in done.stderr
        assert other.socket.read_text() == "mine"
    finally:
        other.socket = other.data / "husk.sock"
        other.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another account")
def test_data_of_another_account_is_refused() -> None:
    server = Server()
    try:
        server.data.mkdir()
        os.chown(server.data, pwd.getpwnam("daemon").pw_uid, -1)
        done = husk(*up_args(server))
        assert done.returncode == EXIT_HUSK
        assert f"{server.data} belongs to another account" in done.stderr
        assert list(server.data.iterdir()) == []
    finally:
        server.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder of root's away")
@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_a_folder_of_other_things_is_not_given_away(more: list[str]) -> None:
    """As with --data / or a home."""
    server = Server()
    try:
        (server.data / "lost+found").mkdir(parents=True)
        (server.data / "something").mkdir()
        done = husk(*up_args(server), *more)
        assert done.returncode == EXIT_HUSK
        assert f"{server.data} is no data folder, it holds something" in done.stderr
        assert server.data.stat().st_uid == 0
        assert sorted(os.listdir(server.data)) == ["lost+found", "something"]
        (server.data / "something").rmdir()
        server.start()
        assert server.data.stat().st_uid == 0 and server.store.stat().st_uid == HUSK
    finally:
        server.remove()


def test_data_behind_a_closed_folder_is_refused() -> None:
    server = Server()
    try:
        server.folder.chmod(0o700)
        done = husk(*up_args(server))
        assert done.returncode == EXIT_HUSK
        assert f"the data folder {server.data} is out of reach" in done.stderr
        assert "--data names another one" in done.stderr
    finally:
        server.remove()


@pytest.mark.parametrize(
    "flags, env, words",
    [
        (["--max-sessions", "many"], {}, ["max-sessions", "many"]),
        (["--memory", "1"], {}, ["memory"]),
        (["--listen", "nowhere"], {}, ["listen", "nowhere"]),
        (["--no-such-setting", "1"], {}, ["no-such-setting"]),
        ([], {"HUSK_MAX_SESSIONS": "-1"}, ["HUSK_MAX_SESSIONS", "-1"]),
        (["--user", "no-such-account"], {}, ["no-such-account"]),
    ],
)
def test_bad_settings_are_named_and_nothing_starts(
    flags: list[str], env: dict[str, str], words: list[str]
) -> None:
    server = Server()
    try:
        done = husk(*up_args(server), *flags, env=env)
        assert done.returncode != 0
        for word in words:
            assert word in done.stderr, done.stderr
        assert not server.data.exists() or list(server.data.iterdir()) == []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", server.port))  # no listener is left there
    finally:
        server.remove()


# ---- side by side ----


def test_two_servers_do_not_know_each_other(one: Server) -> None:
    with Server.run() as two:
        apis = [Api(one.port), Api(two.port)]
        sessions = [api.session() for api in apis]
        for i, api in enumerate(apis):
            api.run(sessions[i], f"who = {i}")
        for i, api in enumerate(apis):
            assert api.run(sessions[i], "who")["value"] == str(i)
            assert api.get(f"/sessions/{sessions[1 - i]}").status == 404
        tree = wait_tree(two)
        assert two.stop() == 0
        check_all_gone(tree.everyone, [tree.launcher], "the end of one of two servers")
        assert apis[0].run(sessions[0], "who")["value"] == "0"
        Audit(one).check()


# ---- in the background ----


class Hasty(Server):
    """For a client that waits only until it says that it is up, not until it is ready."""

    def wait_ready(self) -> None:
        self.wait_said("husk is ready on")


def test_what_says_that_it_is_up_takes_work() -> None:
    body = {"handler_code": "def handler(event): return event", "event": {"a": 1}}
    with Hasty.run() as server:
        answer = server.post("/workspace/se/v2/execute_code", body)
    assert (answer.status, answer.json["result"]) == (200, {"a": 1}), answer.text


def test_detach_and_down() -> None:
    server = Server()
    try:
        done = husk(*up_args(server), "--detach")
        assert done.returncode == 0, done.stderr
        assert f"http://127.0.0.1:{server.port}" in done.stdout and "husk down" in done.stdout
        assert server.get("/health").status == 200  # it serves when the command returns
        again = husk(*up_args(server), "--detach")
        assert again.returncode == EXIT_HUSK
        assert again.stderr.startswith(f"husk: husk is up already with {server.data} (process ")
        assert again.stderr.count("\n") == 1
        assert server.get("/health").status == 200
        down = husk("down", "--data", server.data)
        assert (down.returncode, down.stdout) == (0, "husk is down\n")
        with pytest.raises(OSError):
            server.get("/health")
        assert not server.socket.exists() and not (server.data / "husk.pid").exists()
        down = husk("down", "--data", server.data)
        assert down.returncode == EXIT_HUSK and "no server runs" in down.stderr
    finally:
        husk("down", "--data", server.data)
        shutil.rmtree(server.folder, ignore_errors=True)


def test_output_that_nobody_takes_fails_neither_start_nor_end() -> None:
    server = Server()
    try:
        with open("/dev/full", "w", encoding="utf-8") as full:
            up = subprocess.run(
                [BIN / "husk", *up_args(server), "--detach"], stdout=full, check=False
            )
            assert (up.returncode, server.get("/health").status) == (0, 200)
            down = subprocess.run(
                [BIN / "husk", "down", "--data", server.data], stdout=full, check=False
            )
        assert down.returncode == 0
        assert husk("down", "--data", server.data).returncode == EXIT_HUSK
    finally:
        husk("down", "--data", server.data)
        server.remove()


def test_the_longest_data_folder() -> None:
    with Server.run() as server:
        server.stop()
        server.socket = server.folder / "husk.sock"
        most = 480
        deep = server.folder / ("d" * 200)
        server.data = deep / ("e" * (most - len(str(deep)) - 1))
        assert len(str(server.data)) == most
        server.start()
        api = Api(server.port)
        assert api.run(api.session(), "6 * 7")["value"] == "42"
        done = husk("config", "check", "--socket", "/run/x", "--data", f"{server.data}e")
        assert done.returncode == 1 and f"expected at most {most} characters" in done.stderr


def test_detach_says_why_it_cannot_start() -> None:
    server = Server()
    try:
        server.folder.chmod(0o700)
        done = husk(*up_args(server), "--detach")
        assert done.returncode == EXIT_HUSK
        said = done.stderr.splitlines()
        assert f"the data folder {server.data} is out of reach" in said[0]
        assert said[1:] == ["husk: the server could not start"]
        assert (server.data / "husk.log").read_text() == done.stderr
        (server.folder / "file").touch()
        done = husk("up", "--detach", "--data", server.folder / "file" / "data")
        assert done.stderr == f"husk: cannot create {server.folder}/file/data: Not a directory\n"
    finally:
        server.remove()


def test_down_needs_no_room_for_a_socket() -> None:
    """As with a project in a deep folder: the socket is elsewhere, and down is told --data
    alone.
    """
    server = Server()
    server.socket = server.folder / "husk.sock"
    server.data = server.folder / ("d" * 120)
    try:
        assert husk(*up_args(server), "--detach").returncode == 0
        down = husk("down", "--data", server.data)
        assert (down.returncode, down.stdout) == (0, "husk is down\n"), down.stderr
    finally:
        husk("down", "--data", server.data, "--socket", server.socket)
        server.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_ordinary_user_ends_what_it_started() -> None:
    server = Server("--min-isolation", "userns")
    os.chown(server.folder, NOBODY, NOBODY)
    try:
        done = husk(*up_args(server), *server.flags, "--detach", user=NOBODY)
        assert done.returncode == 0, done.stderr
        down = husk("down", "--data", server.data)  # root does not trust that user's files
        assert down.returncode == EXIT_HUSK and f"(id {NOBODY})" in down.stderr
        assert server.get("/health").status == 200
        down = husk("down", "--data", server.data, user=NOBODY)
        assert (down.returncode, down.stdout) == (0, "husk is down\n"), down.stderr
    finally:
        husk("down", "--data", server.data, user=NOBODY)
        server.remove()


# ---- files that the account of the daemon has put there ----

HOLD = """import fcntl, sys
path = sys.argv[1] + "/husk.pid"
if sys.argv[2:]:
    open(path, "w").write(sys.argv[2])
held = open(path)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="plays another account")
@pytest.mark.parametrize("whose", ["the account", "root"])
def test_down_ends_nobody_whom_the_account_names(whose: str) -> None:
    """husk.pid names a process of root's and is locked, but by no server."""
    server = Server()
    victim = subprocess.Popen(["sleep", "600"])
    try:
        server.data.mkdir()
        os.chown(server.data, NOBODY, NOBODY)
        words = [str(victim.pid)]
        if whose == "root":  # left from a server of root's that was killed
            (server.data / "husk.pid").write_text(words.pop())
        with subprocess.Popen(
            ["/usr/bin/python3", "-c", HOLD, server.data, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=NOBODY,
        ) as holder:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
            down = husk("down", "--data", server.data)
            assert down.returncode == EXIT_HUSK and down.stdout == ""
            assert holder.poll() is None
            holder.communicate()
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
        server.remove()


def test_a_pipe_in_place_of_the_log_holds_nobody() -> None:
    server = Server()
    try:
        server.make_store()
        os.mkfifo(server.data / "husk.log")
        done = husk(*up_args(server), "--detach")
        assert done.returncode == EXIT_HUSK
        assert f"{server.data}/husk.log" in done.stderr and "is no plain file" in done.stderr
        assert not (server.data / "husk.pid").exists()
    finally:
        server.remove()


# ---- in a container ----


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a namespace of processes")
def test_first_program_of_a_container() -> None:
    """As its entry point, husk up is PID 1 and the parent of all."""
    server = Server()
    outer = subprocess.Popen(
        ["unshare", "-p", "-f", "--mount-proc", "--kill-child", BIN / "husk", *up_args(server)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: outer.poll() is not None or is_ready(server), "it serves")
        assert server.post("/run", {"code": "print(6 * 7)"}).json["stdout"] == "42\n"
        first = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
        os.kill(int(first), signal.SIGTERM)
        assert outer.wait(PATIENCE) == 0
    finally:
        outer.kill()
        outer.wait()
        server.remove()


# ---- the end ----


def test_requests_in_flight_are_finished(one: Server) -> None:
    """SIGTERM: a running request gets its answer, files are saved, nothing is left, all is there
    the next time.
    """
    api = Api(one.port)
    session = api.session()
    code = COUNT.format(n=10, pause=0.1) + "open('left.txt', 'w').write('here')"
    asked = api.begin("POST", f"/sessions/{session}/execute-sync", {"code": code})
    api.wait_busy(session)
    tree = wait_tree(one)
    assert one.stop() == 0
    check_all_gone(tree.everyone, [tree.launcher], "SIGTERM")
    assert not one.socket.exists()
    answer = answer_to(asked)
    assert answer["status"] == "completed"
    assert answer["stdout"] == "".join(f"{i}\n" for i in range(10))
    one.start()
    stored = api.get(f"/executions/{answer['execution_id']}").body
    assert (stored["status"], stored["stdout"]) == ("completed", answer["stdout"])
    assert api.run(session, "open('left.txt').read()")["value"] == "'here'"
    Audit(one).check()


def test_an_execution_that_nobody_waits_for_is_told_as_lost(one: Server) -> None:
    """It cannot outlive the end of everything; what it wrote stays."""
    api = Api(one.port)
    session = api.session()
    execution = api.start(session, COUNT.format(n=600, pause=0.1))
    api.wait_output(execution, "2\n")
    assert one.stop() == 0
    one.start()
    state = api.get(f"/executions/{execution}").body
    assert state["status"] == "lost" and state["stdout"].startswith("0\n1\n2\n")
    assert state["error"]["type"] == "lost"
    assert api.run(session, "1 + 1")["value"] == "2"
    Audit(one).check()


def test_killed_supervisor_leaves_nothing(one: Server) -> None:
    """kill -9 of husk up: everything ends by itself, and the next one starts at once."""
    api = Api(one.port)
    session = api.session()
    api.run(session, "open('f.txt', 'w').write('saved')")
    tree = wait_tree(one)
    one.process.kill()
    one.process.wait()
    one.start()
    check_all_gone(tree.everyone, [tree.launcher], "kill -9 of the supervisor")
    assert api.run(session, "open('f.txt').read()")["value"] == "'saved'"
    Audit(one).check()


def test_stopping_twice_is_at_once() -> None:
    """A second signal does not wait for a request that takes its time."""
    with Server.run("--drain-timeout", "50") as one:
        api = Api(one.port)
        session = api.session()
        body = {"code": "import time; time.sleep(60)", "timeout": 60}
        asked = api.begin("POST", f"/sessions/{session}/execute-sync", body)
        api.wait_busy(session)
        idle = one.connection()
        assert one.request("GET", "/health", connection=idle).status == 200
        tree = wait_tree(one)
        start = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert idle.sock.recv(1) == b"", "a connection without a request is closed at once"
        assert one.process.poll() is None  # it waits for the request
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(PATIENCE) == 0
        assert time.monotonic() - start < 45, "it waited for the drain time"
        check_all_gone(tree.everyone, [tree.launcher], "two signals")
        asked.close()


def test_keys_of_whoever_starts_it_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings reach launcher and daemon, other variables of the shell do not: they may be
    secrets.
    """
    monkeypatch.setenv("MODEL_API_KEY", "not-for-the-daemon")
    monkeypatch.setenv("TZ", "UTC")
    with Server.run() as server:
        tree = wait_tree(server)
        for pid in (tree.huskd, tree.launcher):
            variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
            assert "TZ=UTC" in variables
            assert not [v for v in variables if "not-for-the-daemon" in v]


@pytest.mark.skipif(os.geteuid() != 0, reason="huskd must be another account")
def test_the_daemon_is_its_account_and_has_nothing_of_roots() -> None:
    """Neither a group nor a descriptor of the process that starts it."""
    server = Server()
    server.before = ("/bin/sh", "-c", 'exec 9</ && exec setpriv --groups 4,5 "$@"', "sh")
    try:
        server.start()
        tree = wait_tree(server)
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{tree.huskd}/status").read_text().splitlines()
        )
        account = pwd.getpwuid(int(status["Uid"].split()[0]))
        assert account.pw_uid != 0
        assert status["Uid"].split() == [str(account.pw_uid)] * 4
        assert status["Gid"].split() == [str(account.pw_gid)] * 4
        assert status["Groups"].split() == []
        for pid in (tree.huskd, tree.launcher):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    assert not os.path.samestat(descriptor.stat(), os.stat("/")), descriptor
    finally:
        server.remove()
