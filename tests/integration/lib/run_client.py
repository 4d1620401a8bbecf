# SPDX-License-Identifier: Apache-2.0
"""A client of PyRunner's dialect for tests: looks at the form of every answer."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from husk_server import Answer, Server

FIELDS = ["error", "execution_time", "memory_used", "status", "stderr", "stdout"]


def checked(answer: Answer) -> dict[str, Any]:
    """The result of a valid request, after a look at its form."""
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    result: dict[str, Any] = answer.json
    assert sorted(result) == FIELDS
    assert result["status"] in ("success", "error", "timeout", "memory_exceeded")
    assert isinstance(result["stdout"], str) and isinstance(result["stderr"], str)
    assert isinstance(result["execution_time"], float) and result["execution_time"] >= 0
    assert result["execution_time"] == round(result["execution_time"], 3)
    # Null or 0: its time was over before its code began.
    if result["memory_used"] or result["status"] != "timeout":
        assert isinstance(result["memory_used"], float) and result["memory_used"] > 0
        assert result["memory_used"] == round(result["memory_used"], 2)
    assert result["error"] is None or isinstance(result["error"], str)
    return result


def run(server: Server, code: str, **fields: Any) -> dict[str, Any]:
    return checked(server.post("/run", {"code": code, **fields}))


def success(server: Server, code: str, **fields: Any) -> str:
    result = run(server, code, **fields)
    assert result["status"] == "success", result
    assert result["error"] is None and result["execution_time"] > 0
    stdout: str = result["stdout"]
    return stdout


def refusal(server: Server, code: str) -> str:
    """Why the policy does not let the code run."""
    result = run(server, code)
    assert result["status"] == "error", result
    assert result["stderr"] == f"Security validation failed: {result['error']}"
    assert result["execution_time"] == 0 and result["stdout"] == ""
    error: str = result["error"]
    return error


def invalid(server: Server, body: Any, headers: Mapping[str, str] | None = None) -> list[Any]:
    answer = server.post("/run", body, headers)
    assert answer.status == 422, answer.body
    assert list(answer.json) == ["detail"]
    details: list[Any] = answer.json["detail"]
    for detail in details:
        assert sorted(detail) == ["loc", "msg", "type"]
        assert detail["loc"][0] == "body"
    return details
