# SPDX-License-Identifier: Apache-2.0
"""Templates whose modules change their zygote, exceed its limits or leave something behind are
refused, and no session starts from them.
"""
from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attempt import LIBC, checked, in_child
from hostile_template import Packages, packages
from husk_server import Server
from procfs import below, links_of
from v1_client import Api, check_error, v1, v1_server  # noqa: F401
from waiting import wait_until

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 2, 4, 32, 4096, 2
LOCKED = MS_REMOUNT | MS_BIND
LATER_S = 2
BOXES_MOST = 1500  # none of so many is looked at once in 10^10 times

# Every "return an error" of every BPF program in memory becomes "allow": struct sock_filter is
# {u16 code, u8 jt, u8 jf, u32 k}, BPF_RET is 6, SECCOMP_RET_ERRNO 0x0005xxxx, KILL_PROCESS 0x8000....
PATCH_FILTERS = """
import re, struct
patched = 0
is_searched = lambda path: "_husk" in path
RET = re.compile(rb"\\x06\\0\\0\\0(?:..\\x05\\0|\\0\\0\\0\\x80)", re.S)
with open("/proc/self/mem", "r+b", buffering=0) as memory:
    for line in open("/proc/self/maps"):
        span, rights, _, _, _, *path = line.split()
        if rights[0] != "r" or not is_searched("".join(path)):
            continue
        first, last = (int(x, 16) for x in span.split("-"))
        memory.seek(first)
        data = memory.read(last - first)
        for found in RET.finditer(data):
            if (first + found.start()) % 4 == 0:
                memory.seek(first + found.start())
                memory.write(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))
                patched += 1
if patched < 3:
    raise RuntimeError(f"only {patched} instructions found: the attempt was not made")
"""

REFUSED: dict[str, tuple[str, list[str], list[str]]] = {
    # name: module, lines of the template, words of the error
    "patched_filters": (PATCH_FILTERS, [], ["not set up as it must be", "filter"]),
    "too_much_memory": (
        "kept = bytearray(200 << 20)\nfor i in range(0, len(kept), 4096): kept[i] = 1\n",
        ["preload_memory = 64M"],
        ["64 MiB", "preload_memory"],
    ),
    "memory_of_children": (
        "import os, time\npids = []\n"
        "for _ in range(4):\n    pids.append(os.fork())\n    if pids[-1] == 0:\n"
        "        kept = bytearray(b'x') * (40 << 20); time.sleep(0.5); os._exit(0)\n"
        "ends = [os.waitpid(p, 0)[1] for p in pids]\n"
        "if any(ends): raise MemoryError('a child was killed')\n",
        ["preload_memory = 64M"],
        ["a child was killed"],
    ),
    "never_ends": ("while True: pass\n", ["preload_timeout = 1s"], ["1 s"]),
    "waits_for_ever": ("import signal\nsignal.pause()\n", ["preload_timeout = 1s"], ["1 s"]),
    "leaves_a_child": (
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)\n",
        [],
        ["left"],
    ),
    "leaves_a_grandchild": (
        "import os, time\npid = os.fork()\nif pid == 0:\n    if os.fork() == 0:\n"
        "        os.setsid(); time.sleep(600)\n    os._exit(0)\nos.waitpid(pid, 0)\n",
        [],
        ["left"],
    ),
    "leaves_a_thread": (
        # while it is imported a second time: only then no module is left to do without
        "",
        [
            "warm = import threading, time; "
            "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
        ],
        ["threads"],
    ),
    "hides_a_thread": (
        # from the zygote's own count; the launcher counts, too
        "import os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "os.listdir = lambda path: ['1']\n",
        [],
        ["left", "threads"],
    ),
    "ends_the_zygote": ("import os\nos._exit(0)\n", [], ["died", "exit status 0"]),
    "speaks_to_the_launcher": (
        # what it says is no answer of a zygote: the launcher ends it
        "import os, stat\nfor fd in map(int, os.listdir('/proc/self/fd')):\n    try:\n"
        "        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'x' * 33)\n"
        "    except OSError: pass\n",
        [],
        [],
    ),
    "closes_every_descriptor": ("import os\nos.closerange(3, 1000)\n", [], []),
    "own_filter_first": (
        # a filter of its own comes between the two that boxes must have
        "import ctypes, struct\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "code = ctypes.create_string_buffer(struct.pack('<HBBI', 6, 0, 0, 0x7fff0000))\n"
        "prog = ctypes.create_string_buffer(struct.pack('<HxxxxxxQ', 1, ctypes.addressof(code)))\n"
        "if libc.prctl(22, 2, prog, 0, 0) != 0: raise RuntimeError('not made')\n",
        [],
        ["filter"],
    ),
}


