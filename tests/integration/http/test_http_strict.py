# SPDX-License-Identifier: Apache-2.0
"""Raw bytes against the HTTP server: what is ambiguous is refused and ends the connection.

Behind each refused request stands a second, proper one. It must never be answered: a client
smuggles a request past a proxy by making two parsers disagree about where the first one ends.
"""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from http_raw import Echo, Line, answers, echo_server

HOST = b"Host: localhost\r\n"
GET = b"GET /x HTTP/1.1\r\n"
POST = b"POST /x HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SECOND = b"GET /second HTTP/1.1\r\nHost: localhost\r\n\r\n"
REFUSALS = {400, 403, 411, 413, 414, 417, 421, 431, 501, 505}


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with echo_server("body_max=100000", "head_ms=1500") as server:
        yield server


BAD: list[tuple[str, int, bytes]] = [
    # framing: two lengths, two codings, both
    (
        "length beside coding",
        400,
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "coding beside length",
        400,
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ),
    ("two equal lengths", 400, POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ("two different lengths", 400, POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    ("list of lengths", 400, POST + b"Content-Length: 5, 5\r\n\r\nhello"),
    ("negative length", 400, POST + b"Content-Length: -5\r\n\r\n"),
    ("length with sign", 400, POST + b"Content-Length: +5\r\n\r\nhello"),
    ("length in hex", 400, POST + b"Content-Length: 0x5\r\n\r\nhello"),
    ("length with underscore", 400, POST + b"Content-Length: 1_0\r\n\r\nhellohello"),
    ("length with inner blank", 400, POST + b"Content-Length: 1 0\r\n\r\nhellohello"),
    ("length with fraction", 400, POST + b"Content-Length: 5.0\r\n\r\nhello"),
    ("length with exponent", 400, POST + b"Content-Length: 5e0\r\n\r\nhello"),
    ("empty length", 400, POST + b"Content-Length:\r\n\r\n"),
    ("length beyond 64 bits", 400, POST + b"Content-Length: 18446744073709551621\r\n\r\nhello"),
    ("length that wraps signed", 400, POST + b"Content-Length: 9223372036854775813\r\n\r\nhello"),
    ("length of 400 digits", 400, POST + b"Content-Length: " + b"0" * 399 + b"5\r\n\r\nhello"),
    ("length above the limit", 413, POST + b"Content-Length: 100001\r\n\r\n"),
    ("length in Arabic digits", 400, POST + "Content-Length: \u0665\r\n\r\nhello".encode()),
    (
        "two codings",
        400,
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunked twice in a list",
        400,
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    ),
    ("gzip then chunked", 400, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("chunked then identity", 400, POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ("identity", 501, POST + b"Transfer-Encoding: identity\r\n\r\n"),
    ("gzip only", 501, POST + b"Transfer-Encoding: gzip\r\n\r\n"),
    ("xchunked", 501, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("chunked with parameter", 400, POST + b"Transfer-Encoding: chunked; q=1\r\n\r\n0\r\n\r\n"),
    ("chunked in quotes", 400, POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n'),
    ("chunked with vertical tab", 400, POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("chunked with NUL", 400, POST + b"Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n"),
    ("empty coding", 400, POST + b"Transfer-Encoding:\r\n\r\n"),
    ("comma before chunked", 400, POST + b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    ("coding with blank before colon", 400, POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ("coding with tab before colon", 400, POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    ("coding behind bare CR", 400, POST + b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("coding behind bare LF", 400, POST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (
        "coding on a folded line",
        400,
        POST + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("folded coding", 400, POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    (
        "coding in HTTP/1.0",
        400,
        b"POST /x HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("length with blank before colon", 400, POST + b"Content-Length : 5\r\n\r\nhello"),
    # chunks
    ("chunk extension", 400, CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n"),
    ("chunk extension without value", 400, CHUNKED + b"5;\r\nhello\r\n0\r\n\r\n"),
    ("extension of the last chunk", 400, CHUNKED + b"0;a\r\n\r\n"),
    ("chunk size beyond 64 bits", 400, CHUNKED + b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("chunk size of all ones", 400, CHUNKED + b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ("chunk size with sign", 400, CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size negative", 400, CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size with 0x", 400, CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size with blank before", 400, CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size with blank behind", 400, CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n"),
    ("chunk size empty", 400, CHUNKED + b"\r\nhello\r\n0\r\n\r\n"),
    ("chunk size not hex", 400, CHUNKED + b"5g\r\nhello\r\n0\r\n\r\n"),
    ("chunk size line ends in LF", 400, CHUNKED + b"5\nhello\r\n0\r\n\r\n"),
    ("chunk size line ends in CR", 400, CHUNKED + b"5\rhello\r\n0\r\n\r\n"),
    ("chunk longer than its size", 400, CHUNKED + b"4\r\nhello\r\n0\r\n\r\n"),
    ("chunk shorter than its size", 400, CHUNKED + b"6\r\nhello\r\n0\r\n\r\n"),
    ("chunk ends in LF", 400, CHUNKED + b"5\r\nhello\n0\r\n\r\n"),
    ("last chunk ends in LF", 400, CHUNKED + b"5\r\nhello\r\n0\n\n"),
    ("trailer", 400, CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    ("trailer with length", 400, CHUNKED + b"0\r\nContent-Length: 5\r\n\r\nhello"),
    (
        "chunked body above the limit",
        413,
        CHUNKED + b"186a1\r\n" + b"x" * 100001 + b"\r\n0\r\n\r\n",
    ),
    ("zero chunk with many digits", 400, CHUNKED + b"0" * 20 + b"\r\n\r\n"),
    # lines
    ("folded header", 400, GET + HOST + b"X: a\r\n b\r\n\r\n"),
    ("folded header by tab", 400, GET + HOST + b"X: a\r\n\tb\r\n\r\n"),
    ("folded first header", 400, GET + b" X: a\r\n" + HOST + b"\r\n"),
    ("folded line with blanks only", 400, GET + HOST + b"X: a\r\n \r\n\r\n"),
    ("request line ends in LF", 400, b"GET /x HTTP/1.1\n" + HOST + b"\r\n"),
    ("header ends in LF", 400, GET + b"Host: localhost\n\r\n"),
    ("head ends in LF LF", 400, GET + b"Host: localhost\n\n"),
    ("head ends in CRLF LF", 400, GET + HOST + b"\n"),
    ("bare CR in a value", 400, GET + HOST + b"X: a\rb\r\n\r\n"),
    ("CR CR LF", 400, GET + b"Host: localhost\r\r\n\r\n"),
    ("line starts with LF", 400, b"\n" + GET + HOST + b"\r\n"),
    ("two empty lines before", 400, b"\r\n\r\n" + GET + HOST + b"\r\n"),
    ("NUL in a value", 400, GET + HOST + b"X: a\0b\r\n\r\n"),
    ("NUL in a name", 400, GET + HOST + b"X\0Y: a\r\n\r\n"),
    ("NUL in the target", 400, b"GET /x\0y HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("control byte in a value", 400, GET + HOST + b"X: a\x01b\r\n\r\n"),
    ("escape in a value", 400, GET + HOST + b"X: \x1b[2J\r\n\r\n"),
    ("DEL in a value", 400, GET + HOST + b"X: \x7f\r\n\r\n"),
    ("blank before colon", 400, GET + HOST + b"X : a\r\n\r\n"),
    ("blank in a name", 400, GET + HOST + b"X Y: a\r\n\r\n"),
    ("no name", 400, GET + HOST + b": a\r\n\r\n"),
    ("no colon", 400, GET + HOST + b"X\r\n\r\n"),
    ("bracket in a name", 400, GET + HOST + b"X[]: a\r\n\r\n"),
    ("byte above ASCII in a name", 400, GET + HOST + b"X\xe9: a\r\n\r\n"),
    ("quote in a name", 400, GET + HOST + b'"X": a\r\n\r\n'),
    # Host
    ("no Host", 400, GET + b"\r\n"),
    ("no Host in HTTP/1.0", 400, b"GET /x HTTP/1.0\r\n\r\n"),
    ("two Hosts", 400, GET + HOST + HOST + b"\r\n"),
    ("two Hosts that differ", 400, GET + HOST + b"Host: evil\r\n\r\n"),
    ("two Hosts in different case", 400, GET + HOST + b"hOST: localhost\r\n\r\n"),
    ("empty Host", 400, GET + b"Host:\r\n\r\n"),
    ("Host with a path", 400, GET + b"Host: localhost/x\r\n\r\n"),
    ("Host with a user", 400, GET + b"Host: evil@localhost\r\n\r\n"),
    ("Host list", 400, GET + b"Host: localhost, evil\r\n\r\n"),
    ("Host with a blank", 400, GET + b"Host: local host\r\n\r\n"),
    ("Host with a bad port", 400, GET + b"Host: localhost:99999\r\n\r\n"),
    ("Host with a port that is no number", 400, GET + b"Host: localhost:http\r\n\r\n"),
    ("Host with an open bracket", 400, GET + b"Host: [::1\r\n\r\n"),
    ("foreign Host", 421, GET + b"Host: evil.example\r\n\r\n"),
    ("foreign port of a listed Host", 421, GET + b"Host: good.example:80\r\n\r\n"),
    ("Host with trailing dot", 421, GET + b"Host: localhost.\r\n\r\n"),
    ("foreign Origin", 403, GET + HOST + b"Origin: http://evil.example\r\n\r\n"),
    ("Origin null", 403, GET + HOST + b"Origin: null\r\n\r\n"),
    (
        "Origin that only begins well",
        403,
        GET + HOST + b"Origin: http://friend.example.evil\r\n\r\n",
    ),
    (
        "two Origins",
        400,
        GET + HOST + b"Origin: http://friend.example\r\nOrigin: http://friend.example\r\n\r\n",
    ),
    # request line
    ("two blanks before the target", 400, b"GET  /x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("two blanks behind the target", 400, b"GET /x  HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("blank at the end", 400, b"GET /x HTTP/1.1 \r\n" + HOST + b"\r\n"),
    ("blank at the start", 400, b" GET /x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("tabs instead of blanks", 400, b"GET\t/x\tHTTP/1.1\r\n" + HOST + b"\r\n"),
    ("no version", 400, b"GET /x\r\n" + HOST + b"\r\n"),
    ("no target", 400, b"GET HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("small letters in the version", 400, b"GET /x http/1.1\r\n" + HOST + b"\r\n"),
    ("version of three digits", 400, b"GET /x HTTP/1.11\r\n" + HOST + b"\r\n"),
    ("version with sign", 400, b"GET /x HTTP/1.+1\r\n" + HOST + b"\r\n"),
    ("HTTP/2", 505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("HTTP/1.2", 505, b"GET /x HTTP/1.2\r\n" + HOST + b"\r\n"),
    ("HTTP/0.9", 505, b"GET /x HTTP/0.9\r\n" + HOST + b"\r\n"),
    ("unknown method", 501, b"BREW /x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("method in small letters", 501, b"get /x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("CONNECT", 501, b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("method with a bracket", 400, b"G(T /x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("TLS", 400, b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1"),
    # target
    ("target without slash", 400, b"GET x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("asterisk with GET", 400, b"GET * HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("absolute target of another host", 400, b"GET http://evil/x HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("absolute target with a user", 400, b"GET http://a@localhost/x HTTP/1.1\r\n" + HOST + b"\r\n"),
    (
        "absolute target of another scheme",
        400,
        b"GET ftp://localhost/x HTTP/1.1\r\n" + HOST + b"\r\n",
    ),
    ("fragment", 400, b"GET /x#y HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("backslash", 400, b"GET /x\\y HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("byte above ASCII", 400, b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("encoded NUL", 400, b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("encoded NUL in the query", 400, b"GET /?a=%00 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("dot dot behind an encoded slash", 400, b"GET /a%2f../b HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("encoded line end", 400, b"GET /a%0d%0ab HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("dot segment", 400, b"GET /a/./b HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("dot dot segment", 400, b"GET /a/../b HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("encoded dot dot segment", 400, b"GET /a/%2e%2E/b HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("half encoded dot dot segment", 400, b"GET /a/.%2e HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("overlong dot", 400, b"GET /%c0%ae%c0%ae/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("overlong slash", 400, b"GET /%c0%af HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("surrogate", 400, b"GET /%ed%a0%80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("lone continuation byte", 400, b"GET /%80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("cut off percent", 400, b"GET /%4 HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("percent that is not hex", 400, b"GET /%zz HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("percent u", 400, b"GET /%u002e HTTP/1.1\r\n" + HOST + b"\r\n"),
    # sizes
    ("target too long", 414, b"GET /" + b"a" * 8000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("request line that never ends", 414, b"GET /" + b"a" * 17000),
    ("head too large", 431, GET + HOST + b"X: " + b"x" * 17000),
    (
        "one field too many",
        431,
        GET + HOST + b"".join(b"X%d: y\r\n" % i for i in range(64)) + b"\r\n",
    ),
    ("100,000 fields", 431, GET + HOST + b"a:b\r\n" * 100000 + b"\r\n"),
    # the rest
    ("unknown expectation", 417, POST + b"Content-Length: 5\r\nExpect: tea\r\n\r\nhello"),
    ("two expectations", 400, POST + b"Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n"),
    (
        "two content types",
        400,
        POST + b"Content-Type: a/b\r\nContent-Type: a/c\r\nContent-Length: 0\r\n\r\n",
    ),
    ("two authorizations", 400, GET + HOST + b"Authorization: a\r\nAuthorization: b\r\n\r\n"),
    ("header after garbage answer", 400, b"HTTP/1.1 200 OK\r\n" + HOST + b"\r\n"),
]


@pytest.mark.parametrize("name, status, data", BAD, ids=[row[0] for row in BAD])
def test_refused(echo: Echo, name: str, status: int, data: bytes) -> None:
    before = echo.stats()["open"]
    with echo.line() as line:
        try:
            line.send(data + SECOND)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before all of it was sent
        found = answers(line.rest())
    assert [a.status for a in found] == [status], found
    assert status in REFUSALS
    assert found[0].headers["connection"] == "close"
    assert found[0].headers["content-type"] == "application/json"
    assert b"second" not in found[0].body
    echo.wait_for("open", before)


@pytest.mark.parametrize("step", [1, 7])
def test_refusals_do_not_depend_on_packets(echo: Echo, step: int) -> None:
    for name, status, data in BAD[:: 4 if step == 1 else 3]:
        if len(data) < 400:
            with echo.line() as line:
                try:
                    line.send_in_steps(data + SECOND, step)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                found = answers(line.rest())
            assert [a.status for a in found] == [status], name


OK: list[tuple[str, bytes, bytes]] = [
    ("plain", GET + HOST + b"\r\n", b"GET /x 0 0\n"),
    ("empty line before", b"\r\n" + GET + HOST + b"\r\n", b"GET /x 0 0\n"),
    ("no blank behind colon", GET + b"Host:localhost\r\n\r\n", b"GET /x 0 0\n"),
    ("tabs around a value", GET + b"Host:\t localhost \t\r\n\r\n", b"GET /x 0 0\n"),
    ("odd case", GET + b"hOsT: LOCALHOST\r\n\r\n", b"GET /x 0 0\n"),
    ("all token characters", GET + HOST + b"!#$%&'*+-.^_`|~: y\r\n\r\n", b"GET /x 0 0\n"),
    ("empty value", GET + HOST + b"X:\r\n\r\n", b"GET /x 0 0\n"),
    ("bytes above ASCII in a value", GET + HOST + b"X: \xff\xfe\r\n\r\n", b"GET /x 0 0\n"),
    ("Host with port", GET + b"Host: localhost:1\r\n\r\n", b"GET /x 0 0\n"),
    ("Host with listed port", GET + b"Host: good.example:8080\r\n\r\n", b"GET /x 0 0\n"),
    ("IPv6 Host", GET + b"Host: [::1]:8000\r\n\r\n", b"GET /x 0 0\n"),
    ("listed Origin", GET + HOST + b"Origin: https://friend.example\r\n\r\n", b"GET /x 0 0\n"),
    ("exact Origin", GET + HOST + b"Origin: http://exact.example:81\r\n\r\n", b"GET /x 0 0\n"),
    ("own Origin", GET + HOST + b"Origin: http://localhost\r\n\r\n", b"GET /x 0 0\n"),
    ("absolute target", b"GET http://localhost/x HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /x 0 0\n"),
    (
        "absolute target without path",
        b"GET http://localhost HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / 0 0\n",
    ),
    ("asterisk", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", b"OPTIONS * 0 0\n"),
    ("encoded letters", b"GET /%78%20y HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /x y 0 0\n"),
    ("decoded once", b"GET /%2541 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /%41 0 0\n"),
    ("UTF-8", b"GET /%C3%A9 HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /\xc3\xa9 0 0\n"),
    (
        "dots that are no segment",
        b"GET /.../..a HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /.../..a 0 0\n",
    ),
    ("query", b"GET /x?a=1&b=+%26&c HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /x 3 0\na=1\nb= &\nc=\n"),
    ("dots in the query", b"GET /x?p=../y HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /x 1 0\np=../y\n"),
    (
        "longest target",
        b"GET /" + b"a" * 7999 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /" + b"a" * 7999 + b" 0 0\n",
    ),
    (
        "64 fields",
        GET + HOST + b"".join(b"X%d: y\r\n" % i for i in range(63)) + b"\r\n",
        b"GET /x 0 0\n",
    ),
    (
        "largest head",
        GET + HOST + b"X: " + b"x" * (16384 - 17 - 17 - 7) + b"\r\n\r\n",
        b"GET /x 0 0\n",
    ),
    ("length", POST + b"Content-Length: 5\r\n\r\nhello", b"POST /x 0 5\nhello"),
    ("length with zeros", POST + b"Content-Length: 005\r\n\r\nhello", b"POST /x 0 5\nhello"),
    ("length of nothing", POST + b"Content-Length: 0\r\n\r\n", b"POST /x 0 0\n"),
    ("POST without body", POST + b"\r\n", b"POST /x 0 0\n"),
    ("GET with body", GET + HOST + b"Content-Length: 5\r\n\r\nhello", b"GET /x 0 5\nhello"),
    (
        "body that looks like a request",
        POST + b"Content-Length: %d\r\n\r\n" % len(SECOND) + SECOND,
        b"POST /x 0 %d\n" % len(SECOND) + SECOND,
    ),
    ("chunked", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"POST /x 0 5\nhello"),
    (
        "chunked in capitals",
        POST + b"Transfer-Encoding: Chunked\r\n\r\nA\r\nhellohello\r\n0\r\n\r\n",
        b"POST /x 0 10\nhellohello",
    ),
    (
        "chunks with zeros",
        CHUNKED + b"0005\r\nhello\r\n1\r\n!\r\n00\r\n\r\n",
        b"POST /x 0 6\nhello!",
    ),
    ("no chunks", CHUNKED + b"0\r\n\r\n", b"POST /x 0 0\n"),
    (
        "chunked largest",
        CHUNKED + b"186a0\r\n" + b"x" * 100000 + b"\r\n0\r\n\r\n",
        b"POST /x 0 100000\n" + b"x" * 100000,
    ),
    (
        "unknown upgrade",
        GET + HOST + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /x 0 0\n",
    ),
    ("field with underscore", GET + HOST + b"Content_Length: 5\r\n\r\n", b"GET /x 0 0\n"),
    ("PUT", b"PUT /x HTTP/1.1\r\n" + HOST + b"\r\n", b"PUT /x 0 0\n"),
    ("PATCH", b"PATCH /x HTTP/1.1\r\n" + HOST + b"\r\n", b"PATCH /x 0 0\n"),
    ("DELETE", b"DELETE /x HTTP/1.1\r\n" + HOST + b"\r\n", b"DELETE /x 0 0\n"),
]


@pytest.mark.parametrize("name, data, body", OK, ids=[row[0] for row in OK])
def test_odd_but_valid(echo: Echo, name: str, data: bytes, body: bytes) -> None:
    """Both this and the next request on the line are answered."""
    found = echo.ask(data + SECOND)
    assert [a.status for a in found] == [200, 200]
    assert found[0].body == body
    assert found[1].body == b"GET /second 0 0\n"


def test_odd_but_valid_in_single_bytes(echo: Echo) -> None:
    for name, data, body in OK:
        if len(data) < 300:
            with echo.line() as line:
                line.send_in_steps(data + SECOND, 1)
                line.half_close()
                found = answers(line.rest())
            assert [a.body for a in found] == [body, b"GET /second 0 0\n"], name


def test_http_1_0_always_closes(echo: Echo) -> None:
    """Also when the client asks for more: proxies disagree about keep-alive in 1.0."""
    for field in (b"", b"Connection: keep-alive\r\n"):
        found = echo.ask(b"GET /x HTTP/1.0\r\n" + HOST + field + b"\r\n" + SECOND, end=False)
        assert [a.status for a in found] == [200]
        assert found[0].headers["connection"] == "close"


def test_close_is_obeyed(echo: Echo) -> None:
    found = echo.ask(GET + HOST + b"Connection: x, Close\r\n\r\n" + SECOND, end=False)
    assert [a.status for a in found] == [200]


def test_head_has_no_body(echo: Echo) -> None:
    with echo.line() as line:
        line.send(b"HEAD /hello HTTP/1.1\r\n" + HOST + b"\r\n" + SECOND)
        first = line.answer(head_only=True)
        assert (first.status, first.headers["content-length"]) == (200, "6")
        assert line.answer().body == b"GET /second 0 0\n"


def test_refusal_of_head_has_no_body(echo: Echo) -> None:
    with echo.line() as line:
        line.send(b"HEAD /%00 HTTP/1.1\r\n" + HOST + b"\r\n")
        assert line.rest().endswith(b"\r\n\r\n")


def test_unix_sockets_need_no_listed_host(tmp_path: Path) -> None:
    path = f"{tmp_path}/s"
    with echo_server(f"unix={path}"):
        with Line(path) as line:
            line.send(b"GET /x HTTP/1.1\r\nHost: anything\r\n\r\n")
            assert line.answer().status == 200
            line.send(b"GET /x HTTP/1.1\r\nHost: anything\r\nOrigin: http://evil\r\n\r\n")
            assert line.answer().status == 403
