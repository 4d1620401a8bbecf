# SPDX-License-Identifier: Apache-2.0
"""What a hostile preload tries with the rights of its zygote: mounts, namespaces, files, limits. The
system calls that no zygote needs are in preload_calls.py.
"""
from __future__ import annotations

import ctypes
import os
import resource
import signal
import stat
from functools import partial
from pathlib import Path
from typing import Any

from attempt import CLONE_NEWNS, CLONE_NEWUSER, LIBC, add, attempt, call, checked, nested

MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MS_REMOUNT, MS_BIND, MS_PRIVATE = 32, 4096, 1 << 18
MNT_DETACH = 2
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
READ_ONLY_PLACES = ("/", "/usr", "/husk")
NAMESPACES = {"user": CLONE_NEWUSER, "mnt": CLONE_NEWNS, "pid": 0x20000000, "uts": 0x04000000}
NAMESPACES |= {"ipc": 0x08000000, "cgroup": 0x02000000}
PIDS_TRIED = 100


def mount(source: str | None, target: str, kind: str | None, flags: int) -> int:
    names = [s.encode() if s is not None else None for s in (source, target, kind)]
    return checked(LIBC.mount(*names, ctypes.c_ulong(flags), None))


def remount(place: str, flags: int) -> str:
    mount(None, place, None, MS_REMOUNT | MS_BIND | flags)
    return next(m for m in Path("/proc/self/mounts").read_text().splitlines() if place in m)


def unmount(place: str) -> int:
    return checked(LIBC.umount2(place.encode(), MNT_DETACH))


def name_of(place: str) -> str:
    return place.strip("/").replace("/", "_") or "root"


# ---- mounts ----

for _place in READ_ONLY_PLACES:
    for _what, _flags in (
        ("writable", 0),
        ("writable_nosuid_nodev", MS_NOSUID | MS_NODEV),
        ("suid", MS_RDONLY | MS_NODEV),
        ("devices", MS_RDONLY | MS_NOSUID),
        ("suid_and_devices", MS_RDONLY),
    ):
        # fmt: off
        add(f"remount_{name_of(_place)}_{_what}", partial(remount, _place, _flags), "EPERM")
        add(f"nested_remount_{name_of(_place)}_{_what}",
            nested(partial(remount, _place, _flags)), "EPERM")
        # fmt: on
    add(
        f"unmount_{name_of(_place)}",
        partial(unmount, _place),
        "EPERM ENOSYS",
    )


@attempt("EPERM ENOSYS")
def mount_setattr_usr_writable() -> int:
    class Attr(ctypes.Structure):
        _fields_ = [(n, ctypes.c_uint64) for n in ("set", "clear", "propagation", "userns")]

    attr = Attr(clear=MS_RDONLY)
    return call(442, -1, AT_FDCWD, b"/usr", AT_RECURSIVE, ctypes.byref(attr), ctypes.sizeof(attr))


def bind_and_write() -> str:
    mount("/usr", "/tmp", None, MS_BIND)
    Path("/tmp/planted").write_text("x")
    return "wrote through a second mount of /usr"


add("write_through_a_bind_of_usr", bind_and_write, "EROFS")
add("nested_write_through_a_bind_of_usr", nested(bind_and_write), "EROFS EACCES EPERM")


def bind_and_remount() -> str:
    mount("/usr", "/tmp", None, MS_BIND)
    return remount("/tmp", MS_RDONLY)


add("remount_a_bind_of_usr", bind_and_remount, "EPERM")
add("make_usr_private", lambda: mount(None, "/usr", None, MS_PRIVATE), "EPERM")
add("mount_ext4_of_a_disk", lambda: mount("/dev/vda", "/tmp", "ext4", MS_NOSUID | MS_NODEV))
add("mount_sysfs_plainly", lambda: mount("sysfs", "/tmp", "sysfs", 0), "EPERM")
add("mount_host_cgroups", lambda: mount("c", "/tmp", "cgroup", MS_NOSUID | MS_NODEV), "EPERM")
add("mount_debugfs", lambda: mount("d", "/tmp", "debugfs", MS_NOSUID | MS_NODEV), "EPERM")
add("pivot_root", lambda: call(155, 41, b"/tmp", b"/tmp"))
add("chroot", lambda: os.chroot("/usr"))
add("nested_chroot", nested(lambda: os.chroot("/usr")))
add("open_tree_clone", lambda: call(428, -1, AT_FDCWD, b"/usr", 1))
add("move_mount", lambda: call(429, -1, AT_FDCWD, b"/usr", AT_FDCWD, b"/tmp", 0))
add("fsopen", lambda: call(430, -1, b"tmpfs", 0))
add("fspick", lambda: call(433, -1, AT_FDCWD, b"/usr", 0))

