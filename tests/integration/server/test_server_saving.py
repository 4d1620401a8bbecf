# SPDX-License-Identifier: Apache-2.0
"""What a session has in its workspace is saved whatever its box and the disk are full of, or its
record says that it was not.
"""
from __future__ import annotations

import json

from husk_server import Server
from v1_client import Api
from v1_files import put

# As many processes as there can be; they stay.
FILL = """
import json, os, resource, signal
pids = []
def fill():
    try:
        while True:
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            pids.append(pid)
    except BlockingIOError:
        pass
fill()
"""

# Whatever it tries, no process of a user gets more than that.
TRY = """
tries = []
most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
for who in (0, 1, *pids[:3]):
    try:
        resource.prlimit(who, resource.RLIMIT_NPROC, (most + 8, most + 8))
        tries.append(who)
    except (PermissionError, ValueError):
        pass
before = len(pids)
fill()
print(json.dumps([len(pids) - before, len(pids), most]))
"""


def test_a_session_full_of_processes_is_saved() -> None:
    """Our file workers have room that no process of the user can take."""
    with Server.run("--pids", "40") as server:
        api = Api(server.port)
        session = api.session()
        more, started, most = json.loads(api.run(session, FILL + TRY)["stdout"])
        assert (more, most) == (0, 40)
        assert started == 40 - 2, "PID 1 and the interpreter count, as they always did"
        assert put(api, session, "late", b"late").status == 201
        assert api.run(session, "open('last', 'w').write('last')")["status"] == "completed"
        assert server.stop() == 0
        assert "workspace_not_saved" not in server.output
        server.start()
        for name in ("late", "last"):
            assert api.get(f"/sessions/{session}/files/{name}").raw == name.encode()
