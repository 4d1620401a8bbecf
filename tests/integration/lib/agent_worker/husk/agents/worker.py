# SPDX-License-Identifier: Apache-2.0
"""A worker for tests of huskd's side of served agents: speaks its frames, and breaks every rule
when it is asked to.

The supervisor starts it as `python -m husk.agents.worker --file FILE --name NAME` because the
plan's `sdk` is the folder above. FILE is not imported: its first word says how to start (ready,
fail, die, mute, late) and the first word of a query what to do.
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

CALL, CHAT, HTTP, BODY, END, CANCEL, PING, DRAIN = range(1, 9)
READY, FAILED, TEXT, EVENT, DONE, ERROR, HTTP_HEAD, HTTP_BODY, HTTP_END, PONG, BEGUN = range(64, 75)


class Cancelled(Exception):
    """The request that the thread works on is not wanted any more."""


class Request:
    def __init__(self, number: int, kind: int, payload: Any) -> None:
        self.number = number
        self.kind = kind
        self.payload = payload
        self.cancelled = threading.Event()
        self.body = b""
        self.whole = threading.Event()


class Worker:
    def __init__(self) -> None:
        self.socket = socket.socket(fileno=3)
        self.lock = threading.Lock()
        self.requests: dict[int, Request] = {}
        self.cancels: list[str] = []  # queries that were cancelled
        self.most_at_once = 0
        self.draining = False

    # ---- frames ----

    def write(self, kind: int, number: int, payload: Any = b"") -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        with self.lock:
            self.socket.sendall(struct.pack("<III", len(data), kind, number) + data)

    def read(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            piece = self.socket.recv(n - len(data))
            if not piece:
                os._exit(0)
            data += piece
        return data

    def serve(self) -> None:
        while True:
            length, kind, number = struct.unpack("<III", self.read(12))
            payload = self.read(length)
            if kind == PING:
                self.write(PONG, 0)
            elif kind == DRAIN:
                self.draining = True
                self.leave_if_idle()
            elif kind == CANCEL:
                self.cancel(number)
            elif kind in (BODY, END):
                self.take_body(number, kind, payload)
            else:
                self.begin(Request(number, kind, json.loads(payload)))

    def take_body(self, number: int, kind: int, payload: bytes) -> None:
        request = self.requests.get(number)
        if request is not None:  # else it was answered before all of it had come
            request.body += payload
            if kind == END:
                request.whole.set()

    def cancel(self, number: int) -> None:
        request = self.requests.get(number)
        if request is not None:
            self.cancels.append(str(request.payload.get("query", request.payload.get("path", ""))))
            request.cancelled.set()
            request.whole.set()

    def begin(self, request: Request) -> None:
        if request.payload.get("query") == "block":
            time.sleep(3600)  # in the thread that would answer pings
        self.requests[request.number] = request
        self.most_at_once = max(self.most_at_once, len(self.requests))
        threading.Thread(target=self.work, args=(request,), daemon=True).start()

    def leave_if_idle(self) -> None:
        if self.draining and not self.requests:
            os._exit(0)

    # ---- requests ----

    def work(self, request: Request) -> None:
        try:
            if request.kind == HTTP:
                self.pass_http(request)
            elif request.kind == CHAT:
                self.finish(request, DONE, {"result": {"got": request.payload["data"]}})
            else:
                word, _, rest = request.payload["query"].partition(" ")
                self.write(BEGUN, request.number)
                getattr(self, "do_" + word)(request, rest)
        except Cancelled:
            self.finish(request, ERROR, {"type": "Cancelled", "message": "", "status": 500})
        except Exception as error:
            name = type(error).__name__
            self.finish(request, ERROR, {"type": name, "message": str(error), "status": 500})

    def finish(self, request: Request, kind: int, payload: Any) -> None:
        """The last frame. The slot is free before the other side can use it again."""
        del self.requests[request.number]
        self.write(kind, request.number, payload)
        self.leave_if_idle()

    def answer(self, request: Request, text: str) -> None:
        self.finish(request, DONE, {"response": text})

    def do_echo(self, request: Request, rest: str) -> None:
        self.answer(request, rest)

    def do_fields(self, request: Request, rest: str) -> None:
        self.answer(request, json.dumps(request.payload))

    def do_pid(self, request: Request, rest: str) -> None:
        self.answer(request, str(os.getpid()))

    def do_environment(self, request: Request, rest: str) -> None:
        self.answer(request, os.environ.get(rest, ""))

    def do_cancels(self, request: Request, rest: str) -> None:
        self.answer(request, json.dumps(self.cancels))

    def do_most(self, request: Request, rest: str) -> None:
        self.answer(request, str(self.most_at_once))

    def do_wait(self, request: Request, rest: str) -> None:
        """Until there is a file."""
        while not Path(rest).exists():
            if request.cancelled.wait(0.02):
                raise Cancelled
        self.answer(request, "")

    def do_sleep(self, request: Request, rest: str) -> None:
        if request.cancelled.wait(float(rest)):
            raise Cancelled
        self.answer(request, "slept")

    def do_hang(self, request: Request, rest: str) -> None:
        time.sleep(3600)

    def do_raise(self, request: Request, rest: str) -> None:
        raise ValueError(rest)

    def do_refuse(self, request: Request, rest: str) -> None:
        status = int(rest)
        self.finish(request, ERROR, {"type": "Refused", "message": "no", "status": status})

    def do_die(self, request: Request, rest: str) -> None:
        os._exit(int(rest))

    def do_signal(self, request: Request, rest: str) -> None:
        os.kill(os.getpid(), int(rest))

    def do_memory(self, request: Request, rest: str) -> None:
        kept = []
        while True:
            kept.append(bytearray(b"x" * (1 << 20)))

    # ---- streams ----

    def do_tokens(self, request: Request, rest: str) -> None:
        stream = request.payload["stream"]
        for token in json.loads(rest):
            if stream == "text":
                self.write(TEXT, request.number, {"content": token})
            elif stream == "events":
                self.write(EVENT, request.number, token)
        self.answer(request, "")

    def do_stumble(self, request: Request, rest: str) -> None:
        self.write(TEXT, request.number, {"content": "so far"})
        raise ValueError(rest)

    def do_trickle(self, request: Request, rest: str) -> None:
        while not request.cancelled.wait(0.02):
            self.write(TEXT, request.number, {"content": "x"})
        raise Cancelled

    def do_half(self, request: Request, rest: str) -> None:
        self.write(TEXT, request.number, {"content": "half"})
        time.sleep(0.3)
        os._exit(7)

    def do_flood(self, request: Request, rest: str) -> None:
        payload = {"content": "x" * (1 << 20)}
        while not request.cancelled.is_set():
            self.write(TEXT, request.number, payload)
        raise Cancelled

    # ---- lies ----

    def raw(self, data: bytes) -> None:
        with self.lock:
            self.socket.sendall(data)
        time.sleep(3600)

    def do_garbage(self, request: Request, rest: str) -> None:
        self.raw(b"HTTP/1.1 200 OK\r\n\r\nhello, this is no frame")

    def do_huge(self, request: Request, rest: str) -> None:
        self.raw(struct.pack("<III", 0xFFFFFFFF, DONE, request.number))

    def do_stranger(self, request: Request, rest: str) -> None:
        self.raw(struct.pack("<III", 2, EVENT, request.number + 1) + b"{}")

    def do_again(self, request: Request, rest: str) -> None:
        self.answer(request, "first")
        time.sleep(0.2)
        self.raw(struct.pack("<III", 2, EVENT, request.number) + b"{}")

    def do_badjson(self, request: Request, rest: str) -> None:
        self.finish(request, DONE, rest.encode())

    def do_badtext(self, request: Request, rest: str) -> None:
        self.write(TEXT, request.number, b"[]")
        if not request.cancelled.wait(30):
            os._exit(9)
        raise Cancelled

    # ---- HTTP ----

    def pass_http(self, request: Request) -> None:
        asked = request.payload
        if asked["path"] == "/tools/mcp/early":
            head = {"status": 413, "headers": [["content-type", "text/plain"]]}
            self.write(HTTP_HEAD, request.number, head)
            self.write(HTTP_BODY, request.number, b"enough")
            self.finish(request, HTTP_END, b"")
            return
        request.whole.wait()
        if request.cancelled.is_set():
            raise Cancelled
        if asked["path"] == "/tools/mcp/feed":
            self.feed(request)
            return
        answer = {**asked, "body": request.body.decode("latin-1")}
        headers = [
            ["content-type", "application/json"],
            ["content-length", "7"],  # a lie
            ["connection", "close"],
            ["mcp-session-id", "abc"],
        ]
        if asked["path"] == "/tools/mcp/split":
            headers.append(["x-evil", "a\r\nset-cookie: b"])
        self.write(HTTP_HEAD, request.number, {"status": 202, "headers": headers})
        data = json.dumps(answer).encode()
        for at in range(0, len(data), 1 << 20):
            self.write(HTTP_BODY, request.number, data[at : at + (1 << 20)])
        self.finish(request, HTTP_END, b"")

    def feed(self, request: Request) -> None:
        head = {"status": 200, "headers": [["content-type", "text/event-stream"]]}
        self.write(HTTP_HEAD, request.number, head)
        while not request.cancelled.wait(0.02):
            self.write(HTTP_BODY, request.number, b"data: tick\n\n")
        raise Cancelled


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--name", required=True)
    file = parser.parse_args().file
    word, _, rest = file.read_text().strip().partition(" ")
    worker = Worker()
    if word == "fail":
        worker.write(FAILED, 0, {"error": rest, "traceback": "Traceback: " + rest})
        sys.exit(1)
    if word == "die":
        sys.exit(int(rest))
    if word == "mute":
        signal.pause()
    if word == "late":
        while not Path(rest).exists():
            time.sleep(0.02)
    if word == "once" and Path(rest).exists():
        worker.write(FAILED, 0, {"error": "only once", "traceback": ""})
        sys.exit(1)
    worker.write(READY, 0, {"pid": os.getpid(), "streams": ["text", "events"]})
    worker.serve()


main()
