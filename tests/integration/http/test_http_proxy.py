# SPDX-License-Identifier: Apache-2.0
"""The HTTP server behind nginx: for every odd input both must see the same number of requests.

Smuggling needs a proxy and a server that disagree about where requests end. So whatever nginx lets
through, our server must count as exactly one request, and never more than nginx passed on.
"""
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from http_raw import Echo, Line, answers, echo_server
from test_http_strict import BAD, OK
from waiting import wait_until

CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    log_format passed '$upstream_status';
    access_log {folder}/access.log passed;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_header_timeout 1s;
    client_body_timeout 1s;
    lingering_time 1s;
    lingering_timeout 1s;
    large_client_header_buffers 4 32k;
    proxy_request_buffering off;
    upstream ours {{ server 127.0.0.1:{port}; keepalive 4; }}
    server {{
        listen unix:{folder}/front;
        location / {{
            proxy_pass http://ours;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host localhost;
            proxy_next_upstream off;
        }}
    }}
}}
"""


@dataclass
class Proxy:
    folder: Path
    echo: Echo

    def passed(self) -> int:
        """How many requests nginx has handed to our server."""
        lines = (self.folder / "access.log").read_text().split("\n")
        return sum(1 for line in lines if line not in ("", "-"))

    def seen(self) -> int:
        """How many our server has seen (this question not counted)."""
        count: int = self.echo.stats()["heads"]
        return count

    def line(self) -> Line:
        return Line(f"{self.folder}/front")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    with echo_server("body_max=100000") as echo:
        config = folder / "nginx.conf"
        config.write_text(CONFIG.format(folder=folder, port=echo.port))
        process = subprocess.Popen(
            [nginx, "-p", folder, "-c", config], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        try:
            front = folder / "front"
            wait_until(lambda: front.exists() or process.poll() is not None, "nginx has started")
            assert process.poll() is None, "nginx did not start"
            yield Proxy(folder, echo)
        finally:
            process.terminate()
            _, said = process.communicate(timeout=10)
            assert b"emerg" not in said


LAST = b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
# nginx answers these by itself with 400.
REFUSED_BY_NGINX = {"tabs around a value", "asterisk"}
CASES = [(name, 0, data) for name, _, data in BAD]
CASES += [(name, 0 if name in REFUSED_BY_NGINX else 2, data) for name, data, _ in OK]


@pytest.mark.parametrize("name, least, data", CASES, ids=[row[0] for row in CASES])
def test_both_see_the_same_number(proxy: Proxy, name: str, least: int, data: bytes) -> None:
    seen, passed = proxy.seen(), proxy.passed()
    with proxy.line() as line:
        try:
            line.send(data + LAST)
        except (BrokenPipeError, ConnectionResetError):
            pass
        said = line.rest()
    questions = 0

    def numbers() -> tuple[int, int]:
        """What nginx passed on and what we saw, without our own questions."""
        nonlocal questions
        questions += 1
        return proxy.passed() - passed, proxy.seen() - seen - questions

    def same() -> tuple[int, int] | None:
        found = numbers()
        return found if found[0] == found[1] else None

    now_passed, _ = wait_until(same, lambda: f"nginx passed as many as we saw: {numbers()}")
    assert least <= now_passed <= 2
    assert said.count(b"GET /last 0 0\n") <= 1


def test_ordinary_traffic_through_the_proxy(proxy: Proxy) -> None:
    with proxy.line() as line:
        for i in range(50):
            line.send(f"GET /p{i} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert line.answer().text == f"GET /p{i} 0 0\n"
        line.send(b"POST /up HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.send(b"5\r\nhello\r\n0\r\n\r\n")
        assert line.answer().text == "POST /up 0 5\nhello"
        line.send(b"GET /stream?n=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n" + LAST)
        found = answers(line.rest())
    assert [len(a.body) for a in found] == [100000, 14]
