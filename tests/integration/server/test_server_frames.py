# SPDX-License-Identifier: Apache-2.0
"""What huskd holds in memory for boxes: frames that are begun and not finished are bounded per box
and in all, and end; large results and downloads work as ever.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from beside import beside
from husk_server import Server
from v1_client import Api
from waiting import wait_until

MIB = 1 << 20
SESSIONS = 20
HELD_MOST = 64 * MIB  # a quarter of daemon_memory
SLACK = 48 * MIB  # what 20 sessions cost otherwise, with room to spare

# Every socket of the process, once.
SOCKETS = """
import os, socket, struct, time
def unix_sockets():
    links = {os.readlink(f"/proc/self/fd/{n}"): int(n) for n in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{n}")}
    found = [socket.socket(fileno=os.dup(n)) for link, n in links.items() if "socket:" in link]
    return [s for s in found if s.family == socket.AF_UNIX]
"""

# Begins a frame of a size on every socket that takes it, sends so much of it, and goes on.
BEGIN = (
    SOCKETS
    + """
piece = bytes(1 << 16)
sent = 0
for s in unix_sockets():
    try:
        s.settimeout(20)
        s.sendall(struct.pack('<II', 20, {size}) + bytes(16))
        for at in range(0, {sent}, len(piece)):
            s.sendall(piece[:{sent} - at])
        sent += 1
    except OSError:
        pass
print('sent', sent, flush=True)
{then}
"""
)


def begin(size: int, sent: int, then: str = "time.sleep(600)") -> str:
    code = BEGIN.replace("{size}", str(size)).replace("{sent}", str(sent))
    return code.replace("{then}", then)


def rss(server: Server) -> int:
    status = Path(f"/proc/{server.pid_of_huskd()}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def show(api: Api, execution: str) -> Any:
    return api.get(f"/executions/{execution}").body


def test_frames_of_many_boxes_have_one_bound() -> None:
    """24 MiB are announced by each of 20 sessions, 23 MiB sent. Those that hold the most end; a
    neighbour with an ordinary cell does not.
    """
    with Server.run("--daemon-memory", "256M", "--max-executions", "64") as server:
        api = Api(server.port)
        with ThreadPoolExecutor(8) as pool:
            sessions = list(pool.map(lambda _: api.session(), range(SESSIONS)))
            neighbour = api.session()
            quiet = api.start(neighbour, "import time\nprint('on', flush=True)\ntime.sleep(8)\n7")
            api.wait_output(quiet, "on")
            before = rss(server)
            most = before
            code = begin(24 * MIB, 23 * MIB)
            runs = list(pool.map(lambda s: api.start(s, code, timeout=60), sessions))

        def is_settled() -> bool:
            nonlocal most
            most = max(most, rss(server))
            states = [show(api, run) for run in runs]
            return all(s["status"] != "running" or "sent" in s["stdout"] for s in states) and all(
                s["status"] != "pending" for s in states
            )

        wait_until(is_settled, "every session has sent its part, or has ended")
        most = max(most, rss(server))
        assert most - before < HELD_MOST + SLACK, f"{before >> 20} to {most >> 20} MiB"
        ends = [show(api, run) for run in runs if show(api, run)["status"] != "running"]
        assert len(ends) >= SESSIONS - HELD_MOST // (23 * MIB) - 1, ends
        for end in ends:
            assert end["status"] == "failed", end
            assert end["termination"]["cause"] == "output_limit", end
            assert end["termination"]["limit"].startswith("frames"), end
        # A client that lost a cell still has its session, and the neighbour noticed nothing.
        lost = next(s for s, run in zip(sessions, runs) if show(api, run)["status"] == "failed")
        assert api.run(lost, "1 + 1")["value"] == "2"
        assert api.wait_status(quiet, "completed")
        assert show(api, quiet)["value"] == "7"
        for session in (*sessions, neighbour):
            api.call("DELETE", f"/sessions/{session}")
        wait_until(lambda: rss(server) < before + SLACK, "huskd gives its memory back")


# The same between two cells: a process that the cell leaves behind waits for a file, begins the
# frame, and says in another file that no more goes into the socket for now.
LEAVE = (
    SOCKETS
    + """
if os.fork() == 0:
    while not os.path.exists('/workspace/begin'):
        time.sleep(0.02)
    sockets = unix_sockets()
    for s in sockets:
        s.send(struct.pack('<II', 20, 24 << 20) + bytes(16))
    left = {s: 23 << 20 for s in sockets}
    while True:
        for s in sockets:
            try:
                left[s] -= s.send(bytes(min(left[s], 1 << 16)), socket.MSG_DONTWAIT) if left[s] else 0
            except OSError:
                open('/workspace/full', 'w')
        time.sleep(0.001)
"""
)


def test_frames_that_are_begun_between_cells_have_the_same_bound() -> None:
    """24 MiB are announced in each of 20 idle sessions. huskd does not read them, and when the next
    cells make it read, they are charged for like those of a running cell.
    """
    with Server.run("--daemon-memory", "256M", "--max-executions", "64") as server:
        api = Api(server.port)
        with ThreadPoolExecutor(8) as pool:
            sessions = list(pool.map(lambda _: api.session(), range(SESSIONS)))
            before = rss(server)

            def leave(session: str) -> None:
                files = f"/api/v1/sessions/{session}/files"
                assert api.run(session, LEAVE)["status"] == "completed"
                assert server.put(f"{files}/begin", b"").status in (200, 201)
                wait_until(lambda: server.get(f"{files}/full").status == 200, "no more is taken")

            list(pool.map(leave, sessions))
            most = rss(server)
            assert most - before < HELD_MOST, f"{before >> 20} to {most >> 20} MiB"
            runs = list(pool.map(lambda s: api.start(s, "1 + 1", timeout=5), sessions))

        def is_over() -> bool:
            nonlocal most
            most = max(most, rss(server))
            return all(show(api, run)["status"] not in ("pending", "running") for run in runs)

        wait_until(is_over, "the next cells have ended")
        assert most - before < HELD_MOST + SLACK, f"{before >> 20} to {most >> 20} MiB"
        causes = [(show(api, run)["termination"] or {}).get("cause") for run in runs]
        assert {"output_limit", "timeout"} >= set(causes), causes
        assert "output_limit" in causes, causes
        for session in sessions:
            api.call("DELETE", f"/sessions/{session}")
        wait_until(lambda: rss(server) < before + SLACK, "huskd gives its memory back")


def test_a_small_box_has_little_held_for_it() -> None:
    """Half of its own memory limit, whatever the server could spare."""
    with Server.run() as server:
        api = Api(server.port)
        small = api.session(resources={"memory": "32Mi", "disk": "8Mi"})
        end = api.run(small, begin(24 * MIB, 17 * MIB, "time.sleep(30)"), timeout=60)
        assert end["status"] == "failed", end
        assert end["termination"]["cause"] == "output_limit", end
        assert end["termination"]["limit"] == "frames 16 MiB", end
        assert api.run(small, "1 + 1")["value"] == "2"


@beside
def test_a_frame_that_is_not_finished_ends_its_cell() -> None:
    with Server.run() as server:
        api = Api(server.port)
        session = api.session()
        end = api.run(session, begin(1000, 10), timeout=120)
        assert end["status"] == "crashed", end
        assert "did not finish it in time" in end["termination"]["detail"], end
        assert 25_000 < end["metrics"]["duration_ms"] < 50_000, end
        assert api.run(session, "1 + 1")["value"] == "2"


def test_large_results_and_downloads_still_work() -> None:
    """As much as a run may display, and a file that is larger than any budget of frames."""
    with Server.run("--daemon-memory", "256M") as server:
        api = Api(server.port)
        session = api.session()
        code = "class Big:\n    def _repr_html_(self): return 'x' * (7 << 20)\nBig()"
        for _ in range(3):
            end = api.run(session, code)
            assert end["status"] == "completed", end["status"]
            forms = {form["mime_type"]: form["data"] for form in end["outputs"][-1]["forms"]}
            assert len(forms["text/html"]) == 7 << 20
        size = 96 * MIB
        api.run(
            session,
            f"with open('big.bin', 'wb') as f:\n  for _ in range(96): f.write(bytes({MIB}))",
        )
        before = rss(server)
        got = server.get(f"/api/v1/sessions/{session}/files/big.bin")
        assert got.status == 200 and len(got.body) == size
        assert rss(server) < before + HELD_MOST
