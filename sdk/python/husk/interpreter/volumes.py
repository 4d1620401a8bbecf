# SPDX-License-Identifier: Apache-2.0
"""Volumes of the sandbox functions: a path of this host that appears below `/workspace` of a box.

Nothing is mounted. Changes on the host are copied in before a run; with mode `rw`, changes in the
box, including deletions, are copied back after it. They come from untrusted code, so all of them are
checked before any is written, and writing never follows a link.
"""

from __future__ import annotations

import os
import posixpath
import secrets
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Optional, Protocol

from husk.errors import NotFoundError, VolumeError

__all__ = ["Volume", "Workspace", "parse"]

ROOT = "/workspace"
_LONGEST = 1024  # characters of a path, as on the server
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Mode, size, time and target of a link: equal if a file did not change.
Print = tuple[int, int, int, str]


class Workspace(Protocol):
    """The box of a volume; paths are relative to its workspace."""

    def put_tar(self, path: str, archive: Path) -> None:
        """Unpacks a local tar file into a directory."""

    def get_tar(self, path: str, archive: Path) -> None:
        """Packs a directory into a local tar file."""

    def put_file(self, path: str, data: bytes) -> None:
        """Writes a file."""

    def get_file(self, path: str) -> bytes:
        """Reads a file."""

    def delete(self, path: str) -> None:
        """Removes a file or directory."""


def parse(volumes: Mapping[str, Any]) -> list[Volume]:
    """Returns the volumes of a `{host path: {"bind": ..., "mode": ...}}` map, or raises
    `VolumeError`.
    """
    parsed: list[Volume] = []
    for host, spec in volumes.items():
        if not isinstance(spec, Mapping) or not isinstance(spec.get("bind"), str):
            raise VolumeError(f"volume {host}: it must be a dict with 'bind', not {spec!r}")
        unknown = set(spec) - {"bind", "mode"}
        if unknown:
            raise VolumeError(f"volume {host}: unknown fields {sorted(unknown)}")
        volume = Volume(host, spec["bind"], spec.get("mode", "rw"))
        for other in parsed:
            if _inside(volume.bind, other.bind) or _inside(other.bind, volume.bind):
                raise VolumeError(
                    f"volumes {other.host} and {host} overlap in the sandbox",
                    solution="Give each volume its own bind.",
                )
        parsed.append(volume)
    return parsed


def _inside(path: str, folder: str) -> bool:
    return folder == "" or path == folder or path.startswith(folder + "/")


def _relative(bind: str) -> str:
    """Returns a bind relative to the workspace."""
    plain = posixpath.normpath(bind)
    if bind.split("/").count("..") or not _inside(plain, ROOT):
        raise VolumeError(
            f"bind {bind!r}: volumes can only appear below {ROOT}",
            solution=f"Use for example {ROOT}/data.",
        )
    return plain[len(ROOT) :].strip("/")


