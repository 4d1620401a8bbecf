# SPDX-License-Identifier: Apache-2.0
"""One exception per error code: held against the server's own tables, and raised by a real
server.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest
from conftest import ROOT, SdkServer

import husk
from husk import Client, HuskError, Sandbox, errors
from husk.calls.errors import BY_CODE, BY_STATUS, from_answer


@pytest.fixture(scope="module")
def client(server: SdkServer) -> Iterator[Client]:
    with Client() as it:
        yield it


# ---- against the tables ----


def codes_in(path: str) -> set[str]:
    return set(re.findall(r"Sandbox\.[A-Z][A-Za-z]+", (ROOT / path).read_text()))


def test_every_code_of_the_server_has_its_exception() -> None:
    table = (ROOT / "src/api/contract/error.c").read_text()
    rows = table[table.index("rows[] = {") : table.index("};")]
    codes = set(re.findall(r'\{"(Sandbox\.\w+)"', rows))
    assert len(codes) > 20
    assert codes == set(BY_CODE), "src/api/contract/error.c and husk/errors.py differ"
    assert codes_in("docs/errors.md") <= set(BY_CODE)
    assert len(set(BY_CODE.values())) == len(BY_CODE), "each code has a class of its own"


def test_every_status_of_the_server_is_known() -> None:
    table = (ROOT / "src/api/contract/error.c").read_text()
    rows = table[table.index("by_status[] = {") :]
    found = re.findall(r'\{(\d{3}), "(Sandbox\.\w+)"', rows[: rows.index("};")])
    for status, code in found:
        assert BY_STATUS.get(int(status), errors.InternalError) is BY_CODE[code], status


def test_all_derive_from_one() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert len(kinds) > 30
    for kind in kinds:
        assert issubclass(kind, HuskError)
        assert kind.__doc__
        error = kind("message")
        assert str(error) == "message" and error.status == 0


def test_they_are_what_python_expects() -> None:
    for kind, builtin in (
        (errors.InvalidParameterError, ValueError),
        (errors.WorkspaceFileNotFoundError, FileNotFoundError),
        (errors.RequestTimeoutError, TimeoutError),
        (errors.RunTimeoutError, TimeoutError),
        (errors.RunMemoryError, MemoryError),
        (errors.ConnectionLostError, ConnectionError),
        (errors.NotOfferedError, NotImplementedError),
    ):
        assert issubclass(kind, builtin)


@pytest.mark.parametrize("kind", list(BY_CODE.values()))
def test_they_cross_processes(kind: type[HuskError]) -> None:
    error = kind("m", detail="d", solution="s", request_id="r", status=418)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and str(copy) == str(error) == "m: d. s"
    assert (copy.code, copy.request_id, copy.status) == (kind.code, "r", 418)


# ---- made of answers ----


def test_the_dialects() -> None:
    own = {"error_code": "Sandbox.Conflict", "description": "No.", "error_detail": "busy"}
    error = from_answer(409, {**own, "solution": "Wait.", "request_id": "req_1"})
    assert type(error) is errors.ConflictError and str(error) == "No: busy. Wait."
    assert error.request_id == "req_1"
    runtime = from_answer(500, {"detail": {**own, "error_code": "Sandbox.ExecTimeout"}})
    assert type(runtime) is errors.ExecTimeoutError and runtime.detail == "busy"
    fields = {"detail": [{"loc": ["body", "code"], "msg": "field required", "type": "missing"}]}
    invalid = from_answer(422, fields)
    assert type(invalid) is errors.InvalidParameterError
    assert "body.code: field required" in str(invalid)
    assert from_answer(500, {"error": "Internal server error"}).detail == "Internal server error"


def test_what_is_said_twice_is_shown_once() -> None:
    body = {"description": "There is nothing here.", "error_detail": "there is nothing here"}
    assert str(from_answer(404, body)) == "There is nothing here"
    assert str(from_answer(404, {**body, "solution": "Go."})) == "There is nothing here. Go."
    assert str(from_answer(404, {**body, "error_detail": "x."})) == "There is nothing here: x"


def test_answers_of_others() -> None:
    assert type(from_answer(502, "<html>proxy</html>")) is errors.InternalError
    assert "proxy" in str(from_answer(502, "<html>proxy</html>"))
    assert type(from_answer(418, None)) is errors.InvalidParameterError
    newer = from_answer(409, {"error_code": "Sandbox.NotYetInvented", "description": "x"})
    assert type(newer) is errors.ConflictError and newer.code == "Sandbox.NotYetInvented"
    many = from_answer(429, {}, "7")
    assert isinstance(many, errors.TooManyRequestsError) and many.retry_after == 7


# ---- raised by a real server ----


def test_invalid(client: Client) -> None:
    with pytest.raises(errors.InvalidParameterError) as caught:
        client.create_session(memory="1")
    error = caught.value
    assert error.status == 422 and "memory" in error.detail
    assert error.request_id and error.solution and error.code == "Sandbox.InvalidParameter"


def test_not_found(client: Client) -> None:
    with pytest.raises(errors.SessionNotFoundError):
        client.get_session("no-such")
    with pytest.raises(errors.ExecutionNotFoundError):
        client.get_execution("exec_no-such")
    with pytest.raises(errors.TemplateNotFoundError):
        Sandbox("no-such")
    with pytest.raises(errors.ContainerNotFoundError):
        client.get_container("box_ffff")
    with Sandbox() as s, pytest.raises(errors.WorkspaceFileNotFoundError):
        s.files.read("no-such")


def test_conflict(client: Client) -> None:
    with Sandbox(id="taken"):
        with pytest.raises(errors.ConflictError):
            Sandbox(id="taken")
    with pytest.raises(errors.ConflictError):
        client.delete_template("python")


def test_too_large(server: SdkServer) -> None:
    with Sandbox() as s, pytest.raises(errors.HuskError) as caught:
        s.run("#" * (9 << 20))
    assert isinstance(caught.value, (errors.TooLargeError, errors.InvalidParameterError))


def test_too_many() -> None:
    running = SdkServer("--max-sessions", "1")
    try:
        running.start()
        with Sandbox(url=running.url):
            with pytest.raises(errors.TooManyRequestsError) as caught:
                Sandbox(url=running.url)
            assert caught.value.retry_after > 0
    finally:
        running.remove()


def test_wrong_host(server: SdkServer) -> None:
    """The server does not answer under names that are not its own."""
    with Client(server.url) as client:
        client.transport.host = "evil.example"
        with pytest.raises(errors.ForbiddenError):
            client.version()


def test_exported_names() -> None:
    assert husk.HuskError is errors.HuskError and husk.RunError is errors.RunError
