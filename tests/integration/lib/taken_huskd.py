#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A huskd that was taken over: a program in its place, with its account and its descriptors, and
without the confinement that the real one puts on itself.

It tells the supervisor that it serves, makes each attempt of ATTEMPTS, and writes what came of them
to attempts.json in the folder that HUSK_TEST_REPORT names. Each attempt is a small function whose
first line says what it tries; it raises OSError, or returns False, when it was refused.

Must not be imported by tests: it is copied to bin/huskd of a test's own installation.
"""
import ctypes
import fcntl
import json
import os
import signal
import socket
import stat
import struct
import sys
import termios
import time
from typing import Callable, Dict, List

SUPERVISOR, LIB, PLAN = 3, 4, 5
F_ADD_SEALS = 1033
EVIL = "written by the attacker\n"

settings: Dict[str, str] = {}
DATA = ""
STORE = ""


def path(name: str) -> str:
    return os.path.join(DATA, name)


# ---- names in the supervisor's folder ----


def rename_the_log() -> bool:
    """Moves husk.log away, so that the supervisor writes to a file of ours."""
    os.rename(path("husk.log"), path("mine"))
    return True


def move_the_log_to_the_store() -> bool:
    """Moves husk.log to the folder that we own."""
    os.rename(path("husk.log"), os.path.join(STORE, "log"))
    return True


def remove_the_log() -> bool:
    """Removes husk.log."""
    os.unlink(path("husk.log"))
    return True


def truncate_the_log() -> bool:
    """Empties husk.log by its path."""
    os.truncate(path("husk.log"), 0)
    return True


def append_to_the_log() -> bool:
    """Opens husk.log for writing."""
    return os.write(os.open(path("husk.log"), os.O_WRONLY | os.O_APPEND), EVIL.encode()) > 0


def exchange_the_log_and_a_file() -> bool:
    """Swaps husk.log for a file of ours in one step (RENAME_EXCHANGE)."""
    ours = os.path.join(STORE, "exchanged")
    with open(ours, "w") as out:
        out.write(EVIL)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.renameat2(-100, ours.encode(), -100, path("husk.log").encode(), 2) == 0)


def remove_the_pid_file() -> bool:
    """Removes husk.pid, so that a second server could start."""
    os.unlink(path("husk.pid"))
    return True


def name_another_process() -> bool:
    """Writes the number of a process of root's to husk.pid."""
    return os.write(os.open(path("husk.pid"), os.O_WRONLY), b"1\n") > 0


