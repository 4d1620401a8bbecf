# SPDX-License-Identifier: Apache-2.0
"""The operations on the files of a sandbox. `sandbox.files` has them as methods, blocking or
awaited.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat as stat_module
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, TypeVar

from husk.calls import files as calls
from husk.calls.call import Call, nothing, record
from husk.client.drive import Flow
from husk.errors import ConflictError, NotFoundError
from husk.http.transport import PIECE, Request
from husk.results.models import FileEntry, FileWritten, Page, Record, Unpacked
from husk.sandbox.progress import Progress, progress_for
from husk.sandbox.state import Held

R = TypeVar("R", bound=Record)
LocalPath = str | os.PathLike[str]
ArchiveFormat = Literal["tar", "tar.gz"]
TRANSFER_SECONDS = 300.0


class FileSink:
    """Writes a download to a temporary file beside its target and renames it when complete."""

    def __init__(self, to: Path, progress: Progress | None) -> None:
        self.to = to
        self.progress = progress
        # Not derived from the target's name, which may have the maximum length already.
        self.part = to.with_name(f".{secrets.token_hex(8)}.part")
        self.file: IO[bytes] | None = None

    def begin(self, size: int | None) -> None:
        self.abandon()
        self.file = self.part.open("wb")
        self.size, self.done = size, 0

    def take(self, piece: bytes) -> None:
        assert self.file is not None
        self.file.write(piece)
        self.done += len(piece)
        if self.progress is not None:
            self.progress(self.done, self.size)

    def finish(self) -> None:
        assert self.file is not None
        self.file.close()
        self.part.replace(self.to)

    def abandon(self) -> None:
        if self.file is not None:
            self.file.close()
            self.part.unlink(missing_ok=True)


class Content:
    """What is sent of a local file, piece by piece.

    Attributes:
        size: number of bytes; None for what does not tell: pipes, and files of /proc.
        can_repeat: it can be read again; a pipe cannot.
    """

    def __init__(self, path: Path, progress: Progress | None) -> None:
        state = path.stat()
        self.path = path
        self.progress = progress
        self.size = state.st_size or None
        self.can_repeat = stat_module.S_ISREG(state.st_mode)

    def pieces(self) -> Iterator[bytes]:
        """Open the file and return its pieces."""
        done = 0
        with self.path.open("rb") as file:
            left = self.size
            while left != 0 and (piece := file.read(PIECE if left is None else min(PIECE, left))):
                yield piece
                done += len(piece)
                left = None if left is None else left - len(piece)
                if self.progress is not None:
                    self.progress(done, self.size)
        if left:
            text = "the file became shorter while it was read"
            raise OSError(errno.EIO, text, str(self.path))


def _transfer_in(
    source: Path, target: str, kind: type[R], media_type: str, progress: Progress | None
) -> Call[R]:
    content = Content(source, progress)
    request = Request(
        "PUT",
        target,
        {"Content-Type": media_type},
        pieces=content.pieces,
        size=content.size,
        timeout=TRANSFER_SECONDS,
    )
    return Call(request, record(kind), content.can_repeat)


def _transfer_out(target: str, to: Path, progress: Progress | None) -> Flow[Path]:
    sink = FileSink(to, progress)
    request = Request("GET", target, timeout=TRANSFER_SECONDS)
    try:
        yield Call(request, nothing, can_repeat=True, sink=sink)
        sink.finish()
    finally:
        sink.abandon()
    return to


def _into(local: LocalPath, name: str) -> Path:
    to = Path(local)
    return to / name if to.is_dir() else to


# ---- files ----


def read(held: Held, path: str) -> Call[bytes]:
    """Read a file.

    Args:
        path: below the workspace, as in `data/in.csv`.
    """
    return calls.read_file(held.id, path)


def read_text(held: Held, path: str, encoding: str = "utf-8") -> Flow[str]:
    """Read a file as text."""
    data: bytes = yield read(held, path)
    return data.decode(encoding)


def write(held: Held, path: str, data: bytes | str) -> Call[FileWritten]:
    """Write a file atomically. Missing directories are created.

    Args:
        path: below the workspace.
        data: bytes, or text, which is encoded as UTF-8.
    """
    return calls.write_file(held.id, path, data)


def upload(
    held: Held,
    local: LocalPath,
    path: str | None = None,
    *,
    progress: Progress | bool | None = None,
) -> Call[FileWritten]:
    """Copy a local file into the workspace: any size that the disk limit of the sandbox allows.

    Args:
        local: the local file.
        path: below the workspace; by default the file's own name.
        progress: called with bytes done and bytes in total; False: nothing; else a bar if stderr is
            a terminal.
    """
    source = Path(local)
    target = calls.file_target(held.id, path or source.name)
    show = progress_for(f"upload {source.name}", progress)
    return _transfer_in(source, target, FileWritten, "application/octet-stream", show)


def download(
    held: Held, path: str, local: LocalPath, *, progress: Progress | bool | None = None
) -> Flow[Path]:
    """Copy a file of the workspace to a local file, atomically.

    Args:
        path: below the workspace.
        local: the local path; in a directory, the file keeps its name.
        progress: called with bytes done and bytes in total; False: nothing; else a bar if stderr is
            a terminal.

    Returns:
        The path of the copy.
    """
    name = path.rpartition("/")[2]
    show = progress_for(f"download {name}", progress)
    return _transfer_out(calls.file_target(held.id, path), _into(local, name), show)


def list_all(held: Held, path: str = "", *, recursive: bool = False) -> Flow[list[FileEntry]]:
    """List a directory, sorted by name; links are not followed.

    Args:
        path: the directory; the workspace itself by default.
        recursive: include all subdirectories.
    """
    found: list[FileEntry] = []
    while True:
        page: Page[FileEntry] = yield calls.list_files(held.id, path, recursive, 10000, len(found))
        found += page.items
        if not page.has_more:
            return found


def stat(held: Held, path: str) -> Call[FileEntry]:
    """Get size, type, time and ETag of a file."""
    return calls.stat_file(held.id, path)


def exists(held: Held, path: str) -> Flow[bool]:
    """Return whether a file, directory or link has this path."""
    try:
        yield stat(held, path)
    except NotFoundError as e:
        if e.code == "Sandbox.SessionNotFound":
            raise
        return False
    except ConflictError as e:
        if not e.detail.endswith(os.strerror(errno.ENOTDIR)):
            raise
        return False  # a parent of the path is a file
    return True


def move(held: Held, source: str, to: str, *, overwrite: bool = False) -> Call[FileEntry]:
    """Move or rename a file or directory.

    Args:
        source: the path to move.
        to: its new path.
        overwrite: replace an existing file or directory.
    """
    return calls.move_file(held.id, source, to, overwrite)


def delete(held: Held, path: str, *, recursive: bool = False) -> Call[None]:
    """Delete a file or directory.

    Args:
        path: the file or directory.
        recursive: delete a directory with its contents.
    """
    return calls.delete_file(held.id, path, recursive)


def mkdir(held: Held, path: str, *, parents: bool = True) -> Call[FileEntry]:
    """Create a directory.

    Args:
        path: the directory.
        parents: also create missing parents, and accept an existing directory.
    """
    return calls.make_directory(held.id, path, parents)


def export_tar(
    held: Held,
    local: LocalPath,
    path: str = "",
    *,
    format: ArchiveFormat = "tar",
    progress: Progress | bool | None = None,
) -> Flow[Path]:
    """Copy a directory of the workspace to a local archive.

    Args:
        local: the archive to write.
        path: the directory; the workspace itself by default.
        format: `tar` or `tar.gz`.
        progress: as for `download`.

    Returns:
        The path of the archive.
    """
    to = _into(local, f"workspace.{format}")
    show = progress_for(f"download {to.name}", progress)
    return _transfer_out(calls.archive_target(held.id, path, format), to, show)


def import_tar(
    held: Held, local: LocalPath, path: str = "", *, progress: Progress | bool | None = None
) -> Call[Unpacked]:
    """Unpack a local archive into the workspace.

    Args:
        local: a tar file, plain or compressed with gzip.
        path: the directory to unpack into; created if missing.
        progress: as for `upload`.
    """
    source = Path(local)
    with source.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    kind = "application/gzip" if is_gzip else "application/x-tar"
    show = progress_for(f"upload {source.name}", progress)
    return _transfer_in(source, calls.archive_target(held.id, path), Unpacked, kind, show)