@pytest.fixture(scope="module")
def made() -> Iterator[Packages]:
    with packages() as found:
        yield found


def zygotes(server: Server) -> list[int]:
    """Processes that run a zygote: boxes have the same command line, and a zygote above them."""
    found = []
    for process in below(server.process.pid):
        try:
            if b"zygote.py" in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                found.append(process.pid)
        except OSError:
            pass  # it has ended
    return found


def zygote_itself(server: Server) -> int:
    """A child of the launcher that makes boxes: numbers of processes may have begun anew."""
    everyone = below(server.process.pid)
    launcher = next(p.pid for p in everyone if p.name == "husk-launcher")
    boxes = {p.parent for p in everyone}
    mine = set(zygotes(server))
    return next(p.pid for p in everyone if p.parent == launcher and p.pid in mine & boxes)


def of_module(server: Server, module: str) -> list[int]:
    name = module.encode()
    return [p for p in zygotes(server) if name in Path(f"/proc/{p}/cmdline").read_bytes()]


def why_refused(server: Server, template: str) -> str:
    """The operator's log: clients are not told what may name things of the host."""
    return server.wait_said(f'message="template {template}: ')[-1]


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_template_is_refused(
    v1: Api, v1_server: Server, made: Packages, name: str  # noqa: F811
) -> None:
    module, lines, words = REFUSED[name]
    made.add(f"hostile_{name}", module)
    template = made.template(v1_server, name.replace("_", "-"), f"hostile_{name}", *lines)
    answer = v1.post("/sessions", {"template_id": template, "mode": "persistent"})
    assert answer.status in (422, 500, 503), answer.raw
    said = why_refused(v1_server, template)
    assert all(word in said for word in words), said
    wait_until(lambda: not of_module(v1_server, f"hostile_{name}"), "nothing of it runs on")
    assert v1.run(v1.session(), "1 + 1")["return_value"] == 2, "other templates go on"


# ---- a zygote that behaves until its first box was looked at ----

# A timer and a handler of the C library: the zygote never comes back to Python. By then its memory
# was copied and has no names of files.
LATER = f"""
import ctypes
PATCH = {PATCH_FILTERS.replace('"_husk" in path', 'not path.startswith("[v")')!r}
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: exec(PATCH, {{}}))
libc = ctypes.CDLL(None, use_errno=True)
libc.signal(14, handler)
libc.alarm({LATER_S})
"""


def condemned(server: Server, template: str) -> str:
    """What the launcher says about the template when a box of it does not fit; "" if nothing."""
    lines = [line for line in server.output.splitlines() if "template_condemned" in line]
    return next((line for line in lines if f"template {template}:" in line), "")


def test_a_zygote_that_turns_hostile_later_is_found(
    v1: Api, v1_server: Server, made: Packages  # noqa: F811
) -> None:
    """One box in 64 is looked at, by chance: then its template ends, with all of its boxes."""
    made.add("hostile_later", LATER)
    template = made.template(v1_server, "hostile-later", "hostile_later")
    session = v1.session(template_id=template)
    receipt = v1.run(session, "1")["receipt"]
    assert (receipt["template"], receipt["imports"]) == (template, True)
    assert receipt["boxes_checked"] >= 1, "the first box was looked at"
    time.sleep(LATER_S + 1)
    for _ in range(BOXES_MOST):
        if condemned(v1_server, template):
            break
        one = v1.post("/sessions", {"template_id": template, "mode": "ephemeral"})
        if one.status == 201:  # else it ended meanwhile
            v1.post(f"/sessions/{one['id']}/execute-sync", {"code": "1"})
    assert "filter" in condemned(v1_server, template)
    wait_until(lambda: not of_module(v1_server, "hostile_later"), "nothing of it runs on")


