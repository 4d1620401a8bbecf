# SPDX-License-Identifier: Apache-2.0
"""Templates whose modules change their zygote, exceed its limits or leave something behind are
refused, and no session starts from them.
"""
from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile_template import Packages, packages
from husk_server import Server
from procfs import below
from v1_client import Api, check_error, v1, v1_server  # noqa: F401
from waiting import wait_until

LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 2, 4, 32, 4096, 2
LOCKED = MS_REMOUNT | MS_BIND

# Every "return an error" of every BPF program in memory becomes "allow": struct sock_filter is
# {u16 code, u8 jt, u8 jf, u32 k}, BPF_RET is 6, SECCOMP_RET_ERRNO 0x0005xxxx, KILL_PROCESS 0x8000....
PATCH_FILTERS = """
import re, struct
patched = 0
RET = re.compile(rb"\\x06\\0\\0\\0(?:..\\x05\\0|\\0\\0\\0\\x80)", re.S)
with open("/proc/self/mem", "r+b", buffering=0) as memory:
    for line in open("/proc/self/maps"):
        span, rights, _, _, _, *path = line.split()
        if rights[0] != "r" or not path or "_husk" not in path[0]:
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

REFUSED = {
    # name: module, lines of the template, words of the error
    "patched_filters": (PATCH_FILTERS, [], ["not set up as it must be", "filter"]),
    "too_much_memory": (
        "kept = bytearray(200 << 20)\nfor i in range(0, len(kept), 4096): kept[i] = 1\n",
        ["preload_memory = 64M"],
        ["64 MiB", "preload_memory"],
    ),
    "memory_of_children": (
        "import os\nfor _ in range(4):\n    if os.fork() == 0:\n"
        "        kept = bytearray(b'x') * (40 << 20)\n        import time; time.sleep(60)\n"
        "import time; time.sleep(30)\n",
        ["preload_memory = 64M", "preload_timeout = 5s"],
        [],
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
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n",
        [],
        ["threads"],
    ),
    "ends_the_zygote": ("import os\nos._exit(0)\n", [], ["died"]),
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


def of_module(server: Server, module: str) -> list[int]:
    name = module.encode()
    return [p for p in zygotes(server) if name in Path(f"/proc/{p}/cmdline").read_bytes()]


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_template_is_refused(
    v1: Api, v1_server: Server, made: Packages, name: str  # noqa: F811
) -> None:
    module, lines, words = REFUSED[name]
    made.add(f"hostile_{name}", module)
    template = made.template(v1_server, name.replace("_", "-"), f"hostile_{name}", *lines)
    answer = v1.post("/sessions", {"template_id": template, "mode": "persistent"})
    assert answer.status in (422, 500, 503), answer.raw
    for word in words:
        assert word in answer["error_detail"], answer["error_detail"]
    wait_until(lambda: not of_module(v1_server, f"hostile_{name}"), "nothing of it runs on")
    assert v1.run(v1.session(), "1 + 1")["return_value"] == 2, "other templates go on"
