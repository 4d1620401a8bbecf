# SPDX-License-Identifier: Apache-2.0
"""Operations on the files of a session's workspace; see call.py."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from husk.calls.call import Call, get, nothing, path_in_target, record, send, target_of
from husk.http.transport import Request
from husk.http.wire import Answer
from husk.results.models import FileEntry, FileWritten, Page

BYTES = {"Content-Type": "application/octet-stream"}


def file_target(session_id: str, path: str, kind: str = "files", **query: Any) -> str:
    """Return the route of a file."""
    target = target_of("sessions", session_id, kind) + "/" + path_in_target(path)
    asked = {k: str(v).lower() for k, v in query.items()}
    return f"{target}?{urlencode(asked)}" if asked else target


def list_files(
    session_id: str, path: str = "", recursive: bool = False, limit: int = 1000, offset: int = 0
) -> Call[Page[FileEntry]]:
    """List a directory of the workspace, sorted by name.

    Args:
        session_id: the session.
        path: the directory; the workspace itself by default.
        recursive: include all subdirectories.
        limit: number of entries, up to 10000.
        offset: number of entries to skip.
    """

    def read(answer: Answer) -> Page[FileEntry]:
        data = json.loads(answer.body)
        items = [FileEntry.parse(entry) for entry in data["files"]]
        return Page(items, offset + len(items), limit, offset, data["has_more"])

    target = target_of(
        "sessions",
        session_id,
        "files",
        path=path or None,
        recursive=recursive,
        limit=limit,
        offset=offset,
    )
    return get(target, read)


def read_file(session_id: str, path: str) -> Call[bytes]:
    """Read a file of the workspace."""
    return get(file_target(session_id, path), lambda answer: answer.body)


def write_file(session_id: str, path: str, data: bytes | str) -> Call[FileWritten]:
    """Write a file of the workspace atomically. Missing directories are created."""
    body = data.encode() if isinstance(data, str) else bytes(data)
    request = Request("PUT", file_target(session_id, path), BYTES, body, timeout=300.0)
    return Call(request, record(FileWritten), can_repeat=True)


def stat_file(session_id: str, path: str) -> Call[FileEntry]:
    """Get size, type, time and ETag of a file."""
    return get(file_target(session_id, path, "file-stat"), record(FileEntry))


def delete_file(session_id: str, path: str, recursive: bool = False) -> Call[None]:
    """Delete a file or directory; a directory that is not empty requires recursive."""
    target = file_target(session_id, path, recursive=recursive)
    return send("DELETE", target, None, nothing, can_repeat=False)


def make_directory(session_id: str, path: str, parents: bool = True) -> Call[FileEntry]:
    """Create a directory; with parents also missing ones above it, and it may exist already."""
    target = target_of("sessions", session_id, "files", "mkdir")
    body = {"path": path, "parents": parents}
    return send("POST", target, body, record(FileEntry), can_repeat=parents)


def move_file(session_id: str, source: str, to: str, overwrite: bool = False) -> Call[FileEntry]:
    """Move or rename a file or directory.

    Args:
        session_id: the session.
        source: the path to move.
        to: its new path.
        overwrite: replace an existing file or directory.
    """
    target = target_of("sessions", session_id, "files", "move")
    body = {"from": source, "to": to, "overwrite": overwrite}
    return send("POST", target, body, record(FileEntry), can_repeat=False)


def archive_target(session_id: str, path: str = "", format: str | None = None) -> str:
    """Return the route of a directory as an archive."""
    return target_of("sessions", session_id, "archive", path=path or None, format=format)