# ---- a zygote without its filter: what the mounts themselves refuse ----


def as_zygote(pid: int, function: Callable[[], Any]) -> str:
    """What the function comes to, as of in_child(), as root of the zygote's user and mount namespace,
    with every capability there and no filter.
    """

    def act() -> int:
        fds = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]
        for fd in fds:
            if LIBC.setns(fd, 0) != 0:
                raise RuntimeError(f"setns: {os.strerror(ctypes.get_errno())}")
        os.chdir("/")
        return checked(function())

    return in_child(act)


def remount(place: str, flags: int) -> Any:
    return LIBC.mount(None, place.encode(), None, ctypes.c_ulong(LOCKED | flags), None)


@pytest.mark.parametrize("place", ["/", "/usr", "/husk"])
@pytest.mark.parametrize(
    "flags",
    [0, MS_NOSUID | MS_NODEV, MS_RDONLY | MS_NODEV, MS_RDONLY | MS_NOSUID],
    ids=["all", "writable", "suid", "devices"],
)
def test_mounts_of_a_zygote_are_locked(
    v1: Api, v1_server: Server, place: str, flags: int  # noqa: F811
) -> None:
    v1.session()
    zygote = zygote_itself(v1_server)
    assert as_zygote(zygote, lambda: LIBC.access(b"/husk/husk-init", 0)) == "reached: 0"
    assert as_zygote(zygote, lambda: remount(place, flags)) == "EPERM"


@pytest.mark.parametrize("place", ["/", "/usr", "/husk"])
def test_mounts_of_a_zygote_stay(v1: Api, v1_server: Server, place: str) -> None:  # noqa: F811
    v1.session()
    zygote = zygote_itself(v1_server)
    outcome = as_zygote(zygote, lambda: LIBC.umount2(place.encode(), MNT_DETACH))
    assert outcome == "EINVAL", "the kernel's word for a locked mount"


# ---- descriptors of cgroups that a zygote kept ----


def cgroups_of(pids: list[int]) -> set[str]:
    found = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        found |= {line for line in lines if "/box-" in line}
    return found


def test_no_box_gets_a_cgroup_of_another_template(
    v1: Api, v1_server: Server, made: Packages  # noqa: F811
) -> None:
    """A hostile zygote keeps descriptors of the cgroups of its boxes: they must lead to no other."""
    names = ["first-owner", "second-owner"]
    seen: list[set[str]] = []
    for name in names:
        module = name.replace("-", "_")
        made.add(module, "import os\n")
        made.template(v1_server, name, module)
        mine: set[str] = set()
        for _ in range(2):
            sessions = [v1.session(template_id=name) for _ in range(4)]
            mine |= cgroups_of(of_module(v1_server, module))
            for session in sessions:
                assert v1.call("DELETE", f"/sessions/{session}").status in (200, 202, 204)
        assert len(mine) >= 4, mine
        seen.append(mine)
    assert not seen[0] & seen[1], seen[0] & seen[1]


def test_a_box_holds_no_descriptor_of_a_cgroup(v1: Api, v1_server: Server) -> None:  # noqa: F811
    code = (
        "import os; [os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd')[:-1]]"
    )
    for link in v1.run(v1.session(), code)["return_value"]:
        assert "cgroup" not in link and "tasks" not in link, link


def test_a_zygote_at_rest_holds_no_descriptor_of_a_cgroup(
    v1: Api, v1_server: Server  # noqa: F811
) -> None:
    v1.session()
    for pid in zygotes(v1_server):
        for link in links_of(pid).values():
            assert not link.endswith(("tasks", "cgroup.procs", "cgroup.threads")), (pid, link)
