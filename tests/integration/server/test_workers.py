# SPDX-License-Identifier: Apache-2.0
"""Workers of agents: what `husk up` starts, and refuses to start, on the word of its daemon."""
from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
from beside import beside
from limited_client import is_alive, needs_root
from waiting import PATIENCE, wait_until
from workers_up import Up, event, new_up, up

# ---- what runs ----


def test_worker_is_what_the_plan_says(up: Up) -> None:
    up.start(
        "order(START, 1, 7); hear(); ask(7, 'facts')",
        MINE="yes",
        HUSK_URL="http://elsewhere",
        PYTHONPATH="/of/mine",
    )
    said = up.wait_words(2)
    assert said[0] == event(7, "started", agent=1)
    facts = said[1]["answer"]
    assert facts["argv"] == [
        *("--file", f"{up.project}/Second_1.py", "--name", "Second_1", "--main"),
    ]
    assert facts["cwd"] == str(up.project)
    assert facts["uid"] == os.getuid()
    assert facts["fds"] == 4  # the standard ones and its socket
    assert facts["blocked"] == []
    assert facts["env"]["MINE"] == "yes"
    assert facts["env"]["PYTHONPATH"] == f"{up.folder}/sdk:/of/mine"
    assert facts["env"]["HUSK_AGENT_WORKER"] == "Second_1"
    assert facts["env"]["HUSK_SOCKET"] == f"{up.data}/husk.sock"
    assert "HUSK_URL" not in facts["env"]


def test_the_daemons_environment_is_as_before(up: Up) -> None:
    up.start("say(env=dict(os.environ), uid=os.getuid())", MINE="yes", HUSK_URL="http://elsewhere")
    said = up.wait_words(1)[0]
    assert said["env"]["HUSK_URL"] == "http://elsewhere"
    assert "HUSK_AGENT_WORKER" not in said["env"] and "PYTHONPATH" not in said["env"]
    assert os.getuid() != 0 or said["uid"] != 0


@needs_root
def test_worker_has_the_limits_of_its_agent(up: Up) -> None:
    up.start("order(START, 0, 1); hear(); ask(1, 'facts')")
    pid = up.wait_words(2)[1]["answer"]["pid"]
    groups = Path(f"/proc/{pid}/cgroup").read_text()
    assert "/agent-first" in groups


# ---- how it ends ----


def test_exit_codes_and_signals_are_told(up: Up) -> None:
    up.start(
        "order(START, 1, 1); order(START, 1, 2); hear(); hear()\n"
        "sockets[1].sendall(b'exit 3\\n'); hear()\n"
        "sockets[2].sendall(b'crash\\n')"
    )
    said = up.wait_words(4)
    assert said[2] == event(1, "exited", agent=1, status=3 << 8)
    assert said[3] == event(2, "exited", agent=1, status=signal.SIGSEGV)


@needs_root
def test_out_of_memory_is_told(up: Up) -> None:
    up.start("order(START, 0, 1); hear(); sockets[1].sendall(b'eat\\n')")
    assert up.wait_words(2)[1] == event(1, "exited", status=signal.SIGKILL, flags=1)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGKILL])
def test_daemon_can_end_a_worker(up: Up, which: signal.Signals) -> None:
    up.start(f"order(START, 0, 1); hear(); ask(1, 'facts'); order(KILL, worker=1, status={which})")
    said = up.wait_words(3)
    assert said[2] == event(1, "exited", status=which)
    wait_until(lambda: not is_alive(said[1]["answer"]["pid"]), "it is gone")


def test_an_interpreter_that_is_not_there_is_an_exit(up: Up) -> None:
    up.plan["python"] = "/no/such/python"
    up.write_plan()
    up.start("order(START, 0, 1)")
    assert up.wait_words(2)[1] == event(1, "exited", status=125 << 8)
    up.wait_said("cannot run /no/such/python")


# ---- what is refused ----


def test_what_is_not_in_the_plan_is_refused(up: Up) -> None:
    up.start(
        "order(START, 2, 1); hear(); order(START, 0xffffffff, 2); hear()\n"
        "order(START, 0, 3); hear(); order(START, 1, 3); hear()\n"  # a number twice
        "order(START, 0, 4); hear(); order(START, 0, 5); hear()\n"  # more than it may have
        "order(START, 1, 6)"
    )
    said = up.wait_words(7)
    assert said[0] == event(1, "failed", agent=2, status=errno.EINVAL)
    assert said[1] == event(2, "failed", agent=0xFFFFFFFF, status=errno.EINVAL)
    assert said[2] == event(3, "started")
    assert said[3] == event(3, "failed", agent=1, status=errno.EEXIST)
    assert said[4] == event(4, "started")
    assert said[5] == event(5, "failed", status=errno.EAGAIN)
    assert said[6] == event(6, "started", agent=1)
    up.wait_said("the plan has no such agent")


