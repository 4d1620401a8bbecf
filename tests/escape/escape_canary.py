# SPDX-License-Identifier: Apache-2.0
"""Canaries: things on the host that no box may ever reach.

Every canary carries the same secret word. Payloads are told where the canaries are (paths, a port,
a socket name, a pid), never the word itself. When the word turns up in a byte that a box wrote, or
when one of the listeners gets a connection, a wall is broken.
"""
from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

MARK = "hskcnry"
SYS_ADD_KEY = 248
KEY_SPEC_SESSION_KEYRING = -3


class Listener:
    """Answers every visitor with the secret word and counts them."""

    def __init__(self, sock: socket.socket, word: bytes) -> None:
        self.sock = sock
        self.word = word
        self.visits = 0
        sock.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                visitor, _ = self.sock.accept()
            except OSError:
                return
            self.visits += 1
            with visitor:
                try:
                    visitor.sendall(self.word + b"\n")
                except OSError:
                    continue

    def close(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def _bound(family: socket.AddressFamily, address: object) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind(address)  # type: ignore[arg-type]
    return sock


class Canary:
    def __init__(self) -> None:
        tag = secrets.token_hex(6)
        self.word = f"{MARK}{secrets.token_hex(16)}"
        self.secret_dir = Path(tempfile.mkdtemp(prefix="husk-canary-", dir=Path.home()))
        self.secret_file = self.secret_dir / "secret"
        self.tmp_file = Path("/tmp") / f"husk-canary-{tag}"
        self.socket_path = Path("/tmp") / f"husk-canary-{tag}.sock"
        self.socket_name = f"husk-canary-{tag}"
        self.secret_file.write_text(self.word + "\n")
        self.secret_file.chmod(0o600)
        self.tmp_file.write_text(self.word + "\n")
        self.tmp_file.chmod(0o644)
        word = self.word.encode()
        tcp = _bound(socket.AF_INET, ("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        self.listeners = {
            "TCP port": Listener(tcp, word),
            "abstract socket": Listener(_bound(socket.AF_UNIX, "\0" + self.socket_name), word),
            "path socket": Listener(_bound(socket.AF_UNIX, str(self.socket_path)), word),
        }
        self.socket_path.chmod(0o666)
        self.bystander = subprocess.Popen(
            ["sleep", "3600"], env={"HUSK_CANARY": self.word}, cwd=self.secret_dir
        )
        self._add_key()

    def _add_key(self) -> None:
        """A key in our session keyring, which every child inherits unless it joins another."""
        libc = ctypes.CDLL(None, use_errno=True)
        word = self.word.encode()
        libc.syscall(
            SYS_ADD_KEY, b"user", b"husk-canary", word, len(word), KEY_SPEC_SESSION_KEYRING
        )

    def files(self) -> list[Path]:
        return [self.secret_file, self.tmp_file]

    def hints(self) -> dict[str, str]:
        """What payloads may know: where to look, never what is there."""
        return {
            "HINT_FILES": ":".join(str(path) for path in self.files()),
            "HINT_SOCKET": self.socket_name,
            "HINT_SOCKET_PATH": str(self.socket_path),
            "HINT_PORT": str(self.port),
            "HINT_PID": str(self.bystander.pid),
            "HINT_MARK": MARK,
        }

    def parent_env(self) -> dict[str, str]:
        """The environment for husk itself: it holds the word, and a box must not see it."""
        tmpdir = os.environ["HUSK_TEST_TMPDIR"]
        return {**os.environ, "HUSK_CANARY": self.word, "TMPDIR": tmpdir}

    def faults(self) -> list[str]:
        """What happened to the canaries that must not happen. Empty: nothing."""
        faults = [f"{n} was reached" for n, listener in self.listeners.items() if listener.visits]
        if self.bystander.poll() is not None:
            faults.append("the bystander process was killed")
        for path in self.files():
            if not path.exists() or path.read_text() != self.word + "\n":
                faults.append(f"{path} was changed")
        if sorted(path.name for path in self.secret_dir.iterdir()) != ["secret"]:
            faults.append(f"something was added to {self.secret_dir}")
        return faults

    def forget_visits(self) -> None:
        """After a control run without a box, which is meant to reach the listeners."""
        for listener in self.listeners.values():
            listener.visits = 0

    def close(self) -> None:
        for listener in self.listeners.values():
            listener.close()
        self.bystander.kill()
        self.bystander.wait()
        shutil.rmtree(self.secret_dir)
        self.tmp_file.unlink()
        self.socket_path.unlink()