def lock_the_pid_file() -> bool:
    """Opens husk.pid for reading, to hold a lock on it."""
    fcntl.lockf(os.open(path("husk.pid"), os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    return True


def name_the_pid_file_twice() -> bool:
    """Makes a second name of husk.pid in our folder."""
    os.link(path("husk.pid"), os.path.join(STORE, "pid"))
    return True


def write_settings() -> bool:
    """Changes the settings that husk down reads."""
    return os.write(os.open(path("settings"), os.O_WRONLY), EVIL.encode()) > 0


def replace_settings() -> bool:
    """Puts settings of ours in their place."""
    ours = os.path.join(STORE, "settings")
    with open(ours, "w") as out:
        out.write(EVIL)
    os.rename(ours, path("settings"))
    return True


def make_a_trap_for_the_next_settings() -> bool:
    """Makes the file that the supervisor writes new settings to."""
    os.symlink("/etc/passwd", path("settings.new"))
    return True


def make_a_plan() -> bool:
    """Makes agents.json in the data folder."""
    with open(path("agents.json"), "w") as out:
        out.write(EVIL)
    return True


def make_any_file() -> bool:
    """Makes a new file beside the supervisor's."""
    os.close(os.open(path("new"), os.O_WRONLY | os.O_CREAT, 0o600))
    return True


def replace_the_socket() -> bool:
    """Removes the unix socket, to bind another one under its name."""
    os.unlink(path("husk.sock"))
    return True


def rename_the_store() -> bool:
    """Moves our own folder away, to put a link in its place."""
    os.rename(STORE, path("elsewhere"))
    return True


def open_the_folder_to_all() -> bool:
    """Changes the mode of the data folder."""
    os.chmod(DATA, 0o777)
    return True


def replace_the_folder() -> bool:
    """Moves the whole data folder away."""
    os.rename(DATA, DATA + ".old")
    return True


# ---- descriptors ----


def descriptors() -> List[int]:
    return [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]


def hold_a_terminal() -> bool:
    """Looks for a terminal among our descriptors."""
    return any(os.isatty(fd) for fd in descriptors())


def open_the_terminal() -> bool:
    """Opens the terminal of the session."""
    os.close(os.open("/dev/tty", os.O_RDWR))
    return True


def type_as_the_operator() -> bool:
    """Puts a character into the operator's terminal (TIOCSTI)."""
    for fd in range(3):
        fcntl.ioctl(fd, termios.TIOCSTI, b"x")
    return True


def read_what_is_typed() -> bool:
    """Reads from descriptor 0."""
    return os.read(0, 1) != b""


def hold_a_file_of_others() -> bool:
    """Looks for a plain file among our descriptors: the log, above all."""
    files = [fd for fd in descriptors() if stat.S_ISREG(os.fstat(fd).st_mode) and fd != PLAN]
    return bool(files)


def truncate_by_descriptor() -> bool:
    """Empties whatever descriptors 0 to 2 lead to."""
    for fd in range(3):
        try:
            os.ftruncate(fd, 0)
        except OSError:
            continue
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return True
    return False


def read_the_log_pipe() -> bool:
    """Opens the pipe that we print to for reading, to take what others print."""
    os.close(os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK))
    return True


def write_the_plan() -> bool:
    """Writes to the plan of agents that we were given."""
    return os.pwrite(PLAN, EVIL.encode(), 0) > 0


def write_the_plan_anew() -> bool:
    """Opens the plan again, for writing."""
    return os.pwrite(os.open(f"/proc/self/fd/{PLAN}", os.O_RDWR), EVIL.encode(), 0) > 0


def truncate_the_plan() -> bool:
    """Changes the size of the plan of agents."""
    os.ftruncate(PLAN, os.fstat(PLAN).st_size + 1)
    return True


def unseal_the_plan() -> bool:
    """Changes the seals of the plan of agents."""
    fcntl.fcntl(PLAN, F_ADD_SEALS, 0)
    return True


def leave_the_lib_folder() -> bool:
    """Makes a file in the folder of husk's own files, by descriptor."""
    os.close(os.open(f"/proc/self/fd/{LIB}/new", os.O_WRONLY | os.O_CREAT, 0o600))
    return True


ATTEMPTS: List[Callable[[], bool]] = [
    rename_the_log,
    move_the_log_to_the_store,
    remove_the_log,
    truncate_the_log,
    append_to_the_log,
    exchange_the_log_and_a_file,
    remove_the_pid_file,
    name_another_process,
    lock_the_pid_file,
    name_the_pid_file_twice,
    write_settings,
    replace_settings,
    make_a_trap_for_the_next_settings,
    make_a_plan,
    make_any_file,
    rename_the_store,
    open_the_folder_to_all,
    replace_the_folder,
    replace_the_socket,
    hold_a_terminal,
    open_the_terminal,
    type_as_the_operator,
    read_what_is_typed,
    hold_a_file_of_others,
    truncate_by_descriptor,
    read_the_log_pipe,
    write_the_plan,
    write_the_plan_anew,
    truncate_the_plan,
    unseal_the_plan,
    leave_the_lib_folder,
]


# ---- the whole way to root: a plan of ours in place of agents.json ----


def become_root() -> None:
    """Turns the log into a plan whose interpreter is ours, by descriptor 2, and exchanges it for
    agents.json whenever that appears. A child goes on when the server ends, until the next start.
    """
    with open(os.path.join(os.environ["HUSK_TEST_REPORT"], "evil.json")) as file:
        plan = file.read()
    try:
        os.rename(path("husk.log"), path("mine"))
    except OSError:
        pass
    if os.fork() != 0:
        return
    os.setsid()
    os.closerange(0, 2)
    os.closerange(3, 64)
    made = inode("agents.json")
    deadline = time.monotonic() + 30
    while os.path.exists(DATA) and time.monotonic() < deadline:
        now = inode("agents.json")
        if now not in (0, made):  # the next start has written it, and reads it in a moment
            try:
                os.ftruncate(2, 0)
                os.write(2, plan.encode())
                os.rename(path("mine"), path("agents.json"))
            except OSError:
                pass
            made = inode("agents.json")
    os._exit(0)


def inode(name: str) -> int:
    try:
        return os.stat(path(name)).st_ino
    except OSError:
        return 0


# ---- as a huskd ----


def greet() -> socket.socket:
    """Takes the settings, and says that we serve."""
    global DATA, STORE
    link = socket.socket(fileno=SUPERVISOR)
    message, _, _, _ = link.recvmsg(1 << 17, socket.CMSG_SPACE(64))
    for line in message[8:].split(b"\0"):
        key, _, value = line.decode().partition("=")
        settings[key] = value
    DATA = settings["data"]
    STORE = os.path.join(DATA, "store")
    return link


def attempt_all() -> None:
    found = {}
    for attempt in ATTEMPTS:
        try:
            found[attempt.__name__] = "succeeded" if attempt() else "refused"
        except OSError as error:
            found[attempt.__name__] = f"refused: {error.strerror}"
    report = os.path.join(os.environ["HUSK_TEST_REPORT"], "attempts.json")
    with open(report + ".new", "w") as out:
        json.dump({"uid": os.getuid(), "attempts": found}, out)
    os.rename(report + ".new", report)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda signum, frame: os._exit(0))
    link = greet()
    if os.environ.get("HUSK_TEST_ROOT"):
        become_root()
        link.send(struct.pack("=IIIiI", 1, 0, int(time.time()) & 0xFFFF, 0, 0))  # WORKER_START
    else:
        attempt_all()
    link.send(struct.pack("=I", os.getpid()))
    link.send(struct.pack("=III", os.getpid(), 1, 0))  # programs run
    while link.recv(1 << 17):
        pass
    sys.exit(0)


if __name__ == "__main__":
    main()
