# SPDX-License-Identifier: Apache-2.0
"""Finding programs and servers, and the server that a process starts for itself: it never outlives
it.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SdkServer
from places import BIN
from procfs import below, pids_with, processes
from waiting import PATIENCE, wait_until

from husk import Client, Sandbox, errors, locate


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HUSK_URL", "HUSK_SOCKET"):
        monkeypatch.delenv(name, raising=False)


# ---- programs ----


def test_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HUSK_BIN", str(BIN))
    assert locate.program("husk") == str(BIN / "husk")
    monkeypatch.setenv("HUSK_BIN", str(tmp_path))
    with pytest.raises(errors.ProgramNotFoundError, match="HUSK_BIN"):
        locate.program("husk")
    monkeypatch.delenv("HUSK_BIN")
    (tmp_path / "husk").write_text("#!/bin/sh\n")
    (tmp_path / "husk").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert locate.program("husk") == str(tmp_path / "husk")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError):
        locate.program("no-such-program")


def test_the_checkout_that_pip_installed_from(tmp_path: Path) -> None:
    """A copy in site-packages finds the programs of the checkout that it was made from."""
    checkout, site = tmp_path / "my checkout", tmp_path / "site"
    (checkout / "build" / "bin").mkdir(parents=True)
    (checkout / "build" / "bin" / "husk").write_text("#!/bin/sh\n")
    (checkout / "build" / "bin" / "husk").chmod(0o755)
    shutil.copytree(ROOT / "sdk" / "python" / "husk", site / "husk")
    about = site / "husk-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: husk\nVersion: 0.1.0\n")
    code = "from husk import locate; print(locate.program('husk'))"
    env = {"PYTHONPATH": f"{site}{os.pathsep}{os.pathsep.join(sys.path)}", "PATH": "/none"}

    def ask() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True)

    url = (checkout / "sdk" / "python").as_uri()
    (about / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {}}))
    done = ask()
    assert done.stdout.strip() == str(checkout / "build" / "bin" / "husk"), done.stderr
    for other in ("{", "{}", json.dumps({"url": "https://host/sdk/python"})):
        (about / "direct_url.json").write_text(other)
        assert "is not in PATH" in ask().stderr


def test_no_server_and_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The server is what is missing; a program is only one way to get one."""
    monkeypatch.setenv("HUSK_BIN", str(tmp_path))
    nowhere = [locate.Address(str(tmp_path / "a.sock"), "http://localhost")]
    nowhere.append(locate.parse("http://127.0.0.1:1"))
    monkeypatch.setattr(locate, "default_addresses", lambda: nowhere)
    with pytest.raises(errors.ServerNotFoundError) as caught:
        Sandbox()
    said = str(caught.value)
    assert said.startswith(f"No server found at unix://{tmp_path}/a.sock, http://127.0.0.1:1")
    assert "husk up" in said and "HUSK_URL" in said and "HUSK_BIN" in said


# ---- servers that are named ----


def test_addresses() -> None:
    assert locate.parse("unix:///run/x.sock") == locate.Address("/run/x.sock", "http://localhost")
    assert locate.parse("http://h:8000/") == locate.Address(None, "http://h:8000")
    assert str(locate.parse("unix:///run/x.sock")) == "unix:///run/x.sock"
    assert locate.parse("https://h").environment == {"HUSK_URL": "https://h"}
    impossible = ("http://h:99999", "http://h:abc", "http://a..b", "http://[::1")
    for bad in ("", "h:8000", "ftp://h", "unix://", "http://", "/run/x.sock", *impossible):
        with pytest.raises(errors.InvalidParameterError):
            locate.parse(bad)


def test_who_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate.named() is None
    monkeypatch.setenv("HUSK_SOCKET", "/run/b.sock")
    assert str(locate.named()) == "unix:///run/b.sock"
    monkeypatch.setenv("HUSK_URL", "http://a:1")
    assert str(locate.named()) == "http://a:1"
    assert str(locate.named(socket="/run/c.sock")) == "unix:///run/c.sock"
    assert str(locate.named("http://d")) == "http://d"
    with pytest.raises(errors.InvalidParameterError):
        locate.named("http://d", "/run/c.sock")


def test_all_ways_lead_to_it(server: SdkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "default_addresses", list)
    for arguments in ({"url": server.url}, {"socket": server.socket}):
        with Sandbox(**arguments) as s:
            assert s.run("1").value == 1
    monkeypatch.setenv("HUSK_SOCKET", str(server.socket))
    with Sandbox() as s:
        assert s.client.address.socket == str(server.socket)
    monkeypatch.delenv("HUSK_SOCKET")
    default = locate.Address(str(server.socket), "http://localhost")
    monkeypatch.setattr(locate, "default_addresses", lambda: [default])
    with Sandbox() as s:
        assert s.client.address == default


