# SPDX-License-Identifier: Apache-2.0
"""Volumes of the sandbox functions: copied in, copied back, and what hostile code may not do with
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from husk.interpreter import execute_code, execute_shell
from husk.interpreter.local import LOCAL

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(autouse=True)
def sessions() -> Iterator[None]:
    yield
    LOCAL.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "in.txt").write_text("in")
    (tmp_path / "sub" / "old.txt").write_text("old")
    (tmp_path / "link").symlink_to("in.txt")
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_writable_volume_comes_back(folder: Path) -> None:
    volumes = {str(folder): {"bind": "/workspace/data", "mode": "rw"}}
    code = (
        "import os\nos.chdir('/workspace/data')\nprint(open('link').read(), open('sub/old.txt').read())\n"
        "os.remove('sub/old.txt')\nos.mkdir('new')\nopen('new/out.txt', 'w').write('out')\n"
        "os.symlink('../in.txt', 'new/up')\nopen('in.txt', 'a').write('+')"
    )
    assert execute_code(code, "s", volumes=volumes)["stdout"] == "in old\n"
    assert names(folder) == ["in.txt", "link", "new", "new/out.txt", "new/up", "sub"]
    assert (folder / "new" / "up").read_text() == "in+"
    (folder / "in.txt").write_text("host")  # and what the host changes is seen by the next run
    (folder / "new" / "out.txt").unlink()
    result = execute_shell("cat data/in.txt; ls data/new", "s")
    assert result["stdout"] == "hostup\n"


def test_a_read_only_volume_does_not_come_back(folder: Path) -> None:
    volumes = {str(folder): {"bind": "/workspace/data", "mode": "ro"}}
    result = execute_shell(
        "cat data/in.txt; echo changed > data/in.txt; touch data/x", "s", volumes=volumes
    )
    assert result["stdout"] == "in"
    assert names(folder) == ["in.txt", "link", "sub", "sub/old.txt"]
    assert (folder / "in.txt").read_text() == "in"


def test_a_file_as_a_volume(folder: Path) -> None:
    volumes = {str(folder / "in.txt"): {"bind": "/workspace/one.txt", "mode": "rw"}}
    assert (
        execute_shell("cat one.txt; printf new > one.txt", "s", volumes=volumes)["stdout"] == "in"
    )
    assert (folder / "in.txt").read_text() == "new"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../outside", "sub/../../outside", "here/../../x"]
)
def test_links_out_of_a_volume_are_refused(folder: Path, target: str) -> None:
    before = names(folder)
    volumes = {str(folder): {"bind": "/workspace/data"}}
    code = f"import os; os.symlink({target!r}, '/workspace/data/evil'); open('/workspace/data/x', 'w').write('x'); print('ran')"
    result: Any = execute_code(code, "s", volumes=volumes)
    assert (result["error_type"], result["partial_stdout"]) == ("VolumeError", "ran\n")
    assert "evil" in result["error"]
    assert names(folder) == before  # nothing at all was taken


def test_a_link_of_the_host_is_not_written_through(folder: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "target.txt"
    outside.write_text("safe")
    volumes = {str(folder): {"bind": "/workspace/data"}}
    execute_shell("rm data/link && echo box > data/link", "s", volumes=volumes)
    (folder / "link").unlink()
    (folder / "link").symlink_to(outside)  # the host swaps it behind our back
    held = LOCAL.find("code-executor-s", "s")
    volume = next(iter(held._volumes.values()))  # type: ignore[union-attr]
    volume.copy_back(held._box)  # type: ignore[union-attr]
    assert outside.read_text() == "safe"
    assert not (folder / "link").is_symlink() and (folder / "link").read_text() == "box\n"


@pytest.mark.parametrize(
    "spec",
    [
        {"bind": "/mnt/data", "mode": "ro"},
        {"bind": "/workspace/../etc"},
        {"bind": "/workspaces"},
        {"bind": "/workspace/x", "mode": "z"},
        {"bind": "/workspace/x", "other": 1},
        {"mode": "ro"},
        "/workspace/x",
    ],
)
def test_volumes_that_cannot_be_are_refused(folder: Path, spec: Any) -> None:
    result = execute_code("print('ran')", "s", volumes={str(folder): spec})
    assert result["error_type"] == "VolumeError" and "stdout" not in result


def test_missing_and_overlapping_volumes_are_refused(folder: Path) -> None:
    missing = {str(folder / "no"): {"bind": "/workspace/x"}}
    assert execute_code("1", "a", volumes=missing)["error_type"] == "VolumeError"
    overlapping = {
        str(folder): {"bind": "/workspace/x"},
        str(folder / "sub"): {"bind": "/workspace/x/y"},
    }
    assert execute_code("1", "b", volumes=overlapping)["error_type"] == "VolumeError"


def test_types_may_change_between_runs(folder: Path) -> None:
    volumes = {str(folder): {"bind": "/workspace/data"}}
    execute_shell(
        "cd data; rm -r sub in.txt; echo file > sub; mkdir in.txt; echo x > in.txt/y",
        "s",
        volumes=volumes,
    )
    assert names(folder) == ["in.txt", "in.txt/y", "link", "sub"]
    assert (folder / "sub").read_text() == "file\n"


def test_files_of_the_host_that_the_box_never_saw_stay(folder: Path) -> None:
    volumes = {str(folder): {"bind": "/workspace/data"}}
    held = LOCAL.open("code-executor-s", "s")[0]
    assert held.execute_code("1", 30, volumes=volumes)["status"] == "success"
    (folder / "late.txt").write_text("late")  # between the last copy and the next copy back
    volume = next(iter(held._volumes.values()))  # type: ignore[attr-defined]
    volume.copy_back(held._box)  # type: ignore[attr-defined]
    assert (folder / "late.txt").read_text() == "late"


def test_permissions_come_back_without_dangerous_bits(folder: Path) -> None:
    volumes = {str(folder): {"bind": "/workspace/data"}}
    execute_shell("cd data; echo '#!/bin/sh' > run; chmod 6777 run", "s", volumes=volumes)
    assert (folder / "run").stat().st_mode & 0o7777 == 0o755


def test_a_volume_that_the_box_removed_is_not_emptied_here(folder: Path) -> None:
    volumes = {str(folder): {"bind": "/workspace/data"}}
    before = names(folder)
    result = execute_shell("rm -r data", "s", volumes=volumes)
    assert result["status"] == "error" and names(folder) == before
