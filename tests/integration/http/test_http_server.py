# SPDX-License-Identifier: Apache-2.0
"""What the HTTP server does with requests: pipelines, bodies of every kind, and answers."""
from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator

import pytest
from http_raw import HOST, MIB, Echo, Line, answers, echo_server, get, post, reset
from waiting import wait_settled


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with echo_server() as server:
        yield server


# ---- keep-alive and pipelines ----


def test_one_line_serves_many_requests(echo: Echo) -> None:
    with echo.line() as line:
        for i in range(50):
            line.send(get(f"/r{i}"))
            assert line.answer().text == f"GET /r{i} 0 0\n"


def test_pipelined_answers_come_in_order(echo: Echo) -> None:
    """Slow ones before fast ones, with and without bodies."""
    requests = b""
    expected = []
    for i in range(300):
        if i % 50 == 7:
            requests += get("/later?ms=5")
            expected.append("later\n")
        elif i % 3 == 0:
            requests += post(f"/p{i}", b"b" * i)
            expected.append(f"POST /p{i} 0 {i}\n" + "b" * i)
        else:
            requests += get(f"/g{i}")
            expected.append(f"GET /g{i} 0 0\n")
    assert [a.text for a in echo.ask(requests)] == expected


def test_many_small_pipelined_requests_in_odd_pieces(echo: Echo) -> None:
    requests = b"".join(get(f"/{i}") for i in range(3000))
    with echo.line() as line:
        line.send_in_steps(requests, 4093)
        line.half_close()
        found = answers(line.rest())
    assert [a.text for a in found] == [f"GET /{i} 0 0\n" for i in range(3000)]


def test_large_heads_in_a_pipeline(echo: Echo) -> None:
    """Heads lie across the borders of the input block."""
    more = b"X: " + b"x" * 9000 + b"\r\n"
    found = echo.ask(b"".join(post(f"/{i}", b"y" * 5000, more) for i in range(20)))
    assert [a.text.split("\n")[0] for a in found] == [f"POST /{i} 0 5000" for i in range(20)]


def test_half_closed_client_gets_its_answer(echo: Echo) -> None:
    found = echo.ask(get("/later?ms=30") + get("/x"))
    assert [a.text for a in found] == ["later\n", "GET /x 0 0\n"]


