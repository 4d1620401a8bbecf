# SPDX-License-Identifier: Apache-2.0
"""sandbox.files: reading, writing, transfers with progress, archives."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import SdkServer
from waiting import PATIENCE

from husk import AsyncSandbox, Sandbox, errors
from husk.sandbox.progress import Bar, progress_for


@pytest.fixture(scope="module")
def box(server: SdkServer) -> Iterator[Sandbox]:
    with Sandbox(disk="200Mi") as sandbox:
        yield sandbox


def test_read_and_write(box: Sandbox) -> None:
    written = box.files.write("deep/er/data.bin", bytes(range(256)))
    assert written.size == 256 and written.file_path == "deep/er/data.bin"
    assert box.files.read("deep/er/data.bin") == bytes(range(256))
    box.files.write("ü.txt", "grün")
    assert box.files.read_text("ü.txt") == "grün"
    assert box.run("open('ü.txt').read()").value == "grün"
    box.files.write("empty", b"")
    assert box.files.read("empty") == b""


def test_directories(box: Sandbox) -> None:
    box.files.mkdir("a/b")
    with pytest.raises(errors.HuskError):
        box.files.mkdir("a/b", parents=False)
    box.files.write("a/b/f", "1")
    assert [e.path for e in box.files.list("a")] == ["a/b"]
    assert [e.path for e in box.files.list("a", recursive=True)] == ["a/b", "a/b/f"]
    entry = box.files.stat("a/b")
    assert entry.is_dir and entry.container_path == "/workspace/a/b"
    assert box.files.exists("a/b/f") and not box.files.exists("a/b/g")
    assert not box.files.exists("a/b/f/g"), "a file has nothing below it"
    box.files.move("a/b/f", "a/g")
    with pytest.raises(errors.ConflictError):
        box.files.move("a/g", "a/b")
    box.files.write("a/h", "2")
    box.files.move("a/g", "a/h", overwrite=True)
    assert box.files.read("a/h") == b"1"
    with pytest.raises(errors.ConflictError):
        box.files.delete("a")
    box.files.delete("a", recursive=True)
    assert not box.files.exists("a")


def test_missing_and_bad_paths(box: Sandbox) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        box.files.read("no/such")
    assert isinstance(caught.value, errors.WorkspaceFileNotFoundError)
    assert caught.value.status == 404 and caught.value.code == "Sandbox.FileNotFound"
    with pytest.raises(ValueError):
        box.files.read("../etc/passwd")
    with pytest.raises(errors.HuskError):
        box.files.read("")


def test_no_path_leads_to_another_session(box: Sandbox, tmp_path: Path) -> None:
    mine, got = tmp_path / "mine", tmp_path / "got"
    mine.write_text("mine")
    with Sandbox() as other:
        other.files.write("file", "theirs")
        for path in (f"../../{other.id}/files/file", f"./../../{other.id}/files/file", "a/..", "."):
            with pytest.raises(errors.InvalidParameterError):
                box.files.upload(mine, path)
            with pytest.raises(errors.InvalidParameterError):
                box.files.download(path, got)
        assert other.files.read_text("file") == "theirs" and not got.exists()
    box.files.write("..a/.b/c..", "dots are fine")
    assert box.files.read_text("..a/.b/c..") == "dots are fine"


def test_a_long_list_comes_whole(box: Sandbox) -> None:
    box.shell("mkdir many && cd many && seq -f 'f%05g' 1 12000 | xargs touch", timeout=60)
    found = box.files.list("many")
    assert len(found) == 12000 and found[0].name == "f00001" and found[-1].name == "f12000"
    box.files.delete("many", recursive=True)


def test_upload_and_download_with_progress(box: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "big.bin"
    data = os.urandom(3_000_001)
    source.write_bytes(data)
    up: list[tuple[int, int | None]] = []
    assert box.files.upload(source, progress=lambda d, t: up.append((d, t))).size == len(data)
    assert up[-1] == (len(data), len(data)) and len(up) > 10
    assert [d for d, _ in up] == sorted(d for d, _ in up)
    assert box.run("import hashlib; hashlib.sha256(open('big.bin','rb').read()).hexdigest()").ok
    down: list[tuple[int, int | None]] = []
    got = box.files.download(
        "big.bin", tmp_path / "copy", progress=lambda d, t: down.append((d, t))
    )
    assert got.read_bytes() == data and down[-1] == (len(data), len(data))
    (tmp_path / "dir").mkdir()
    assert box.files.download("big.bin", tmp_path / "dir") == tmp_path / "dir" / "big.bin"
    assert box.files.upload(source, "elsewhere/x").file_path == "elsewhere/x"


def test_a_source_that_does_not_say_its_size(box: Sandbox, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as writer:
        written = writer.submit((tmp_path / "pipe").write_bytes, b"through a pipe")
        calls: list[int] = []
        box.files.upload(tmp_path / "pipe", progress=lambda done, _: calls.append(done))
        assert written.result() == calls[-1] == 14
    assert box.files.read("pipe") == b"through a pipe"
    box.files.upload("/proc/self/stat")
    assert box.files.read("stat").startswith(str(os.getpid()).encode())


def test_a_source_that_becomes_shorter(box: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "shrinks"
    source.write_bytes(bytes(5 << 20))
    with pytest.raises(OSError, match="shorter"):
        box.files.upload(source, progress=lambda *_: os.truncate(source, 1000))
    assert not box.files.exists("shrinks")


def test_the_longest_name_there_is(box: Sandbox, tmp_path: Path) -> None:
    name = "n" * 255
    (tmp_path / name).write_text("long")
    box.files.upload(tmp_path / name)
    (tmp_path / name).unlink()
    assert box.files.download(name, tmp_path) == tmp_path / name
    assert (tmp_path / name).read_text() == "long"


def test_a_failed_download_leaves_nothing(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    with pytest.raises(FileNotFoundError):
        box.files.download("no-such", tmp_path / "kept")
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "old"


def test_a_full_disk_is_said(server: SdkServer, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(4 << 20))
    with Sandbox(disk="1Mi") as s:
        with pytest.raises(errors.DiskFullError):
            s.files.upload(tmp_path / "large")
        with pytest.raises(errors.DiskFullError):
            s.files.write("large", bytes(4 << 20))


def test_the_disk_limit_decides_how_large_a_file_may_be(server: SdkServer, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(130 << 20)
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    with Sandbox(memory="512Mi", disk="160Mi") as s:
        assert s.files.upload(tmp_path / "huge").size == 130 << 20
        assert s.run("import os; os.path.getsize('huge')").value == 130 << 20
        assert s.shell("tail -c 1 huge").stdout == "x"
    with Sandbox(memory="512Mi", disk="120Mi") as s:
        with pytest.raises(errors.DiskFullError):
            s.files.upload(tmp_path / "huge")
        assert not s.files.exists("huge")


def test_more_than_the_server_takes_is_said(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(200_000))
    with SdkServer.run("--max-upload", "128K") as running:
        with Sandbox(socket=running.socket) as s:
            with pytest.raises(errors.TooLargeError):
                s.files.upload(tmp_path / "large")
            assert not s.files.exists("large")


PIPED = """
import os, resource, sys
from husk import Sandbox
with Sandbox(memory="512Mi", disk="160Mi") as s:
    s.files.write("warm", b"x")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    s.files.upload(sys.argv[1], "big")
    print(s.files.stat("big").size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_pipe_is_streamed(server: SdkServer, tmp_path: Path) -> None:
    """It tells no size, and is not gathered in memory."""
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as writer:
        written = writer.submit((tmp_path / "pipe").write_bytes, bytes(60 << 20))
        done = subprocess.run(
            [sys.executable, "-c", PIPED, str(tmp_path / "pipe")],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        written.result()
    size, grown = map(int, done.stdout.split())
    assert size == 60 << 20 and grown < 30 << 10, "KiB"


def test_an_empty_file(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert box.files.upload(tmp_path / "empty").size == 0
    assert box.files.read("empty") == b""


@pytest.mark.parametrize("format", ["tar", "tar.gz"])
def test_archives(server: SdkServer, tmp_path: Path, format: str) -> None:
    with Sandbox() as s:
        s.files.write("d/one.txt", "1")
        s.files.write("d/sub/two.txt", "22")
        to = s.files.export_tar(tmp_path / "out", "d", format=format)  # type: ignore[arg-type]
        with tarfile.open(to) as archive:
            names = {n.removeprefix("./") for n in archive.getnames()}
        assert {"one.txt", "sub/two.txt"} <= names
        assert s.files.import_tar(to, "copy").entries >= 2
        assert s.files.read("copy/sub/two.txt") == b"22"


def test_a_hostile_archive_is_refused(box: Sandbox, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar"
    with tarfile.open(bad, "w") as archive:
        info = tarfile.TarInfo("../outside")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(errors.InvalidParameterError, match="outside"):
        box.files.import_tar(bad)


def test_async_transfers(server: SdkServer, tmp_path: Path) -> None:
    source = tmp_path / "s"
    source.write_bytes(os.urandom(500_000))

    async def main() -> None:
        async with AsyncSandbox() as s:
            seen: list[int] = []
            await s.files.upload(source, "t", progress=lambda d, t: seen.append(d))
            assert seen[-1] == 500_000
            await s.files.download("t", tmp_path / "back")
            await s.files.export_tar(tmp_path / "w.tar")
            await s.files.import_tar(tmp_path / "w.tar", "again")
            assert await s.files.read("again/t") == source.read_bytes()

    asyncio.run(main())
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


# ---- the bar ----


def test_the_line_of_the_bar() -> None:
    bar = Bar("upload x", io.StringIO())
    assert bar.line(0, 100).startswith("upload x  [------")
    half = bar.line(1 << 20, 2 << 20)
    assert half.count("#") == 15 and " 50 %" in half and "1.0 MiB of 2.0 MiB" in half
    assert bar.line(2048, None) == "upload x  2.0 KiB"
    assert bar.line(0, 0) == "upload x  0 B"


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert progress_for("x", None) is None and progress_for("x", False) is None
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(server: SdkServer, tmp_path: Path) -> None:
    (tmp_path / "up.bin").write_bytes(bytes(300_000))
    script = f"from husk import Sandbox\nwith Sandbox() as s: s.files.upload({str(tmp_path / 'up.bin')!r})"
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", script], stderr=theirs, timeout=PATIENCE, check=False
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert done.returncode == 0
    assert b"upload up.bin" in shown and b"100 %" in shown and b"293.0 KiB of 293.0 KiB" in shown