class Volume:
    """One path of this host and its copy in one box."""

    def __init__(self, host: str, bind: str, mode: str) -> None:
        if mode not in ("ro", "rw"):
            raise VolumeError(f"volume {host}: mode must be 'ro' or 'rw', not {mode!r}")
        if not Path(host).exists():
            raise VolumeError(f"volume {host}: no such path on this host")
        self.host = Path(host).resolve()
        self.bind = _relative(bind)
        self.writable = mode == "rw"
        self.is_file = not self.host.is_dir()
        if self.is_file and not self.bind:
            raise VolumeError(f"volume {host}: a file cannot replace {ROOT}")
        self._seen: dict[str, Print] = {}

    def same(self, other: Volume) -> bool:
        """Returns whether both have the same host path, bind and mode."""
        mine, others = ((v.host, v.bind, v.writable, v.is_file) for v in (self, other))
        return mine == others

    # ---- into the box ----

    def copy_in(self, box: Workspace) -> None:
        """Copies changes on the host since the last copy into the box."""
        now = self._scan()
        if now == self._seen:
            return
        if self.is_file:
            box.put_file(self.bind, self.host.read_bytes())
        else:
            for gone in self._seen.keys() - now.keys():
                with suppress(NotFoundError):  # it may have been deleted with its directory
                    box.delete(posixpath.join(self.bind, gone))
            with tempfile.TemporaryDirectory(prefix="husk-volume-") as folder:
                archive = Path(folder, "in.tar")
                self._pack(now, archive)
                box.put_tar(self.bind, archive)
        self._seen = now

    def _scan(self) -> dict[str, Print]:
        if self.is_file:
            return {"": _print(self.host)}
        found: dict[str, Print] = {}
        for folder, folders, files in os.walk(self.host):
            for name in folders + files:
                path = Path(folder, name)
                with suppress(FileNotFoundError):  # it was deleted during the scan
                    found[path.relative_to(self.host).as_posix()] = _print(path)
        return found

    def _pack(self, names: Mapping[str, Print], to: Path) -> None:
        with tarfile.open(to, mode="w") as archive:
            for name in sorted(names):
                kind = stat.S_IFMT(names[name][0])
                if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):  # no devices, sockets, pipes
                    archive.add(self.host / name, arcname=name, recursive=False)

    # ---- out of the box ----

    def copy_back(self, box: Workspace) -> None:
        """Copies changes in the box back to the host, if the volume is writable."""
        if not self.writable:
            return
        if self.is_file:
            data = box.get_file(self.bind)
            if data != self.host.read_bytes():
                with _folder(self.host.parent, ()) as at:
                    _write(at, self.host.name, data, stat.S_IMODE(self.host.stat().st_mode))
        else:
            with tempfile.TemporaryDirectory(prefix="husk-volume-") as folder:
                archive = Path(folder, "out.tar")
                box.get_tar(self.bind, archive)
                self._unpack(archive)
        self._seen = self._scan()

    def _unpack(self, file: Path) -> None:
        try:
            with tarfile.open(file, mode="r:") as archive:
                entries = {_checked(entry): entry for entry in archive.getmembers()}
                for name in sorted(entries):  # parents before children
                    if name:
                        self._take(name, entries[name], archive)
        except tarfile.TarError as error:
            raise VolumeError(
                f"the sandbox sent an invalid archive for {self.host}: {error}"
            ) from error
        self._remove_missing(set(entries))

    def _take(self, name: str, entry: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        *parents, last = name.split("/")
        mode = entry.mode & 0o755 | 0o600
        with _folder(self.host, parents) as at:
            if entry.isdir():
                with _folder(self.host, (*parents, last)):
                    return
            if entry.issym():
                if _link_at(at, last) != entry.linkname:
                    _clear(at, last)
                    os.symlink(entry.linkname, last, dir_fd=at)
                return
            source = archive.extractfile(entry)
            data = source.read() if source is not None else b""
            if _file_at(at, last) != data:
                _write(at, last, data, mode)

    def _remove_missing(self, names: set[str]) -> None:
        """Removes files that were copied in and deleted in the box, unless they changed on the
        host.
        """
        for name in sorted(self._seen.keys() - names, reverse=True):  # children before parents
            *parents, last = name.split("/")
            path = self.host / name
            with suppress(FileNotFoundError, NotADirectoryError):
                was, now = self._seen[name], _print(path)
                with _folder(self.host, parents, make=False) as at:
                    if stat.S_ISDIR(now[0]):
                        with suppress(OSError):  # not empty: the host added a file
                            os.rmdir(last, dir_fd=at)
                    elif now == was:
                        os.unlink(last, dir_fd=at)


def _print(path: Path) -> Print:
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode):
        # Its time changes with its entries, which are compared themselves.
        return (found.st_mode, 0, 0, "")
    link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
    return (found.st_mode, found.st_size, found.st_mtime_ns, link)


def _checked(entry: tarfile.TarInfo) -> str:
    """Returns the name of an entry that is safe to create on this host, or raises `VolumeError`."""
    name = entry.name[2:] if entry.name.startswith("./") else entry.name
    name = "" if name == "." else name.rstrip("/")
    parts = name.split("/") if name else []
    if any(part in ("", ".", "..") for part in parts) or len(name) > _LONGEST:
        raise VolumeError(f"the sandbox left a path that leads out of the volume: {entry.name!r}")
    if entry.isdir() or entry.isreg():
        return name
    if not entry.issym():
        raise VolumeError(
            f"the sandbox left an entry that is not a file, directory or link: {name!r}"
        )
    # Leading `..` must stay inside the volume; a `..` after a name could leave it through another
    # link.
    target = entry.linkname.split("/")
    steps = next((i for i, part in enumerate(target) if part != ".."), len(target))
    if entry.linkname.startswith("/") or ".." in target[steps:] or steps >= len(parts):
        raise VolumeError(
            f"the sandbox left a link that leads out of the volume: {name!r} -> {entry.linkname!r}"
        )
    return name


@contextmanager
def _folder(root: Path, parts: Any, make: bool = True) -> Iterator[int]:
    """Opens a directory below root step by step, without following links; replaces other entries in
    its path.
    """
    at = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for part in parts:
            try:
                below = os.open(part, _DIRECTORY, dir_fd=at)
            except OSError:
                if not make:
                    raise
                _clear(at, part)
                os.mkdir(part, 0o755, dir_fd=at)
                below = os.open(part, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _clear(at: int, name: str) -> None:
    """Removes the file, link or directory tree with this name."""
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        below = os.open(name, _DIRECTORY, dir_fd=at)
        try:
            for entry in os.listdir(below):
                _clear(below, entry)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=at)


def _link_at(at: int, name: str) -> Optional[str]:
    try:
        return os.readlink(name, dir_fd=at)
    except OSError:
        return None


def _file_at(at: int, name: str) -> Optional[bytes]:
    """Returns the content of a regular file, or None if there is none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read()


def _write(at: int, name: str, data: bytes, mode: int) -> None:
    """Replaces a file atomically."""
    staged = f".husk-{secrets.token_hex(8)}"
    fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=at)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        try:
            os.rename(staged, name, src_dir_fd=at, dst_dir_fd=at)
        except IsADirectoryError:
            _clear(at, name)
            os.rename(staged, name, src_dir_fd=at, dst_dir_fd=at)
    except OSError:
        with suppress(OSError):
            os.unlink(staged, dir_fd=at)
        raise