def test_every_answer_has_a_date(echo: Echo) -> None:
    date = echo.get("/hello").headers["date"]
    stamp = time.mktime(time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
    assert abs(stamp - time.time()) < 3


# ---- bodies ----


def test_continue_only_when_the_body_is_wanted(echo: Echo) -> None:
    head = b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with echo.line() as line:
        line.send(head)
        assert line.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.send(b"hello")
        assert line.answer().text == "POST /x 0 5\nhello"
        line.send(head + b"hello")  # it did not wait
        assert line.answer().text == "POST /x 0 5\nhello"


def test_no_continue_for_a_body_that_is_refused(echo: Echo) -> None:
    fields = b"Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n"
    with echo.line() as line:
        line.send(b"POST /x HTTP/1.1\r\n" + HOST + fields)
        assert [a.status for a in answers(line.rest())] == [413]


def test_no_continue_for_a_body_that_is_ignored(echo: Echo) -> None:
    """Whether the body comes is then unknown, so the connection ends."""
    fields = b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with echo.line() as line:
        line.send(b"POST /ignore HTTP/1.1\r\n" + HOST + fields)
        found = answers(line.rest())
    assert [a.status for a in found] == [200]
    assert found[0].headers["connection"] == "close"


def test_late_decision_gets_the_whole_body(echo: Echo) -> None:
    body = os.urandom(900000)
    found = echo.ask(post("/late?ms=30", body) + get("/x"))
    assert found[0].body == b"POST /late 1 900000\nms=30\n" + body
    assert found[1].status == 200


def test_late_continue(echo: Echo) -> None:
    with echo.line() as line:
        fields = b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        line.send(b"POST /late?ms=20 HTTP/1.1\r\n" + HOST + fields)
        assert line.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.send(b"ok")
        assert line.answer().text.endswith("ok")


def test_small_ignored_body_is_skipped(echo: Echo) -> None:
    found = echo.ask(post("/ignore", b"GET /evil HTTP/1.1\r\n" * 100) + get("/x"))
    assert [a.text for a in found] == ["ignored\n", "GET /x 0 0\n"]


def test_ignored_chunked_body_is_skipped(echo: Echo) -> None:
    head = b"POST /ignore HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    found = echo.ask(head + b"5\r\nhello\r\n0\r\n\r\n" + get("/x"))
    assert [a.text for a in found] == ["ignored\n", "GET /x 0 0\n"]


def test_large_ignored_body_ends_the_connection(echo: Echo) -> None:
    with echo.line() as line:
        line.send(post("/ignore", b"x" * 200000) + get("/x"))
        found = answers(line.rest())
    assert [a.text for a in found] == ["ignored\n"]
    assert found[0].headers["connection"] == "close"


def test_malformed_chunks_of_an_ignored_body_end_the_connection(echo: Echo) -> None:
    head = b"POST /ignore HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    for body in (b"5x\r\n", b"5\r\nhello!\r\n"):
        found = echo.ask(head + body + get("/x"), end=False)
        assert [a.text for a in found] == ["ignored\n"]


def test_huge_bodies_need_constant_memory(echo: Echo) -> None:
    piece = b"z" * MIB
    with echo.line() as line:
        line.send(b"POST /count HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (300 * MIB))
        for i in range(300):
            line.send(piece)
            if i == 10:
                before = echo.stats()["rss_kb"]
        assert line.answer().text == f"{300 * MIB}\n"
    assert echo.stats()["rss_kb"] - before < 16384


def test_huge_chunked_body(echo: Echo) -> None:
    piece = b"%x\r\n" % MIB + b"z" * MIB + b"\r\n"
    with echo.line() as line:
        line.send(b"POST /count HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(64):
            line.send(piece)
        line.send(b"0\r\n\r\n")
        assert line.answer().text == f"{64 * MIB}\n"


def test_paused_body_holds_the_client_back(echo: Echo) -> None:
    with echo.line() as line:
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        line.send(b"POST /slow?ms=100000 HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999\r\n\r\n")
        most = 16 * MIB  # what the kernel buffers, and no more
        assert line.send_until_stuck(b"x" * 65536, most) < most
        reset(line)
    echo.wait_for("busy", 1)


def test_resumed_body_arrives_whole(echo: Echo) -> None:
    body = os.urandom(2 * MIB)
    assert echo.ask(post("/slow?ms=0", body))[0].text == f"{len(body)}\n"


def test_streamed_body_above_its_limit(echo: Echo) -> None:
    assert [a.status for a in echo.ask(post("/count?max=10", b"x" * 11))] == [413]
    head = b"POST /count?max=10 HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    assert [a.status for a in echo.ask(head + b"b\r\nhello world\r\n0\r\n\r\n")] == [413]
    assert echo.ask(head + b"a\r\nhello, wor\r\n0\r\n\r\n")[0].text == "10\n"


def test_client_that_leaves_in_its_body(echo: Echo) -> None:
    before = echo.stats()["gone"]
    with echo.line() as line:
        line.send(b"POST /count HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nhalf")
    echo.wait_for("gone", before + 1)
    with echo.line() as line:
        line.send(b"POST /count HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nhalf")
        line.half_close()
        assert line.rest() == b""
    echo.wait_for("gone", before + 2)


def test_multipart_upload(echo: Echo) -> None:
    data = os.urandom(3 * MIB)
    form = (
        b'--B\r\nContent-Disposition: form-data; name="note"\r\n\r\nhi\r\n'
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
        b"Content-Type: application/x-thing\r\n\r\n" + data + b"\r\n--B--\r\n"
    )
    fields = b"Content-Type: multipart/form-data; boundary=B\r\n"
    found = echo.ask(post("/upload", form, fields))
    assert found[0].text == f"note|-|text/plain|2\nfile|a.bin|application/x-thing|{3 * MIB}\n"
    assert echo.ask(post("/upload", form[:-6], fields))[0].status == 400
    assert echo.ask(post("/upload", b"junk" + form, fields))[0].status == 400
    assert echo.ask(post("/upload", form))[0].status == 400


# ---- answers ----


def test_header_injection_becomes_an_error(echo: Echo) -> None:
    assert echo.get("/headers?X-Good=fine").headers["x-good"] == "fine"
    for bad in (
        "X=a%0d%0aEvil:+1",
        "X=a%0aEvil:+1",
        "X=%01",
        "X+Y=a",
        "X:=a",
        "=a",
        "X=%7f",
        "Content-Length=9",
        "date=x",
    ):
        answer = echo.get(f"/headers?{bad}")
        assert answer.status == 500 and "evil" not in answer.headers, bad


def test_errors_of_handlers(echo: Echo) -> None:
    answer = echo.get("/error?status=404")
    assert answer.status == 404
    assert json.loads(answer.body) == {"error": "as you wished"}


def test_streams_of_unknown_length(echo: Echo) -> None:
    for n, piece in ((0, 1), (1, 1), (100000, 7), (5 * MIB, 65536)):
        answer = echo.get(f"/stream?n={n}&piece={piece}")
        assert answer.headers["transfer-encoding"] == "chunked"
        assert len(answer.body) == n


def test_stream_of_unknown_length_to_http_1_0(echo: Echo) -> None:
    found = echo.ask(b"GET /stream?n=1000 HTTP/1.0\r\n" + HOST + b"\r\n", end=False)
    assert "transfer-encoding" not in found[0].headers and "content-length" not in found[0].headers
    assert len(found[0].body) == 1000


def test_stream_of_known_length(echo: Echo) -> None:
    answer = echo.get(f"/stream?n={3 * MIB}&piece=65536&sized=1")
    assert answer.headers["content-length"] == str(3 * MIB)


def test_head_of_streams(echo: Echo) -> None:
    for target in ("/stream?n=1000", "/stream?n=1000&sized=1", "/owned?n=5"):
        with echo.line() as line:
            line.send(b"HEAD " + target.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n" + get("/x"))
            assert line.answer(head_only=True).status == 200
            assert line.answer().text == "GET /x 0 0\n"


def test_broken_promise_of_a_length_is_visible(echo: Echo) -> None:
    with echo.line() as line:
        line.send(get("/short") + get("/x"))
        data = line.rest()
    assert data.count(b"HTTP/1.1") <= 1
    assert not data or data.endswith(b"short")


def test_large_answer_to_a_slow_reader(echo: Echo) -> None:
    with echo.line() as line:
        line.send(get(f"/owned?n={32 * MIB}") + get("/x"))
        echo.wait_taken()
        found = answers_of_two(line)
    assert len(found[0]) == 32 * MIB and found[1] == b"GET /x 0 0\n"


def answers_of_two(line: Line) -> list[bytes]:
    return [line.answer().body, line.answer().body]


def test_stream_waits_for_a_slow_reader(echo: Echo) -> None:
    """A source that keeps to the marks does not pile up memory."""
    before = echo.stats()["rss_kb"]
    with echo.line() as line:
        line.send(get(f"/stream?n={200 * MIB}&piece=65536", b"Connection: close\r\n"))
        line.until(b"\r\n\r\n")
        wait_settled(lambda: echo.stats()["rss_kb"] >> 10, "the server's memory")
        assert echo.stats()["rss_kb"] - before < 16384
        total = len(line.buffer)
        while more := line.sock.recv(MIB):
            total += len(more)
        assert total > 200 * MIB


def test_source_without_brakes_is_stopped(echo: Echo) -> None:
    before = echo.stats()
    with echo.line() as line:
        line.send(get("/flood"))
        echo.wait_for("gone", before["gone"] + 1)
    assert echo.stats()["rss_kb"] - before["rss_kb"] < 24 * 1024
