# SPDX-License-Identifier: Apache-2.0
"""The file of settings while a server runs: read again, refused, broken, mended, also while
processes are killed.
"""
from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from typing import Any

import pytest
from husk_server import Server
from procfs import below
from waiting import PATIENCE, wait_until

BROKEN = "docs = perhaps\nno_such_key = 1\n"


class Settled(Server):
    """A server with a file of settings. Whether /docs is there says which ones count."""

    def __init__(self) -> None:
        super().__init__()
        self.file = self.folder / "husk.conf"
        self.flags = ("--config", str(self.file))

    def write(self, *, docs: bool, **more: Any) -> None:
        lines = [f"{key} = {value}\n" for key, value in ({"docs": docs} | more).items()]
        self.file.write_text("".join(lines).lower())

    def reload(self) -> None:
        """Returns when the daemon has taken them."""
        before = len([line for line in self.lines if "settings_read" in line])
        self.process.send_signal(signal.SIGHUP)
        self.wait_said("settings_read", before + 1)

    def refuse(self) -> str:
        """What the log says of a file that is wrong."""
        before = len([line for line in self.lines if "settings_refused" in line])
        self.process.send_signal(signal.SIGHUP)
        return self.wait_said("settings_refused", before + 1)[-1]

    def has_docs(self) -> bool:
        return self.get("/docs").status == 200

    def shows(self, docs: bool) -> bool:
        """Also while daemons come and go."""
        try:
            return self.has_docs() == docs
        except (OSError, HTTPException):
            return False

    def replace_huskd(self) -> None:
        """kill -9, and another one serves."""
        old = self.kill_huskd()
        wait_until(
            lambda: any(p.name == "huskd" and p.pid != old for p in below(self.process.pid)),
            "a successor",
        )
        self.wait_ready()


@pytest.fixture
def settled() -> Iterator[Settled]:
    server = Settled()
    server.write(docs=False)
    server.start()
    try:
        yield server
    finally:
        server.remove()


# ---- a file that is wrong ----


def test_a_successor_starts_with_what_was_accepted_last(settled: Settled) -> None:
    assert not settled.has_docs()
    settled.write(docs=True)
    settled.reload()
    assert settled.has_docs()

    settled.file.write_text(BROKEN)
    assert f"{settled.file}:1: docs: 'perhaps' is neither true" in settled.refuse()
    assert not [line for line in settled.lines if "settings_kept" in line]
    for times in (1, 2):
        settled.replace_huskd()
        assert settled.has_docs()
        kept = settled.wait_said("settings_kept", times)
        assert len(kept) == times
        assert " warn " in kept[-1] and f"{settled.file}:1: docs: 'perhaps'" in kept[-1]
        assert f"{settled.file}:2: there is no setting 'no_such_key'" in kept[-1]

    settled.write(docs=False)
    settled.reload()
    assert not settled.has_docs()
    settled.replace_huskd()
    assert not settled.has_docs()
    assert len(settled.wait_said("settings_kept")) == 2  # nothing is wrong any more


@pytest.mark.parametrize("name", ["broken", "gone"])
def test_a_file_that_nobody_asked_to_read_changes_nothing(settled: Settled, name: str) -> None:
    settled.file.write_text(BROKEN)
    if name == "gone":
        settled.file.unlink()
    settled.replace_huskd()
    assert not settled.has_docs()
    assert str(settled.file) in settled.refuse()


def test_settings_that_are_right_wait_for_the_signal(settled: Settled) -> None:
    settled.write(docs=True)
    settled.replace_huskd()
    assert not settled.has_docs()
    settled.reload()
    assert settled.has_docs()


def test_the_last_one_saves_with_what_was_accepted(settled: Settled) -> None:
    """A daemon that is killed on its way out is followed by another one, which must be able to
    start.
    """
    settled.file.write_text(BROKEN)
    settled.refuse()
    os.kill(settled.pid_of_huskd(), signal.SIGSTOP)
    settled.process.send_signal(signal.SIGTERM)
    settled.kill_huskd()
    assert settled.process.wait(PATIENCE) == 0
    settled.wait_said("starting another one to save them")
    settled.wait_said("settings_kept")
    assert not [line for line in settled.lines if line.startswith(str(settled.file))]