# ---- namespaces ----

add("unshare_user", lambda: checked(LIBC.unshare(CLONE_NEWUSER)))
add("unshare_mounts", lambda: checked(LIBC.unshare(CLONE_NEWNS)))
add("unshare_pids", lambda: checked(LIBC.unshare(NAMESPACES["pid"])))


def join(kind: str) -> int:
    fd = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
    return checked(LIBC.setns(fd, NAMESPACES[kind]))


for _kind in NAMESPACES:
    add(f"setns_{_kind}", partial(join, _kind))


@attempt("ESRCH EPERM EACCES")
def parent_user_namespace() -> str:
    """NS_GET_PARENT: from our user namespace to the one above, which is the host's side."""
    import fcntl

    fd = os.open("/proc/self/ns/user", os.O_RDONLY)
    above = fcntl.ioctl(fd, 0xB702)
    return f"a descriptor of the user namespace above: {fcntl.ioctl(above, 0xB702)}"


# ---- files ----

# fmt: off
for _path, _wanted in {
    "/usr/planted": "EROFS", "/usr/bin/planted": "EROFS", "/husk/planted": "EROFS",
    "/husk/runtimes/python/runner.py": "EROFS", "/planted": "EROFS", "/etc/planted": "EROFS",
    "/proc/sys/kernel/core_pattern": "EROFS EACCES EPERM",
    "/proc/sys/kernel/modprobe": "EROFS EACCES EPERM ENOENT",
    "/proc/sys/vm/overcommit_memory": "EROFS EACCES EPERM",
    "/proc/sys/fs/suid_dumpable": "EROFS EACCES EPERM",
    "/proc/sysrq-trigger": "EROFS EACCES EPERM ENOENT",
    "/sys/kernel/uevent_helper": "EROFS EACCES EPERM ENOENT",
    "/sys/fs/cgroup/planted": "EROFS EACCES EPERM ENOENT",
    "/dev/mem": "EROFS EACCES EPERM", "/dev/kmsg": "EROFS EACCES EPERM",
}.items():
    def _write(path: str = _path) -> int:
        with open(path, "w") as f:
            return f.write("x")

    add(f"write_{name_of(_path)}", _write, _wanted)
# fmt: on


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(64)


for _path in ("/proc/kcore", "/proc/1/root/etc/shadow", "/etc/shadow"):
    add(
        f"read_{name_of(_path)}",
        partial(read, _path),
        "EACCES EPERM ENOENT",
    )


@attempt("EPERM EACCES")
def more_user_namespaces() -> int:
    return Path("/proc/sys/user/max_user_namespaces").write_text("1000000")


@attempt("ENOENT EACCES ENOTDIR")
def host_files_through_descriptors() -> str:
    """A directory among our descriptors would lead out of the root."""
    for fd in os.listdir("/proc/self/fd"):
        with_root = f"/proc/self/fd/{fd}/../../../../../../.."
        for path in (f"{with_root}/var/tmp/husk-breach-canary", f"/proc/self/fd/{fd}/cgroup.procs"):
            if os.path.exists(path):
                return path
    raise FileNotFoundError(2, "no descriptor leads anywhere")


@attempt("ENOENT EACCES")
def host_files_through_proc() -> str:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for link in ("root", "cwd"):
            path = f"/proc/{pid}/{link}/var/tmp/husk-breach-canary"
            if os.path.exists(path):
                return path
    raise FileNotFoundError(2, "no process leads anywhere")


def make_device(place: str, kind: int, major: int, minor: int) -> int:
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV)
    os.mknod(f"/tmp/{place}", kind | 0o600, os.makedev(major, minor))
    return os.open(f"/tmp/{place}", os.O_RDWR)


add("make_a_block_device", lambda: make_device("disk", stat.S_IFBLK, 254, 0))
add("make_a_memory_device", lambda: make_device("mem", stat.S_IFCHR, 1, 1))
add("nested_block_device", nested(lambda: make_device("disk", stat.S_IFBLK, 254, 0)))


# ---- rights and limits ----


@attempt("EPERM")
def raise_open_files() -> str:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except ValueError as error:
        raise PermissionError(1, str(error)) from None
    return f"{hard + 1} descriptors"


@attempt("EPERM EACCES")
def be_spared_by_the_oom_killer() -> int:
    return Path("/proc/self/oom_score_adj").write_text("-1000")


add("real_time_scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
add("higher_priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
add("become_an_unmapped_user", lambda: os.setresuid(4000000000, 4000000000, 4000000000), "EINVAL")


@attempt("EAGAIN")
def more_processes_than_a_zygote_has() -> Any:
    children = []
    try:
        for _ in range(PIDS_TRIED):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return f"{len(children)} processes"
