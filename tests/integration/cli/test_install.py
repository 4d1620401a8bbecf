# SPDX-License-Identifier: Apache-2.0
"""`make install`: what it installs works for every user, whichever account built it and however."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from places import BIN, ROOT
from waiting import PATIENCE

EXIT_HUSK = 125


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation by a user whose new files are closed to others, in a folder with a
    blank.
    """
    path = tmp_path_factory.mktemp("install") / "my husk ü"
    subprocess.run(
        [
            "make",
            "-s",
            "-C",
            ROOT,
            "-o",
            "build",
            "install",
            f"BUILD={BIN.parent}",
            f"PREFIX={path}",
        ],
        umask=0o077,
        timeout=PATIENCE,
        check=True,
    )
    return path


def run(prefix: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [prefix / "bin" / "husk", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_all_of_it_is_open_to_all(prefix: Path) -> None:
    for folder, _, files in os.walk(prefix):
        assert Path(folder).stat().st_mode & 0o777 == 0o755, folder
        for file in files:
            assert (Path(folder) / file).stat().st_mode & 0o044 == 0o044, file


def test_it_runs_where_it_is(prefix: Path) -> None:
    assert run(prefix, "run", "6 * 7").stdout == "42\n"
    assert run(prefix, "run", "--lang", "shell", "echo 42").stdout == "42\n"


@pytest.mark.parametrize(
    "command", [["run", "1"], ["run", "--lang", "shell", "true"], ["up", "--listen", "none"]]
)
def test_files_that_boxes_cannot_read_are_named(
    prefix: Path, tmp_path: Path, command: list[str]
) -> None:
    lib = prefix / "lib" / "husk"
    lib.chmod(0o700)
    try:
        more = ["--data", str(tmp_path / "data")] if command[0] == "up" else []
        done = run(prefix, *command, *more)
    finally:
        lib.chmod(0o755)
    assert done.returncode == EXIT_HUSK
    assert "lib/husk/ is closed to other accounts" in done.stderr
    assert done.stderr.endswith("chmod -R o+rX that folder\n") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["run", "1"], ["up", "--listen", "none"]])
def test_programs_without_their_files(prefix: Path, tmp_path: Path, command: list[str]) -> None:
    """As after copying build/bin alone."""
    shutil.copytree(prefix / "bin", tmp_path / "bin")
    more = ["--data", str(tmp_path / "data")] if command[0] == "up" else []
    done = run(tmp_path, *command, *more)
    assert done.returncode == EXIT_HUSK
    assert done.stderr.startswith("husk: husk's own files, ") and done.stderr.count("\n") == 1
    assert "make install" in done.stderr and done.stderr.endswith("No such file or directory\n")


def test_a_program_that_is_missing_is_named(prefix: Path, tmp_path: Path) -> None:
    shutil.copytree(prefix, tmp_path / "husk")
    (tmp_path / "husk" / "bin" / "husk-launcher").unlink()
    done = run(tmp_path / "husk", "up", "--listen", "none", "--data", str(tmp_path / "data"))
    assert done.returncode == EXIT_HUSK
    assert "bin/husk-launcher: No such file or directory" in done.stderr


def test_the_example_builds_against_the_installed_library(prefix: Path, tmp_path: Path) -> None:
    def pkg_config(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["pkg-config", *arguments, "husk"],
            env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")},
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",  # it escapes each byte of a character
            timeout=PATIENCE,
            check=True,
        )
        return shlex.split(done.stdout)

    program = tmp_path / "hello"
    subprocess.run(
        [
            *("cc", "-Wall", "-Werror", "-o", program, ROOT / "examples" / "hello.c"),
            *pkg_config("--cflags", "--libs"),
        ],
        timeout=PATIENCE,
        check=True,
    )
    env = {
        **os.environ,
        "HUSK_LAUNCHER": pkg_config("--variable=launcher")[0],
        "HUSK_LIB_DIR": pkg_config("--variable=filesdir")[0],
    }
    done = subprocess.run(
        [program], env=env, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "completed: hello from a box\nx * 7 = 42\n"
