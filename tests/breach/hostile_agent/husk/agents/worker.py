# SPDX-License-Identifier: Apache-2.0
"""A hostile worker of a served agent. The supervisor starts it as `python -m husk.agents.worker`
because the plan's `sdk` is the folder above.

A query is JSON: {"say": [...], "then": "..."}. Each item of "say" is [type, id, payload] or
[type, id, payload, claimed length]; ids are relative to the request's own, null is 0; payloads are
in hexadecimal digits. A string in "say" is sent as it is, ["descriptor"] is a frame with descriptors.
"then" is "go on", "answer", "die", "hang", or "repeat": the same without end.
{"tell": ...} has it tell about itself. Any other query is answered with its own text.

Must not be imported by tests.
"""
from __future__ import annotations

import json
import os
import signal
import socket
import struct
from typing import Any

CALL, CHAT, HTTP, BODY, END, CANCEL, PING, DRAIN = range(1, 9)
READY, DONE, HTTP_END, PONG = 64, 68, 72, 73

link = socket.socket(fileno=3)


def send(kind: int, number: int, payload: bytes = b"", length: int | None = None) -> None:
    size = len(payload) if length is None else length
    link.sendall(struct.pack("<III", size, kind, number & 0xFFFFFFFF) + payload)


def receive(n: int) -> bytes:
    data = b""
    while len(data) < n:
        piece = link.recv(n - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def answer(number: int, text: str) -> None:
    send(DONE, number, json.dumps({"response": text}).encode())


def facts() -> str:
    fds = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            fds[fd] = os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
        except OSError:
            pass  # the one that lists them
    return json.dumps({"pid": os.getpid(), "fds": fds})


def say(number: int, items: list[Any]) -> None:
    for item in items:
        if isinstance(item, str):
            link.sendall(bytes.fromhex(item))
        elif item[0] == "descriptor":
            socket.send_fds(link, [struct.pack("<III", 0, PONG, 0)], [0, 1, 2])
        else:
            kind, offset, payload, *length = item
            where = 0 if offset is None else number + offset
            send(kind, where, bytes.fromhex(payload), length[0] if length else None)


def misbehave(number: int, order: dict[str, Any]) -> None:
    say(number, order["say"])
    while order["then"] == "repeat":
        say(number, order["say"])
    if order["then"] == "die":
        os._exit(3)
    if order["then"] == "hang":
        signal.pause()
    if order["then"] == "answer":
        answer(number, "answered")


def call(number: int, payload: dict[str, Any]) -> None:
    query = payload.get("query", "")
    if query.startswith('{"say"'):
        misbehave(number, json.loads(query))
    else:
        answer(number, facts() if query.startswith('{"tell"') else query)


def main() -> None:
    send(READY, 0, json.dumps({"pid": os.getpid(), "streams": ["text", "events"]}).encode())
    while True:
        length, kind, number = struct.unpack("<III", receive(12))
        payload = receive(length)
        if kind == PING:
            send(PONG, 0)
        elif kind == DRAIN:
            os._exit(0)
        elif kind == CALL:
            call(number, json.loads(payload))


main()
