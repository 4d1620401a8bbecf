# SPDX-License-Identifier: Apache-2.0
"""A box decides how long the kernel needs to be done with it. Only its owner may notice."""
from __future__ import annotations

import os
import time

from audit import Tree, wait_tree
from husk_server import Server, one  # noqa: F401
from v1_client import Api
from waiting import wait_until

LAUNCHER_PATIENCE = 5  # seconds after which a zygote that owes a birth is taken for stuck
PROCESSES = 90

# Each of 90,000 descriptors that are closed at the end has the kernel look at each of so many
# locks.
LOCKS = """
import fcntl, os, struct, time
file = os.open("/tmp/locked", os.O_RDWR | os.O_CREAT)
for i in range({locks}):
    fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * ({locks} - i), 1, 0))
for _ in range(950):
    os.dup(file)
for _ in range({processes}):
    if os.fork() == 0:
        while True:
            time.sleep(1000)
"""


def crowded(server: Server) -> dict[int, int]:
    """The first processes of boxes that hold a crowd, and their zygotes."""
    tree: Tree = wait_tree(server)
    parents = {p.pid: p.parent for p in tree.everyone}

    def box_of(pid: int) -> int:
        while pid in parents and parents[pid] not in tree.zygotes:
            pid = parents[pid]
        return pid

    members: dict[int, int] = {}
    for pid in parents:
        members[box_of(pid)] = members.get(box_of(pid), 0) + 1
    return {box: parents[box] for box in tree.boxes if members.get(box, 0) > PROCESSES}


def test_a_box_that_takes_long_to_die_holds_up_nobody(one: Server) -> None:
    api = Api(one.port)
    assert (
        api.call("POST", "/templates", {"id": "slow", "name": "slow", "base": "python"}).status
        == 201
    )
    neighbour = api.session()
    api.run(neighbour, "kept = 42")
    dying = api.session()
    api.run(dying, LOCKS.format(locks=16000, processes=PROCESSES))
    (box,) = crowded(one)
    last = api.session(template_id="slow")
    api.run(last, LOCKS.format(locks=6000, processes=PROCESSES))
    (zygote,) = {z for b, z in crowded(one).items() if b != box}

    api.call("DELETE", f"/sessions/{last}")
    api.call("DELETE", f"/sessions/{dying}")
    assert api.call("DELETE", "/templates/slow").status == 204
    # Stopping a template does not wait for its boxes, and no other request does.
    other = api.session()
    assert api.run(other, "6 * 7")["value"] == "42"
    assert os.path.exists(f"/proc/{zygote}"), "it was gone too soon to tell: more locks are needed"

    time.sleep(LAUNCHER_PATIENCE + 1)
    assert os.path.exists(f"/proc/{box}"), "it was gone too soon to tell: more locks are needed"
    assert api.run(neighbour, "kept")["value"] == "42"
    wait_until(lambda: not os.path.exists(f"/proc/{box}"), "the box is gone", patience=300)
    wait_until(lambda: not os.path.exists(f"/proc/{zygote}"), "the zygote is gone", patience=300)
    assert api.run(neighbour, "kept")["value"] == "42"
