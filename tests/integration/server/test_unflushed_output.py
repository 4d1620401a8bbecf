# SPDX-License-Identifier: Apache-2.0
"""What a program has printed reaches its client, however the program ends."""
from __future__ import annotations

from typing import Any

import pytest
from husk_server import Server, server  # noqa: F401
from programs import Program
from v1_client import Api

# The last text has no end of line, and no call flushes it.
PRINTED = """
import os, sys
print("a")
for i in range(300):
    print(i, end=" ")
print("b", 1, 2.5, end="")
sys.stdout.write("c")
print("d", end="", file=sys.stderr)
"""
OUT = "a\n" + " ".join(map(str, range(300))) + " b 1 2.5c"

ENDS = {
    "timeout": "while True: pass",
    "sleep": "import time; time.sleep(100)",
    "sigkill": "os.kill(os.getpid(), 9)",
    "exit": "os._exit(3)",
    "crash": "import ctypes; ctypes.string_at(8)",
    "memory": "kept = b'x' * (1 << 31)\nfor i in range(0, 1 << 31, 4096): kept += b'y' * (1 << 28)",
}


@pytest.mark.parametrize("how", ENDS)
def test_one_shot(server: Server, how: str) -> None:
    api = Api(server.port)
    session = api.session(mode="ephemeral")
    ran = api.run(session, PRINTED + ENDS[how], timeout=2)
    assert (ran["stdout"], ran["stderr"][:1]) == (OUT, "d"), ran
    # The program is PID 1 of its box, and no process inside can kill that.
    assert (ran["status"] == "completed") == (how == "sigkill")


@pytest.mark.parametrize("how", ENDS)
def test_cell_of_a_session(server: Server, how: str) -> None:
    api = Api(server.port)
    session = api.session()
    # An interrupt would end the cell in order; this one does not take it.
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + PRINTED + ENDS[how]
    ran = api.run(session, code, timeout=2)
    assert (ran["stdout"], ran["stderr"][:1]) == (OUT, "d"), ran
    assert ran["status"] != "completed"


def test_run(server: Server) -> None:
    body = {"code": 'print("a")\nprint("b", end="")\nwhile True: pass', "timeout": 1}
    assert server.post("/run", body).json["stdout"] == "a\nb"


def test_husk_run(husk: Program) -> None:
    done = husk("run", "--timeout", "1s", PRINTED + ENDS["timeout"])
    assert (done.code, done.text) == (124, OUT)


def test_of_threads_and_children(server: Server) -> None:
    api = Api(server.port)
    code = """
import os, threading
thread = threading.Thread(target=lambda: print("thread", end=" "))
thread.start()
thread.join()
if os.fork() == 0:
    print("child", end=" ")
    os.kill(os.getpid(), 9)
os.wait()
import subprocess, sys
subprocess.run([sys.executable, "-c", "import os; print('other', end=' '); os.kill(os.getpid(), 9)"])
import ctypes
ctypes.CDLL(None).printf(b"libc")
os.kill(os.getpid(), 9)
"""
    assert api.run(api.session(), code)["stdout"] == "thread child other libc"


# Standard output is a socket that keeps each write apart.
COUNTED = """
import os, socket, sys
class Loud:
    def __str__(self):
        print("loud", end="|")
        return "object"
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
kept = os.dup(1)
os.dup2(theirs.fileno(), 1)
try:
    {code}
except Exception as error:
    seen = [type(error).__name__]
else:
    seen = []
os.dup2(kept, 1)
ours.setblocking(False)
try:
    while True: seen.append(ours.recv(1 << 20).decode())
except BlockingIOError:
    pass
seen
"""

WRITES: dict[str, list[str]] = {
    "print('x')": ["x\n"],
    "print()": ["\n"],
    "print('x', 1, 2.5, None, True, 1j)": ["x 1 2.5 None True 1j\n"],
    "print(1, 2, sep='-', end='!')": ["1-2!"],
    "print('x', sep=None, end=None, file=None, flush=True)": ["x\n"],
    "print([1, 'a'])": ["[1, 'a']\n"],
    "print('x', [1])": ["x ", "[1]\n"],
    "print('x', Loud(), 'y')": ["x ", "loud|", "object y\n"],
    "print('x', Loud())": ["x ", "loud|", "object\n"],
    "print('x', '\\ud800')": ["UnicodeEncodeError", "x", " "],
    "print('x', end='\\ud800')": ["UnicodeEncodeError", "x"],
    "print('x', sep=1)": ["TypeError"],
    "print('x', ending=1)": ["TypeError"],
    "print('x', end=b'')": ["TypeError"],
    "sys.stdout.write('xy')": ["xy"],
    "sys.stdout.buffer.write(b'xy')": ["xy"],
    "sys.stdout.buffer.write(bytearray(b'xy'))": ["xy"],
    "sys.stdout.writelines(['x', 'y'])": ["x", "y"],
    "sys.stdout.buffer.write('x')": ["TypeError"],
    "import contextlib, io\n    with contextlib.redirect_stdout(io.StringIO()) as to: print('x')\n"
    "    print(to.getvalue())": ["x\n\n"],
}


@pytest.mark.parametrize("code", WRITES)
def test_a_print_is_one_write(server: Server, code: str) -> None:
    api = Api(server.port)
    ran = api.run(api.session(), COUNTED.format(code=code))
    assert ran["return_value"] == WRITES[code], ran


def test_print_is_a_builtin_function(server: Server) -> None:
    code = (
        "import builtins, inspect, pickle\n"
        "[repr(print), print.__module__, print.__name__, str(inspect.signature(print)),\n"
        " pickle.loads(pickle.dumps(print)) is print, inspect.isbuiltin(print), builtins.print is print]"
    )
    api = Api(server.port)
    signature = "(*args, sep=' ', end='\\n', file=None, flush=False)"
    expected: list[Any] = ["<built-in function print>", "builtins", "print", signature]
    assert api.run(api.session(), code)["return_value"] == [*expected, True, True, True]


def test_a_stream_that_was_closed_says_so(server: Server) -> None:
    code = """
import sys
said = []
for write in (lambda: sys.stdout.buffer.write(b"x"), lambda: sys.stdout.write("x"), lambda: print("x")):
    sys.stdout.close()
    try:
        write()
    except ValueError as error:
        said.append(str(error))
len(said)
"""
    api = Api(server.port)
    assert api.run(api.session(), code)["return_value"] == 3


def test_the_variables_of_the_original_are_set(server: Server) -> None:
    names = ["PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"]
    api = Api(server.port)
    for mode in ("persistent", "ephemeral"):
        ran = api.run(
            api.session(mode=mode),
            f"import os, sys; [*map(os.environ.get, {names}), sys.dont_write_bytecode]",
        )
        assert ran["return_value"] == ["1", "1", True]