def test_a_named_server_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(errors.ServerNotFoundError, match="husk up"):
        Sandbox(socket=tmp_path / "none.sock")
    with pytest.raises(ConnectionError):
        Sandbox(url="http://127.0.0.1:1")
    assert time.monotonic() - begin < 8, "a server that never answered is not waited for"


def test_default_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    found = [str(a) for a in locate.default_addresses()]
    assert found[0] == "unix:///run/husk/husk.sock" and "unix:///run/user/7/husk/husk.sock" in found
    assert found[-1] == "http://127.0.0.1:8000"


@pytest.fixture
def stranger() -> Iterator[str]:
    """A web server that is not huskd, on a port where one is looked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = b'{"name": "other"}' if self.path.endswith("/version") else b"<p>hello</p>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    web = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    web.server_close()


def test_somebody_else_is_not_taken_for_huskd(
    stranger: str, server: SdkServer, tmp_path: Path
) -> None:
    assert not locate.answers(locate.parse(stranger))
    assert not locate.answers(locate.Address(str(tmp_path / "none"), "http://localhost"))
    assert locate.answers(locate.parse(server.url))
    with Client(stranger) as client, pytest.raises(errors.ServerNotFoundError, match="not huskd"):
        client.health()


# ---- a server of one's own ----

OWN = """
import os, sys
from husk import Sandbox, locate
locate.default_addresses = list  # the test must not use other servers of this machine
with Sandbox() as s:
    assert s.run("6 * 7").value == 42
    print(s.client.address.socket, flush=True)
    {then}
"""


def start_own(then: str) -> tuple[subprocess.Popen[str], Path, list[int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWN.format(then=then)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    socket = Path(process.stdout.readline().strip())
    assert socket.name == "husk.sock"
    return process, socket.parent, pids_with(str(socket.parent), "cmdline")


def family(pids: list[int]) -> set[int]:
    """These processes and everything below them."""
    return {*pids, *(process.pid for pid in pids for process in below(pid))}


def check_gone(folder: Path, pids: set[int]) -> None:
    wait_until(lambda: not folder.exists(), f"{folder} is removed")
    wait_until(lambda: not any(Path(f"/proc/{p}").exists() for p in pids), "its processes are gone")


def test_it_ends_with_the_process() -> None:
    process, folder, pids = start_own("pass")
    assert process.wait(PATIENCE) == 0
    check_gone(folder, set(pids))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_process_is_killed(how: signal.Signals) -> None:
    process, folder, pids = start_own("import time; time.sleep(600)")
    everybody = family(pids)
    assert len(everybody) > 3, "the guard, husk up, the launcher, huskd"
    os.kill(process.pid, how)
    assert process.wait(PATIENCE) != 0
    check_gone(folder, everybody)


def test_nothing_is_left_when_its_guard_is_killed_too() -> None:
    """Some frameworks kill the children of a process one by one."""
    process, folder, pids = start_own("import time; time.sleep(600)")
    everybody = family(pids)
    guard = next(p for p in pids if processes()[p].parent == process.pid)
    os.kill(guard, signal.SIGKILL)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
    check_gone(folder, everybody)


def test_a_thread_that_ends_does_not_end_it() -> None:
    code = (
        "import threading\n"
        "from husk import Sandbox, locate\n"
        "locate.default_addresses = list\n"
        "boxes = []\n"
        "t = threading.Thread(target=lambda: boxes.append(Sandbox())); t.start(); t.join()\n"
        "assert boxes[0].run('1').value == 1\n"
        "again = Sandbox(); assert again.client.address == boxes[0].client.address, 'one for all'\n"
        "again.close(); boxes[0].close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_forked_process_does_not_keep_it() -> None:
    then = (
        "pid = os.fork()\n"
        "    if pid == 0: import time; time.sleep(600)\n"
        "    print(pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)"
    )
    process, folder, pids = start_own(then)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.wait(PATIENCE)
        check_gone(folder, set(pids))
        assert Path(f"/proc/{child}").exists(), "it lives on, and is no reason for the server to"
    finally:
        os.kill(child, signal.SIGKILL)


def test_one_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "husk").write_text("#!/bin/sh\necho 'no cgroups here' >&2\nexit 125\n")
    (tmp_path / "husk").chmod(0o755)
    monkeypatch.setenv("HUSK_BIN", str(tmp_path))
    monkeypatch.setattr(locate, "default_addresses", list)
    with pytest.raises(errors.ServerStartError, match="no cgroups here"):
        Client()
