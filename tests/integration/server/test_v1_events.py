# SPDX-License-Identifier: Apache-2.0
"""Server-sent events of /api/v1 against a real huskd: live, late, and resumed in the middle."""
from __future__ import annotations

import base64
from typing import Any

import pytest
from v1_client import WAITS, Api, Event, check_error, text_of, v1, v1_server  # noqa: F401
from v1_files import put

TICKS = "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.1)\n'done'"
WHOLE = "0\n1\n2\n3\n4\n"


def names(events: list[Event]) -> list[str]:
    return [e.name for e in events]


def stream(v1: Api, session: str, body: Any) -> list[Event]:
    return list(v1.events("POST", f"/sessions/{session}/execute-stream", body))


def bytes_of(events: list[Event], name: str = "stdout") -> bytes:
    parts = []
    for e in events:
        if e.name == name:
            text = e.data.get("text")
            parts.append(base64.b64decode(e.data["base64"]) if text is None else text.encode())
    return b"".join(parts)


def check_shape(events: list[Event]) -> None:
    """The order of events, and ids that only grow."""
    assert names(events)[-2:] == ["result", "end"] and events[-1].data == {}
    assert names(events).count("result") == 1
    positions = [tuple(int(n) for n in e.id.split(".")) for e in events]
    for before, after in zip(positions, positions[1:]):
        assert all(a <= b for a, b in zip(before, after)), positions
    assert events[-3].name == "status" and events[-3].data["status"] == events[-2].data["status"]


def test_stream_reports_while_it_runs(v1: Api) -> None:
    s = v1.session()
    seen: list[Event] = []
    code = f"print('first', flush=True)\n{WAITS}print('last')\n'done'"
    for event in v1.events("POST", f"/sessions/{s}/execute-stream", {"code": code}):
        seen.append(event)
        if event.name == "stdout" and event.data["text"] == "first\n":
            put(v1, s, "go")  # it would not end if its output were held back until then
    check_shape(seen)
    assert seen[0].name == "status" and seen[0].data["session_id"] == s
    assert text_of(seen) == "first\nlast\n"
    result = seen[-2].data
    assert result["status"] == "completed" and result["return_value"] == "done"
    assert result["stdout"] == "first\nlast\n" and "outputs" not in result
    whole = v1.get(f"/executions/{result['id']}").body
    assert {**result, "outputs": whole["outputs"]} == whole


def test_both_streams_and_rich_outputs(v1: Api) -> None:
    s = v1.session()
    code = "import sys\nprint('o')\nprint('e', file=sys.stderr)\n[1, 2]"
    seen = stream(v1, s, {"code": code})
    check_shape(seen)
    assert text_of(seen, "stdout") == "o\n" and text_of(seen, "stderr") == "e\n"
    outputs = [e.data for e in seen if e.name == "output"]
    assert outputs == v1.get(f"/executions/{seen[-2].data['id']}")["outputs"] and len(outputs) == 1


def test_failures_are_streamed_like_anything_else(v1: Api) -> None:
    seen = stream(v1, v1.session(), {"code": "print('x')\n1 / 0"})
    check_shape(seen)
    assert seen[-2].data["error"]["type"] == "ZeroDivisionError" and text_of(seen) == "x\n"


def test_command_streams(v1: Api) -> None:
    seen = stream(v1, v1.session(), {"command": "for i in 1 2 3; do echo $i; done"})
    check_shape(seen)
    assert text_of(seen) == "1\n2\n3\n" and seen[-2].data["kind"] == "command"


def test_late_readers_see_the_same(v1: Api) -> None:
    s = v1.session()
    live = stream(v1, s, {"code": TICKS})
    x = live[-2].data["id"]
    late = v1.follow(x)
    check_shape(late)
    assert text_of(late) == WHOLE and late[-2].data == live[-2].data
    assert late[-1].id == live[-1].id