@pytest.mark.parametrize(
    "message",
    [
        "supervisor.send(b'x')",
        "supervisor.send(b'x' * 19)",
        "supervisor.send(b'x' * 21)",
        "supervisor.send(b'x' * 5000)",
        "order(0)",
        "order(STARTED)",
        "order(99)",
        "order(KILL, worker=1, status=signal.SIGSTOP)",
        "order(KILL, worker=1, status=-1)",
        "socket.send_fds(supervisor, [struct.pack('=IIIiI', START, 0, 9, 0, 0)], [2])",
    ],
)
def test_malformed_messages_are_logged_and_do_nothing(up: Up, message: str) -> None:
    up.start(f"order(START, 0, 1); hear()\n{message}\norder(START, 1, 2); hear(); ask(1, 'facts')")
    said = up.wait_words(3)
    assert said[:2] == [event(1, "started"), event(2, "started", agent=1)]
    assert said[2]["answer"]["argv"][1].endswith("/first.py")
    up.wait_said("daemon_message_refused")


def test_killing_a_worker_that_is_not_there_is_nothing(up: Up) -> None:
    up.start("order(KILL, worker=5, status=signal.SIGKILL); order(START, 0, 1)")
    assert up.wait_words(1)[0] == event(1, "started")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("mode", "only you or root can write"),
        ("owner", "only you or root can write"),
        ("link", "Too many levels of symbolic links"),
        ("second name", "under one name"),
        ("folder", "in a folder that only you or root can write"),
        ("text", "agents.json, line 1"),
        ("absent", "No such file"),
    ],
)
def test_a_plan_that_others_could_have_written_is_refused(up: Up, change: str, says: str) -> None:
    plan = up.plan_file
    if change == "mode":
        plan.chmod(0o666)
    elif change == "owner":
        if os.getuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(plan, 65534, 65534)
    elif change == "link":
        plan.rename(up.folder / "real.json")
        plan.symlink_to(up.folder / "real.json")
    elif change == "second name":
        os.link(plan, up.folder / "second.json")
    elif change == "folder":
        up.folder.chmod(0o777)
    elif change == "text":
        plan.write_text("{")
    else:
        plan.unlink()
    up.start("")
    assert up.process.wait(PATIENCE) == 125
    up.wait_said(says)


# ---- ends of others ----


def test_workers_end_with_their_daemon_and_numbers_begin_anew(up: Up) -> None:
    up.start("order(START, 0, 1); hear(); ask(1, 'stay')")
    first = up.wait_words(2)[1]["answer"]["pid"]
    parent = int(Path(f"/proc/{first}/status").read_text().split("PPid:\t")[1].split()[0])
    daemon = next(
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and f"{up.folder}/bin/huskd".encode() in read_or_nothing(entry)
    )
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not is_alive(first) and not is_alive(parent), "the worker is gone")
    said = up.wait_words(4)
    assert said[2] == event(1, "started")
    assert said[3]["answer"]["pid"] != first


def read_or_nothing(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_an_orderly_end_lets_workers_finish(up: Up) -> None:
    up.start("order(START, 0, 1); hear(); ask(1, 'leave')")
    pid = up.wait_words(2)[1]["answer"]["pid"]
    assert up.stop() == 0
    assert (up.project / "left").read_text() == "in order"
    assert not is_alive(pid)


def test_asked_twice_workers_end_at_once(up: Up) -> None:
    up.drain = 10 * PATIENCE
    up.start("order(START, 0, 1); hear(); ask(1, 'stay')")
    pid = up.wait_words(2)[1]["answer"]["pid"]
    up.process.terminate()
    assert up.wait_words(3)[2] == {"event": "asked"}
    assert up.stop() == 0
    wait_until(lambda: not is_alive(pid), "the worker is gone")


@beside  # the limit is half a minute more than the drain time
def test_workers_that_stay_are_killed_when_the_drain_time_is_over() -> None:
    with new_up() as up:
        up.start("order(START, 0, 1); hear(); ask(1, 'stay')")
        pid = up.wait_words(2)[1]["answer"]["pid"]
        assert up.stop() == 0
        wait_until(lambda: not is_alive(pid), "the worker is gone")


def test_kill_9_of_husk_up_takes_the_workers_along(up: Up) -> None:
    up.start("order(START, 0, 1); hear(); ask(1, 'stay')")
    pid = up.wait_words(2)[1]["answer"]["pid"]
    up.process.kill()
    up.process.wait(PATIENCE)
    wait_until(lambda: not is_alive(pid), "the worker is gone")
