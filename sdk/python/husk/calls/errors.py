# SPDX-License-Identifier: Apache-2.0
"""Maps error answers of the server to exceptions: by error code, else by status."""

from __future__ import annotations

from typing import Any

from husk import errors
from husk.errors import HuskError

BY_CODE: dict[str, type[HuskError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HuskError) and vars(kind).get("code")
}

BY_STATUS: dict[int, type[HuskError]] = {
    400: errors.InvalidParameterError,
    401: errors.UnauthorizedError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    405: errors.MethodNotAllowedError,
    408: errors.RequestTimeoutError,
    409: errors.ConflictError,
    412: errors.ConflictError,
    413: errors.TooLargeError,
    416: errors.RangeNotSatisfiableError,
    421: errors.ForbiddenError,
    422: errors.InvalidParameterError,
    429: errors.TooManyRequestsError,
    501: errors.NotOfferedError,
    503: errors.UnavailableError,
    505: errors.NotOfferedError,
    507: errors.DiskFullError,
}


def from_answer(status: int, body: Any, retry_after: str | None = None) -> HuskError:
    """Return the exception for an error answer of the server.

    Args:
        status: HTTP status.
        body: the decoded body in any of the server's dialects; any other body is quoted.
        retry_after: the header of that name.
    """
    fields = fields_of(body)
    detail = fields.get("detail")
    if isinstance(detail, list):  # validation errors of /run and /workspace/se
        fields = {"error_detail": "; ".join(_fault(f) for f in detail)}
    code = str(fields.get("error_code", ""))
    kind = BY_CODE.get(code) or BY_STATUS.get(status)
    if kind is None:
        kind = errors.InternalError if status >= 500 else errors.InvalidParameterError
    said = str(fields.get("error_detail") or fields.get("error") or "")
    error = kind(
        str(fields.get("description") or f"The server answered with status {status}."),
        code=code or kind.code,
        detail=said or ("" if fields else str(body)[:400]),
        solution=str(fields.get("solution", "")),
        request_id=str(fields.get("request_id", "")),
        status=status,
    )
    if isinstance(error, (errors.TooManyRequestsError, errors.UnavailableError)) and retry_after:
        error.retry_after = float(retry_after) if retry_after.isdigit() else 1.0
    if "begun" in fields:
        error.begun = bool(fields["begun"])
        error.queue_ms = float(fields.get("queue_ms", 0.0))
        error.execution_id = str(fields.get("execution_id", ""))
    return error


def fields_of(body: Any) -> dict[str, Any]:
    """Return the members of an error answer, in whichever dialect it is."""
    fields = body if isinstance(body, dict) else {}
    detail = fields.get("detail")
    return detail if isinstance(detail, dict) else fields


def _fault(fault: Any) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    return f"{'.'.join(str(part) for part in fault.get('loc', []))}: {fault.get('msg', '')}"