def test_two_readers_of_a_running_execution(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, TICKS)
    v1.wait_output(x, "1")
    first, second = v1.follow(x), v1.follow(x)
    assert text_of(first) == text_of(second) == WHOLE


@pytest.mark.parametrize("how", ["last", "offset"])
def test_resume_of_a_running_execution(v1: Api, how: str) -> None:
    s = v1.session()
    head: list[Event] = []
    reader = v1.events("POST", f"/sessions/{s}/execute-stream", {"code": TICKS})
    for event in reader:
        head.append(event)
        if text_of(head).count("\n") >= 2:
            break
    reader.close()  # type: ignore[attr-defined]
    rest = v1.follow(head[0].data["execution_id"], **{how: head[-1].id})
    assert text_of(head) + text_of(rest) == WHOLE
    assert [e.data["status"] for e in head + rest if e.name == "status"][-1] == "completed"
    states = [e.data["status"] for e in head + rest if e.name == "status"]
    assert len(states) == len(set(states)), "no event twice"
    check_shape(head + rest)


def test_resume_after_every_event(v1: Api) -> None:
    s = v1.session()
    code = "import sys\nprint('é' * 3)\nprint('ü', file=sys.stderr)\nprint('end')\n'v'"
    whole = v1.follow(v1.run(s, code)["id"])
    x = whole[-2].data["id"]
    for n, event in enumerate(whole):
        rest = v1.follow(x, last=event.id)
        expected = whole[n + 1 :] if event.name != "end" else [event]
        assert [(e.name, e.id, e.data) for e in rest] == [
            (e.name, e.id, e.data) for e in expected
        ], event


def test_offset_in_bytes_of_stdout(v1: Api) -> None:
    x = v1.run(v1.session(), "print('0123456789')")["id"]
    assert text_of(v1.follow(x, offset="4")) == "456789\n"
    assert text_of(v1.follow(x, offset="4.0.0.2")) == "456789\n"
    assert text_of(v1.follow(x, offset="11")) == ""
    behind = v1.follow(x, offset="999999999999.5.7.0")
    assert text_of(behind) == "" and behind[-1].name == "end"


def test_offset_behind_the_end_of_a_running_execution(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, TICKS)
    v1.wait_output(x, "0")
    seen = v1.follow(x, offset="4")
    assert text_of(seen) == WHOLE[4:]
    assert text_of(v1.follow(x, offset="100000")) == ""


def test_last_event_id_wins_over_offset(v1: Api) -> None:
    x = v1.run(v1.session(), "print('0123456789')")["id"]
    assert text_of(v1.follow(x, offset="2", last="8")) == "89\n"


@pytest.mark.parametrize(
    "position", ["x", "-1", "1.2.3.4.5", "1..2", "0.0.0.5", "1.0.0.-1", "9" * 30, "0.0.4294967296"]
)
def test_positions_that_are_none(v1: Api, position: str) -> None:
    x = v1.run(v1.session(), "1")["id"]
    answer = v1.get(f"/executions/{x}/events?offset={position}")
    check_error(answer, 422, "InvalidParameter", "offset")
    answer = v1.get(f"/executions/{x}/events", **{"Last-Event-ID": position})
    check_error(answer, 422, "InvalidParameter", "last-event-id")


def test_characters_are_never_torn(v1: Api) -> None:
    s = v1.session()
    code = (
        "import os, time\n"
        "for b in 'aé€𝄞z'.encode():\n"
        "    os.write(1, bytes([b]))\n"
        "    time.sleep(0.05)\n"
    )
    seen = stream(v1, s, {"code": code})
    assert text_of(seen) == "aé€𝄞z"
    assert all("base64" not in e.data for e in seen if e.name == "stdout")


def test_bytes_that_are_no_text(v1: Api) -> None:
    s = v1.session()
    raw = bytes(range(256))
    code = "import os\nos.write(1, bytes(range(256)))\nNone"
    live = stream(v1, s, {"code": code})
    assert bytes_of(live) == raw
    x = live[-2].data["id"]
    assert bytes_of(v1.follow(x)) == raw, "also when it is over"
    assert bytes_of(v1.follow(x, offset="200")) == raw[200:]