def test_a_first_start_with_a_wrong_file_fails() -> None:
    server = Settled()
    server.file.write_text(BROKEN)
    try:
        with pytest.raises(AssertionError, match="husk up ended with 125"):
            server.start()
        # fmt: off
        assert server.lines == [
            f"husk: {server.file}:1: docs: 'perhaps' is neither true, 1, yes, on nor false, 0, no, off",
            f"husk: {server.file}:2: there is no setting 'no_such_key'",
        ]
        # fmt: on
    finally:
        server.remove()


# ---- reading them again ----


def test_no_reload_is_lost_with_a_daemon_that_dies(settled: Settled) -> None:
    """Killed before, while and after it hears of them: the next one has them."""
    for turn in range(4):
        docs = turn % 2 == 0
        settled.write(docs=docs)
        steps: list[Callable[[], object]] = [
            settled.kill_huskd,
            partial(settled.process.send_signal, signal.SIGHUP),
        ]
        for step in steps if turn < 2 else reversed(steps):
            step()
        wait_until(partial(settled.shows, docs), f"turn {turn}")
        settled.wait_ready()


def test_a_daemon_that_is_told_itself_asks_for_them(settled: Settled) -> None:
    settled.write(docs=True)
    os.kill(settled.pid_of_huskd(), signal.SIGHUP)
    settled.wait_said("settings_read")
    assert settled.has_docs()
    settled.replace_huskd()
    assert settled.has_docs()
    settled.file.write_text(BROKEN)
    os.kill(settled.pid_of_huskd(), signal.SIGHUP)
    settled.wait_said("settings_refused")
    assert settled.has_docs()


def test_the_supervisor_follows_too(settled: Settled) -> None:
    settled.write(docs=False, log_format="json")
    settled.reload()
    settled.kill_huskd()
    ended = settled.wait_said("daemon_ended")[0]
    assert json.loads(ended)["event"] == "daemon_ended"


def test_what_counts_after_a_restart_only_is_said_and_not_taken(settled: Settled) -> None:
    settled.write(docs=True, socket_mode="0600", min_isolation="userns")
    settled.reload()
    told = settled.wait_said("settings_partly")[0]
    assert "socket_mode has changed; the new value takes effect after a restart" in told
    assert "min_isolation has changed" in told
    settled.replace_huskd()
    assert settled.has_docs()


# ---- where they are ----


@pytest.mark.skipif(os.geteuid() != 0, reason="huskd must be another account")
def test_a_file_that_only_root_can_read() -> None:
    server = Settled()
    server.write(docs=False)
    server.file.chmod(0o600)
    try:
        server.start()
        assert not server.has_docs()
        server.write(docs=True)
        server.reload()
        assert server.has_docs()
    finally:
        server.remove()


def test_a_pipe_is_read_once() -> None:
    """husk up --config <(...): the pipe has no writer any more, and the server does not wait for one."""
    server = Settled()
    before, after = os.pipe()
    os.write(after, b"docs = false\n")
    os.close(after)
    server.flags = ("--config", f"/proc/{os.getpid()}/fd/{before}")
    try:
        server.start()
        assert not server.has_docs()
        assert "is a pipe, which can be read only at the start" in server.refuse()
        server.replace_huskd()
        assert not server.has_docs()
    finally:
        os.close(before)
        server.remove()


def test_the_longest_lists_get_there() -> None:
    server = Settled()
    hosts = [f"{n:02}" + ".a" * 90 for n in range(64)]
    with server.file.open("w") as out:
        for host in hosts:
            out.write(f"allowed_hosts = {host}\n")
    server.flags += ("--allowed-origins", " ".join(f"https://{host}{'.a' * 30}" for host in hosts))
    try:
        server.start()
        for host in (hosts[0], hosts[-1]):
            assert server.get("/health", {"Host": host}).status == 200
        assert server.get("/health", {"Host": "elsewhere.a"}).status != 200
    finally:
        server.remove()
