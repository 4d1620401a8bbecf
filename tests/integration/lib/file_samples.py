# SPDX-License-Identifier: Apache-2.0
"""What the tests of both file interfaces share: bodies, hostile names, hostile code."""
from __future__ import annotations

import uuid
from pathlib import Path

from husk_server import Server

MIB = 1 << 20

# As they stand in a URL: dots, encoded and doubly encoded dots and slashes, NUL, overlong UTF-8,
# backslashes.
TRAVERSALS = [
    "..",
    "../..",
    "../../../../etc/passwd",
    "a/../../../etc/passwd",
    "%2e%2e/%2e%2e/etc/passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%2f..%2fetc/passwd",
    "..%00/etc/passwd",
    "%00",
    "a%00.txt",
    "%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd",
    "%e0%80%ae%e0%80%ae%c0%af..%c0%afetc",
    "..\\..\\etc\\passwd",
    "/etc/passwd",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "%2Fproc%2Fself%2Fenviron",
    "./../etc/passwd",
    "a/./../../etc/passwd",
    "a" * 300 + "/x",
    "/".join(["d" * 200] * 8),
]

# These look like it, and are plain names of one part.
HARMLESS = ["%252e%252e%252fetc%252fpasswd", "..%5c..%5cetc%5cpasswd", "...", "..x", "x.."]

SECRETS = (b"root:x:0:0", b"daemon:x:1:1", b"PATH=", b"HUSK_", b"outside")


def check_no_leak(data: bytes) -> None:
    for secret in SECRETS:
        assert secret not in data, data[:500]


def pattern(n: int) -> bytes:
    """Bytes in which every place can be told apart from its neighbours."""
    block = bytes(i * 7 & 255 for i in range(65521))
    return (block * (n // len(block) + 1))[:n]


def form(parts: list[tuple[str, str | None, bytes]]) -> tuple[bytes, str]:
    """A multipart body and its content type."""
    mark = uuid.uuid4().hex
    body = b""
    for name, filename, data in parts:
        shown = f'; filename="{filename}"' if filename is not None else ""
        body += f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n'.encode()
        body += b"Content-Type: application/octet-stream\r\n\r\n" + data + b"\r\n"
    return body + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


def plant_links() -> str:
    """Code for a session: links that lead out, in a circle, and what is no file."""
    return """
import os
os.symlink('/etc/passwd', 'passwd')
os.symlink('/proc/self/environ', 'environ')
os.symlink('..', 'up')
os.symlink('/', 'root')
os.symlink('/etc', 'etc')
os.symlink('loop', 'loop')
os.mkfifo('fifo')
"""


def swap_loop(seconds: float) -> str:
    """Code for a session: 'd' is a directory of the workspace and a link to /tmp/out, by turns.

    A file 'end' ends it sooner.
    """
    return f"""
import ctypes, os, time
os.makedirs('d', exist_ok=True)
open('d/secret', 'w').write('inside')
os.makedirs('/tmp/out', exist_ok=True)
open('/tmp/out/secret', 'w').write('outside')
os.symlink('/tmp/out', 'link')
rename = ctypes.CDLL(None).renameat2
print('swapping', flush=True)
end = time.time() + {seconds}
while time.time() < end and not os.path.exists('end'):
    for _ in range(1000):
        rename(-100, b'd', -100, b'link', 2)
if os.path.islink('d'):
    rename(-100, b'd', -100, b'link', 2)
"""


def daemon_memory(server: Server) -> int:
    """Bytes of memory that the daemon has used at most so far."""
    for line in Path(f"/proc/{server.pid_of_huskd()}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the daemon is gone")