def test_half_a_character_at_the_end(v1: Api) -> None:
    seen = stream(v1, v1.session(), {"code": "import os\nos.write(1, b'ok\\xc3')\nNone"})
    assert bytes_of(seen) == b"ok\xc3"


def test_large_output_comes_in_pieces(v1: Api) -> None:
    seen = stream(v1, v1.session(), {"code": "print('y' * 900000)"})
    assert text_of(seen) == "y" * 900000 + "\n"
    assert all(len(e.data["text"]) <= 1 << 18 for e in seen if e.name == "stdout")


def test_cancel_ends_the_stream(v1: Api) -> None:
    s = v1.session()
    reader = v1.events(
        "POST", f"/sessions/{s}/execute-stream", {"code": "print('on', flush=True)\nwhile 1: pass"}
    )
    seen: list[Event] = []
    for event in reader:
        seen.append(event)
        if event.name == "stdout":
            v1.post(f"/executions/{seen[0].data['execution_id']}/cancel")
    assert seen[-1].name == "end" and seen[-2].data["status"] == "cancelled"


def test_the_execution_does_not_end_with_the_connection(v1: Api) -> None:
    s = v1.session()
    reader = v1.events("POST", f"/sessions/{s}/execute-stream", {"code": TICKS})
    x = next(iter(reader)).data["execution_id"]
    reader.close()  # type: ignore[attr-defined]
    v1.wait_status(x, "completed")
    assert v1.get(f"/executions/{x}")["stdout"] == WHOLE


def test_a_queued_execution_is_followed_from_its_place(v1: Api) -> None:
    s = v1.session()
    v1.start(s, "import time; time.sleep(1)")
    x = v1.start(s, "print('mine')")
    seen = v1.follow(x)
    states = [e.data["status"] for e in seen if e.name == "status"]
    assert states == ["pending", "running", "completed"] and text_of(seen) == "mine\n"


def test_the_same_key_streams_the_same_execution(v1: Api) -> None:
    s = v1.session()
    v1.run(s, "n = 0")
    path = f"/sessions/{s}/execute-stream"
    body = {"code": "n += 1\nprint('n is', n)"}
    headers = {"Idempotency-Key": f"stream-{s}"}
    first = list(v1.events("POST", path, body, headers))
    again = list(v1.events("POST", path, body, headers))
    assert text_of(first) == text_of(again) == "n is 1\n"
    assert first[-2].data["id"] == again[-2].data["id"]
    assert again[0].name == "status" and again[0].data["execution_id"] == again[-2].data["id"]


def test_the_first_event_names_the_execution_whenever_one_reads(v1: Api) -> None:
    s = v1.session()
    x = v1.run(s, "print(1)")["id"]
    named = {"execution_id": x, "session_id": s}
    seen = v1.follow(x)
    assert [e.data for e in seen if e.name == "status"] == [
        {**named, "status": "running"},
        {**named, "status": "completed"},
    ]
    assert names(seen) == ["status", "stdout", "status", "result", "end"]
    busy = v1.start(s, "while True: pass", timeout=600)
    queued = v1.start(s, "print(2)")
    assert v1.post(f"/executions/{queued}/cancel")["status"] == "cancelled"
    never = [e.data["status"] for e in v1.follow(queued) if e.name == "status"]
    assert never == ["pending", "cancelled"]
    v1.post(f"/executions/{busy}/cancel")


def test_head_does_not_wait_for_the_end(v1: Api) -> None:
    s = v1.session()
    x = v1.start(s, "print('on', flush=True)\nwhile True: pass", timeout=600)
    v1.wait_output(x, "on")
    connection = v1.connect()
    for _ in range(2):
        connection.request("HEAD", f"/api/v1/executions/{x}/events")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() == b""
    connection.close()
    assert v1.post(f"/executions/{x}/cancel")["status"] == "cancelled"
