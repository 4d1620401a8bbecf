# SPDX-License-Identifier: Apache-2.0
"""Client and AsyncClient: every operation of /api/v1."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SdkServer

from husk import AsyncClient, Client, Sandbox, errors
from husk.calls.sessions import work
from husk.http.transport import Request
from husk.http.wire import Broken, decode_head, encode
from husk.results.events import EventReader

sys.path.insert(0, str(ROOT / "tools"))
import openapi_model  # noqa: E402


@pytest.fixture(scope="module")
def client(server: SdkServer) -> Iterator[Client]:
    with Client() as it:
        yield it


@pytest.fixture(scope="module")
def session(client: Client) -> Iterator[str]:
    made = client.create_session(mode="persistent", timeout=600)
    yield made.id
    client.purge_session(made.id)


# ---- operations ----

OPERATIONS = {
    "v1_session_create": "create_session",
    "v1_session_list": "list_sessions",
    "v1_session_get": "get_session",
    "v1_session_delete": "purge_session",
    "v1_session_terminate": "terminate_session",
    "v1_session_extend": "extend_session",
    "v1_session_stats": "session_stats",
    "v1_session_receipt": "session_receipt",
    "v1_session_interrupt": "interrupt",
    "v1_session_reset": "reset",
    "v1_context_list": "list_contexts",
    "v1_context_checkpoint": "checkpoint",
    "v1_context_restore": "restore",
    "v1_context_branch": "branch",
    "v1_context_create": "create_context",
    "v1_execute": "execute",
    "v1_execute_sync": "execute_sync",
    "v1_execute_stream": "watch",
    "v1_session_execution_status": "latest_status",
    "v1_session_execution_result": "latest_result",
    "v1_execution_list": "list_executions",
    "v1_execution_get": "get_execution",
    "v1_execution_status": "execution_status",
    "v1_execution_result": "execution_result",
    "v1_execution_cancel": "cancel_execution",
    "v1_execution_withdraw": "withdraw",
    "v1_execution_events": "events",
    "v1_file_list": "list_files",
    "v1_file_upload": "write_file",  # the plain form of the same
    "v1_file_mkdir": "make_directory",
    "v1_file_move": "move_file",
    "v1_file_download": "read_file",
    "v1_file_put": "write_file",
    "v1_file_delete": "delete_file",
    "v1_file_stat": "stat_file",
    "v1_archive_get": "files.export_tar",
    "v1_archive_put": "files.import_tar",
    "v1_template_create": "create_template",
    "v1_template_list": "list_templates",
    "v1_template_get": "get_template",
    "v1_template_update": "update_template",
    "v1_template_delete": "delete_template",
    "v1_container_list": "list_containers",
    "v1_container_get": "get_container",
    "v1_container_logs": "container_logs",
    "v1_pool": "pool",
    "v1_health": "health",
    "v1_health_live": "health",
    "v1_health_ready": "health",
    "v1_health_detailed": "health",
    "v1_version": "version",
}


def test_every_operation_of_the_contract_has_a_method() -> None:
    contract = openapi_model.load(ROOT / "api")
    known = {op.raw["operationId"] for op in contract.operations if op.path.startswith("/api/v1/")}
    known = {name for name in known if not name.endswith("_alias")}
    assert known == set(OPERATIONS)
    for method in OPERATIONS.values():
        if not method.startswith("files."):
            assert callable(getattr(Client, method)) and callable(getattr(AsyncClient, method))


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> dict[str, object]:
        return {n: getattr(kind, n) for n in dir(kind) if not n.startswith("_")}

    assert public(Client).keys() == public(AsyncClient).keys()
    for name, method in public(Client).items():
        assert inspect.getdoc(method), name


def test_sessions(client: Client) -> None:
    made = client.create_session(
        "python", memory="64Mi", cpus=0.5, agent_id="agent/7", env={"A": "b"}
    )
    assert made.status == "running" and made.agent_id == "agent/7" and made.env_vars == {"A": "b"}
    assert client.get_session(made.id).id == made.id
    assert made.id in [s.id for s in client.list_sessions(agent_id="agent/7", status="running")]
    assert client.extend_session(made.id, 120).timeout == 120
    assert client.session_stats(made.id).session_id == made.id
    assert client.session_receipt(made.id).network == "none"
    assert client.terminate_session(made.id).status == "terminated"
    assert client.terminate_session(made.id).is_over
    client.purge_session(made.id)
    with pytest.raises(errors.SessionNotFoundError):
        client.get_session(made.id)


def test_pages(client: Client) -> None:
    ids = {client.create_session(mode="ephemeral", agent_id=f"page-{i}").id for i in range(3)}
    first = client.list_sessions(mode="ephemeral", status="running", limit=2)
    second = client.list_sessions(mode="ephemeral", status="running", limit=2, offset=2)
    assert len(first) == 2 and first.has_more and first.total >= 3
    again = client.list_sessions(
        mode="ephemeral", status="running", limit=2, cursor=first.next_cursor
    )
    assert [s.id for s in again] == [s.id for s in second]
    assert ids <= {s.id for s in [*first, *second]}
    for one in ids:
        client.purge_session(one)


def test_executions(client: Client, session: str) -> None:
    started = client.execute(session, {"code": "print('x'); 5"})
    kinds = [event.kind for event in client.events(started.id)]
    assert "stdout" in kinds and kinds[-2:] == ["result", "end"]
    assert client.execution_status(started.id).status == "completed"
    assert client.execution_result(started.id).value == 5
    assert client.get_execution(started.id).stdout == "x\n"
    assert client.latest_result(session).id == started.id
    assert client.latest_status(session, started.id).exit_code == 0
    assert started.id in [e.id for e in client.list_executions(session, status="completed")]
    done = client.execute_sync(session, {"command": "echo $((6*7))"})
    assert done.stdout == "42\n"


def test_events_go_on_where_a_reader_left(client: Client, session: str) -> None:
    started = client.execute(session, {"code": "for i in range(3): print(i, flush=True)"})
    events = list(client.events(started.id))
    middle = next(e for e in events if e.kind == "stdout")
    rest = list(client.events(started.id, after=middle.id))
    assert "".join(e.text for e in events) == "0\n1\n2\n"
    assert "".join(e.text for e in rest) == "0\n1\n2\n"[len(middle.text) :]


def test_cancel(client: Client, session: str) -> None:
    started = client.execute(session, {"code": "import time; time.sleep(60)", "timeout": 100})
    for event in client.events(started.id):
        if event.data.get("status") == "running":
            break
    assert client.cancel_execution(started.id).status == "cancelled"


def test_the_same_key_runs_once(client: Client, session: str) -> None:
    body = {"code": "hits = globals().get('hits', 0) + 1; hits"}
    first = client.execute_sync(session, body, key="once")
    again = client.execute_sync(session, body, key="once")
    assert first.id == again.id and again.value == 1
    with pytest.raises(errors.ConflictError):
        client.execute_sync(session, {"code": "2"}, key="once")


@pytest.mark.parametrize("key", ["ü€", "a\nb", "a b"])
def test_a_key_that_cannot_be_sent(client: Client, session: str, key: str) -> None:
    with pytest.raises(errors.InvalidParameterError, match="ASCII"):
        client.execute_sync(session, work(code="1"), key)
    with Sandbox.attach(session) as s, pytest.raises(errors.InvalidParameterError, match="ASCII"):
        s.stream("1", key=key).result


def test_contexts(client: Client, session: str) -> None:
    client.execute_sync(session, {"code": "v = 1"})
    point = client.checkpoint(session)
    twin = client.branch(session)
    client.restore(session, point, twin.context_id)
    assert len(client.list_contexts(session).items) == 2
    assert client.create_context(session, "shell").language == "shell"
    assert [c.language for c in client.list_contexts(session).items].count("shell") == 1
    client.reset(session, twin.context_id)
    assert not client.interrupt(session).interrupted


def test_files(client: Client, session: str) -> None:
    assert client.write_file(session, "d/ä b?#%.txt", "text").size == 4
    assert client.read_file(session, "d/ä b?#%.txt") == b"text"
    assert client.stat_file(session, "d/ä b?#%.txt").type == "file"
    client.move_file(session, "d/ä b?#%.txt", "e.txt")
    client.make_directory(session, "m/n")
    assert {f.path for f in client.list_files(session)} >= {"d", "e.txt", "m"}
    client.delete_file(session, "m", recursive=True)
    with pytest.raises(errors.WorkspaceFileNotFoundError):
        client.stat_file(session, "m")


def test_templates(client: Client) -> None:
    made = client.create_template(
        "my-t", name="Mine", preload=["json"], memory_mb=256, timeout=90, env={"T": "1"}
    )
    assert made.origin == "api" and made.default_memory_mb == 256 and made.preload == ["json"]
    assert client.update_template("my-t", cpus=0.25).default_cpu_cores == 0.25
    assert client.get_template("my-t").name == "Mine"
    assert {"python", "my-t"} <= {t.id for t in client.list_templates()}
    with pytest.raises(errors.ConflictError):
        client.create_template("my-t")
    client.delete_template("my-t")
    with pytest.raises(errors.TemplateNotFoundError):
        client.get_template("my-t")


def test_the_server(client: Client, session: str) -> None:
    version = client.version()
    assert version.name == "husk" and version.api
    assert client.health().status == "healthy"
    assert client.health("ready").uptime > 0
    assert client.health("detailed").components["store"]["status"] == "healthy"
    assert any(p.template_id == "python" for p in client.pool().pools)
    box = next(c for c in client.list_containers(status="running") if c.session_id == session)
    assert client.get_container(box.id).template_id == "python"
    client.execute_sync(session, {"code": "print('logged')"})
    assert "logged" in client.container_logs(box.id, tail=1000)


def test_over_tcp_and_async(server: SdkServer) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client:
            made = await client.create_session()
            ran = await client.execute_sync(made.id, {"code": "3"})
            assert ran.value == 3
            started = await client.execute(made.id, {"code": "print(4)"})
            texts = [e.text async for e in client.events(started.id)]
            assert "".join(texts) == "4\n"
            await client.purge_session(made.id)
            with pytest.raises(errors.SessionNotFoundError):
                await client.get_session(made.id)
        with pytest.raises(errors.SandboxClosedError):
            await client.version()

    asyncio.run(main())
    with Client(server.url) as client:
        assert client.version().name == "husk"
        assert client.address.socket is None


def test_the_general_way(server: SdkServer) -> None:
    """What https and addresses with a path use: the same operations through httpx alone."""
    with Client() as client:
        client.transport.is_plain = False
        made = client.create_session()
        assert client.execute_sync(made.id, {"code": "3"}).value == 3
        client.write_file(made.id, "f", b"\x00\xff")
        assert client.read_file(made.id, "f") == b"\x00\xff"
        client.purge_session(made.id)
        with pytest.raises(errors.SessionNotFoundError):
            client.get_session(made.id)

    async def main() -> None:
        async with AsyncClient() as client:
            client.transport.is_plain = False
            assert (await client.version()).name == "husk"
            with pytest.raises(errors.SessionNotFoundError):
                await client.get_session("no-such")

    asyncio.run(main())


def test_no_exception_of_httpx_comes_through(tmp_path: Path) -> None:
    with Client(f"unix://{tmp_path}/none.sock") as client:
        client.transport.is_plain = False
        with pytest.raises(errors.ServerNotFoundError):
            client.version()
        with pytest.raises(errors.ServerNotFoundError):
            list(client.events("exec_x"))


def test_connections_are_reused(client: Client, server: SdkServer) -> None:
    client.version()
    before = len(client.transport._idle)
    for _ in range(20):
        client.version()
    assert len(client.transport._idle) == before


# ---- what is below ----


def test_an_answer_larger_than_a_piece(client: Client, session: str) -> None:
    result = client.execute_sync(session, {"code": "print('y' * 900000)"})
    assert len(result.stdout) == 900001


def test_heads() -> None:
    assert decode_head(b"HTTP/1.1 204 No Content\r\nX-A: b: c\r\n") == (204, {"x-a": "b: c"}, 0)
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
    assert decode_head(good)[2] == 5
    for bad in (
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 abc\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n",
        b"SSH-2.0-x",
        good + b"Transfer-Encoding: chunked\r\n",
    ):
        with pytest.raises(Broken):
            decode_head(bad)


def test_no_header_of_another_kind_can_be_slipped_in() -> None:
    for value in ("a\r\nX: y", "a\nX: y", "a\rX: y", "€"):
        with pytest.raises(errors.InvalidParameterError):
            encode("GET", "/", "h", {"Idempotency-Key": value}, None)
    sent = encode("POST", "/p", "h", {"A": "b"}, b"xy")
    assert sent == b"POST /p HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 2\r\n\r\nxy"
    assert Request("GET", "/").body is None


def test_events_however_they_are_cut() -> None:
    data = 'id: 1\nevent: stdout\ndata: {"text":"ä"}\n\n: still here\n\nevent: end\ndata: {}\n\n'.encode()
    whole = EventReader().feed(data)
    assert [(e.kind, e.text, e.id) for e in whole] == [("stdout", "ä", "1"), ("end", "", "")]
    reader = EventReader()
    assert [e for i in range(len(data)) for e in reader.feed(data[i : i + 1])] == whole
