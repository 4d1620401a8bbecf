# SPDX-License-Identifier: Apache-2.0
"""The copy of a workspace that outlives its box: whatever a program leaves there comes back, or
costs only itself.
"""
from __future__ import annotations

import os

import pytest
from audit import kill_boxes
from beside import beside
from disk_faults import failing, names_in
from husk_server import Server
from v1_client import Api
from v1_files import put
from waiting import wait_until

MAKE = r"""
import os
for name in ['a b', 'tab\tx', 'new\nline', 'ü', b'\xff\xfe', 'back\\slash', '-x', 'n' * 255]:
    open(name, 'w').write('odd')
for name, target in {'out': '/usr/bin/python3', 'up': '../../etc', 'gone': 'nowhere', 'long': 'x' * 4000}.items():
    os.symlink(target, name)
os.link('a b', 'hard')
os.makedirs('closed/inner')
open('closed/inner/f', 'w').write('in two closed folders')
open('unreadable', 'w').write('kept all the same')
os.mkdir('read-only')
open('read-only/f', 'w').write('as in a cache of modules')
for name, mode in {'unreadable': 0, 'read-only': 0o555, 'closed/inner': 0o300, 'closed': 0}.items():
    os.chmod(name, mode)
os.mkfifo('pipe')
"""

LOOK = r"""
import os
def entry(path):
    st = os.lstat(path)
    text = os.readlink(path)[:20] if os.path.islink(path) else ''
    return os.fsencode(path), oct(st.st_mode & 0o177777), text
found = [entry(name) for name in sorted(os.listdir('.'), key=os.fsencode) if name != 'pipe']
for name in ('closed', 'closed/inner', 'unreadable'):
    found.append(entry(name))
    os.chmod(name, 0o700)
for name in ('a b', 'hard', 'closed/inner/f', 'unreadable', 'read-only/f'):
    found.append((name, open(name).read()))
found.append((os.path.samefile('a b', 'hard'), os.stat('hard').st_nlink))
for name, mode in {'unreadable': 0, 'closed/inner': 0o300, 'closed': 0}.items():
    os.chmod(name, mode)
for line in found:
    print(line)
"""

# Deeper than husk walks, which must not cost the rest.
DEEP = """
import os
for _ in range(3000):
    os.mkdir('deep')
    os.chdir('deep')
os.chdir('/workspace')
"""


def test_everything_comes_back() -> None:
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session()
        assert api.run(sid, MAKE)["status"] == "completed"
        before = api.run(sid, LOOK)["stdout"]
        assert before.count("\n") == 25, before
        for _ in range(2):  # the second copy is one of what came back
            assert server.stop() == 0
            server.start()
            assert api.run(sid, LOOK)["stdout"] == before
        assert not [line for line in server.lines if "workspace_" in line]


def test_a_file_with_many_names_is_copied_once() -> None:
    """By name it would be too large for the disk that it came from."""
    make = """
import os, hashlib
os.makedirs('x/y')
open('x/one', 'wb').write(os.urandom(20 << 20))
for i in range(300):
    os.link('x/one', f'x/y/{i}')
open('x/other', 'w').write('another'); os.link('x/other', 'last')
os.chmod('last', 0)
"""
    look = """
same = all(os.path.samefile('x/one', f'x/y/{i}') for i in range(300))
os.chmod('last', 0o600); text = open('last').read(); os.chmod('last', 0)
[hashlib.sha256(open('x/y/299', 'rb').read()).hexdigest(), same, os.stat('x/one').st_nlink,
 text, os.path.samefile('last', 'x/other'), os.stat('last').st_nlink]
"""
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session(resources={"disk": "32Mi"})
        assert api.run(sid, make)["status"] == "completed"
        before = api.run(sid, look)["value"]
        assert "True, 301, 'another', True, 2]" in before
        for _ in range(2):
            assert server.stop() == 0
            server.start()
            assert api.run(sid, "import os, hashlib\n" + look)["value"] == before
        assert not [line for line in server.lines if "workspace_" in line]


def test_holes_come_back_as_holes() -> None:
    """Filled, they would leave no room on the disk."""
    make = """
import os
for name, size in {'hole': 20 << 20, 'ends': (8 << 20) + 5, 'whole': 70000}.items():
    with open(name, 'wb') as f:
        f.seek(1 << 20 if name != 'whole' else 0)
        f.write(b'x' * 9000)
        f.truncate(size)
open('hole', 'r+b').write(b'first')
"""
    look = """
import os, hashlib
def seen(name):
    st = os.stat(name)
    whole = hashlib.file_digest(open(name, 'rb'), 'sha256') if hasattr(hashlib, 'file_digest') else None
    return name, st.st_size, st.st_blocks * 512 < 200000, whole and whole.hexdigest()
[seen(name) for name in ('hole', 'ends', 'whole')]
"""
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session(resources={"disk": "32Mi"})
        assert api.run(sid, make)["status"] == "completed"
        before = api.run(sid, look)["value"]
        assert before.count("True") == 3, before
        for _ in range(2):
            assert server.stop() == 0
            server.start()
            assert api.run(sid, look)["value"] == before
        assert not [line for line in server.lines if "workspace_" in line]


