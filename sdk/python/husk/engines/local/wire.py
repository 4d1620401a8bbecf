# SPDX-License-Identifier: Apache-2.0
"""Frames between the caller of a tool and its worker process: a kind, a length, that many bytes.

One call is in flight at a time, so frames need no id. Payloads are pickles, because both sides are
the same program of the same user. The caller's socket is non-blocking, the worker's is blocking.
"""

from __future__ import annotations

import importlib
import pickle
import socket
import struct
from collections import deque
from typing import Any, Optional

HEAD = struct.Struct("<cQ")
FUNCTION_ID = struct.Struct("<I")

# To the worker: function id, then a pickle.
DEFINE = b"D"  # dict: where the function can be imported from, or the function itself
CALL = b"C"  # (args, kwargs)
# ([(label, pickle)...], [(name, pickle)...]): slower, but can name an argument that does not load
CALL_SPLIT = b"S"

# From the worker.
LOADED = b"L"  # the function is loaded; the call begins
# its module cannot be imported: text with the reason; the worker skips the call that follows
NOT_IMPORTABLE = b"N"
ANOTHER = b"O"  # its module has another function, or none, under this name: the same
LOAD_FAILED = b"F"  # the pickled function does not load: the same
BAD_ARGUMENTS = b"A"  # pickle of (label or None, text); the call did not start
RESULT = b"R"  # pickle
RESULT_AFTER_OUTPUT = b"r"  # the same, and the tool wrote something
# pickle of (type name, message, traceback text, pickled exception or None: not to be raised again)
RAISED = b"E"
BAD_RESULT = b"U"  # text

CHUNK = 65536


def dumps(value: Any) -> bytes:
    """Pickles by reference if possible, else by value (classes and functions of a script or a
    notebook).
    """
    try:
        plain = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        # __main__ is another module in another process.
        if b"__main__" not in plain:
            return plain
    except Exception:
        # pickle raises PicklingError, AttributeError, TypeError and others; cloudpickle may succeed.
        pass
    data: bytes = cloudpickle().dumps(value)
    return data


def cloudpickle() -> Any:
    """Returns the module, which is slow to import and rarely needed."""
    return importlib.import_module("cloudpickle")


class Channel:
    """The caller's end: buffers unsent data and incomplete frames."""

    __slots__ = ("sock", "fd", "_out", "_in")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.fd = sock.fileno()
        self._out: deque[memoryview] = deque()
        self._in = bytearray()

    def send(self, kind: bytes, function_id: int, payload: bytes) -> None:
        """Queues one frame and sends as much as the socket accepts."""
        head = HEAD.pack(kind, FUNCTION_ID.size + len(payload)) + FUNCTION_ID.pack(function_id)
        if len(payload) < CHUNK:
            self._out.append(memoryview(head + payload))
        else:
            self._out.append(memoryview(head))
            self._out.append(memoryview(payload))
        self.flush()

    @property
    def unsent(self) -> bool:
        """Whether unsent data is queued."""
        return bool(self._out)

    def flush(self) -> bool:
        """Sends queued data; returns False if some is left. Raises OSError if the worker is gone."""
        while self._out:
            part = self._out[0]
            try:
                sent = self.sock.send(part)
            except BlockingIOError:
                return False
            if sent < len(part):
                self._out[0] = part[sent:]
            else:
                self._out.popleft()
        return True

    def receive(self) -> Optional[tuple[bytes, bytes]]:
        """Reads available data; returns a frame if one is complete. Raises EOFError if the worker
        is gone.
        """
        frame = self.buffered()
        if frame is not None:
            return frame
        size = self._missing()
        while True:
            try:
                data = self.sock.recv(size)
            except BlockingIOError:
                return None
            except OSError as error:
                raise EOFError(str(error)) from None
            if not data:
                raise EOFError("the worker closed its socket")
            if not self._in and len(data) >= HEAD.size:
                kind, length = HEAD.unpack_from(data)
                if len(data) == HEAD.size + length:
                    return kind, data[HEAD.size :]
            self._in += data
            frame = self.buffered()
            if frame is not None:
                return frame
            size = self._missing()

    def buffered(self) -> Optional[tuple[bytes, bytes]]:
        """Returns a frame that is already buffered."""
        if len(self._in) < HEAD.size:
            return None
        kind, length = HEAD.unpack_from(self._in)
        end = HEAD.size + length
        if len(self._in) < end:
            return None
        frame = kind, bytes(memoryview(self._in)[HEAD.size : end])
        del self._in[:end]
        return frame

    def _missing(self) -> int:
        # Read large results in few system calls, without allocating the announced length up front.
        if len(self._in) < HEAD.size:
            return CHUNK
        length: int = HEAD.unpack_from(self._in)[1]
        return max(CHUNK, min(HEAD.size + length - len(self._in), 16 * CHUNK))

    def close(self) -> None:
        """Closes the socket; the worker ends at the end of its input."""
        self.sock.close()


class BlockingChannel:
    """The worker's end."""

    __slots__ = ("sock", "_in")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._in = b""

    def receive(self) -> tuple[bytes, int, memoryview]:
        """Returns kind, function id and payload of the next frame. Raises EOFError if the caller is
        gone.
        """
        data = self._in or self._read()
        while len(data) < HEAD.size + FUNCTION_ID.size:
            data += self._read()
        kind, length = HEAD.unpack_from(data)
        end = HEAD.size + length
        if len(data) < end:
            whole = bytearray(end)
            whole[: len(data)] = data
            self._fill(memoryview(whole)[len(data) :])
            data = bytes()
            view = memoryview(whole)
        else:
            view = memoryview(data)[:end]
            data = data[end:]
        self._in = data
        (function_id,) = FUNCTION_ID.unpack_from(view, HEAD.size)
        return kind, function_id, view[HEAD.size + FUNCTION_ID.size :]

    def send(self, kind: bytes, payload: bytes) -> None:
        """Sends one frame."""
        head = HEAD.pack(kind, len(payload))
        if len(payload) < CHUNK:
            self.sock.sendall(head + payload)
        else:
            self.sock.sendall(head)
            self.sock.sendall(payload)

    def _read(self) -> bytes:
        data = self.sock.recv(CHUNK)
        if not data:
            raise EOFError
        return data

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self.sock.recv_into(view)
            if count == 0:
                raise EOFError
            view = view[count:]