def test_what_cannot_be_copied_costs_only_itself() -> None:
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session()
        assert api.run(sid, MAKE + DEEP)["status"] == "completed"
        before = api.run(sid, LOOK.replace("!= 'pipe'", "not in ('pipe', 'deep')"))["stdout"]
        assert server.stop() == 0
        server.start()
        after = api.run(sid, LOOK.replace("!= 'pipe'", "not in ('pipe', 'deep')"))["stdout"]
        assert after == before
        assert [line for line in server.lines if "workspace_saved_in_part" in line]


# Each of these once kept a copy from being made, or from being unpacked.
HOLES = """
import os
for n in range(12):
    with open(f'holes-{n}', 'wb') as f:
        f.truncate(8 << 20)
open('small', 'w').write('fits')
os.utime('small', ns=(0, -(2**62)))
"""
SHUT = "import os; open('f', 'w').write('x'); os.chmod('/workspace', 0)"


def test_a_box_cannot_fill_the_servers_disk_by_holes() -> None:
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session(resources={"memory": "128Mi", "disk": "32Mi"})
        assert api.run(sid, HOLES)["status"] == "completed"
        assert server.stop() == 0
        copy = server.store / "workspaces" / f"{sid}.tar"
        assert copy.stat().st_size < 40 << 20
        server.start()
        look = "import os; print(open('small').read(), 0 < len(os.listdir('.')) < 13)"
        assert api.run(sid, look)["stdout"] == "fits True\n"
        assert [line for line in server.lines if "workspace_saved_in_part" in line]
        assert not [line for line in server.lines if "workspace_restored_in_part" in line]


@beside
def test_a_workspace_that_is_closed_to_its_owner() -> None:
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session()
        assert api.run(sid, SHUT)["status"] == "completed"
        copy = server.store / "workspaces" / f"{sid}.tar"
        wait_until(copy.exists, "the copy is there")
        mode = "import os; print(oct(os.stat('/workspace').st_mode & 0o777))"
        assert api.run(sid, mode)["stdout"] == "0o0\n"
        assert server.stop() == 0
        server.start()
        assert api.run(sid, "print(open('f').read())")["stdout"] == "x\n"


@beside
def test_a_copy_leaves_modes_as_they_are() -> None:
    """What was opened for a moment is closed again."""
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session()
        assert api.run(sid, MAKE)["status"] == "completed"
        before = api.run(sid, LOOK)["stdout"]
        copy = server.store / "workspaces" / f"{sid}.tar"
        wait_until(copy.exists, "the copy is there")
        assert api.run(sid, LOOK)["stdout"] == before


# It writes when the copy of the cell that left it behind is made.
LATE = """
import subprocess
subprocess.Popen(['/bin/sh', '-c', 'sleep 5; echo late > late.txt; sleep 100'], start_new_session=True)
"""
STAYS = """
import time
open('cell.txt', 'w').write('2')
print('on', flush=True)
time.sleep(60)
"""
BIG = """
import os
for i in range(8):
    open(f'big{i}', 'wb').write(os.urandom(20 << 20))
open('v.txt', 'w').write('new')
"""


@beside
def test_files_of_what_still_runs_are_there_after_a_stop() -> None:
    """Neither a cell under way nor a process that an earlier one left tells when it writes."""
    with Server.run() as server:
        api = Api(server.port)
        cell, background = api.session(), api.session()
        assert api.run(background, LATE)["status"] == "completed"
        wait_until((server.store / "workspaces" / f"{background}.tar").exists, "the copy is there")
        shown = f"/sessions/{background}/files/late.txt"
        wait_until(lambda: api.get(shown).status == 200, "the process has written")
        api.wait_output(api.start(cell, STAYS, timeout=60), "on")
        assert server.stop() == 0
        server.start()
        assert api.get(shown).raw == b"late\n"
        assert api.get(f"/sessions/{cell}/files/cell.txt").raw == b"2"


@beside
def test_a_stop_waits_for_a_copy_under_way() -> None:
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session(resources={"memory": "512Mi", "disk": "256Mi"})
        assert put(api, sid, "v.txt", b"old").status == 201
        copy = server.store / "workspaces" / f"{sid}.tar"
        wait_until(copy.exists, "the copy is there")
        assert api.run(sid, BIG)["status"] == "completed"
        wait_until(copy.with_suffix(".new").exists, "the next copy is being written")
        assert server.stop() == 0
        assert len(names_in(copy) & {f"big{i}" for i in range(8)}) == 8
        server.start()
        assert api.get(f"/sessions/{sid}/files/v.txt").raw == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="traces the daemon of another account")
def test_a_workspace_that_is_being_restored_is_not_saved_by_halves() -> None:
    """The box died with changes that were not saved: the next copy is due while its successor is
    being filled.
    """
    with Server.run() as server:
        api = Api(server.port)
        sid = api.session(resources={"memory": "512Mi", "disk": "256Mi"})
        copy = server.store / "workspaces" / f"{sid}.tar"
        assert api.run(sid, BIG)["status"] == "completed"
        wait_until(copy.exists, "the copy is there")
        names = names_in(copy)
        with failing(server, "read", "delay_enter=2000"):
            assert api.run(sid, "1")["status"] == "completed"
            kill_boxes(server)
            assert api.get(f"/sessions/{sid}/files/v.txt").raw == b"new"
        assert names_in(copy) == names
