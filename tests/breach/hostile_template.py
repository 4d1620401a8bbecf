# SPDX-License-Identifier: Apache-2.0
"""Operator's templates with hostile modules: a virtual environment of their own, whose modules are
preloaded. They stand in for a package that turned hostile, and for a zygote that was taken over.
"""
from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from husk_server import Server

HERE = Path(__file__).resolve().parent
CANARY = Path("/var/tmp/husk-breach-canary")  # a file of the host that no zygote may see
ATTEMPT_FILES = ("attempt.py", "preload_attempts.py", "preload_calls.py")


class Packages:
    """A virtual environment that templates mount. Boxes have a /tmp of their own, so it lies
    elsewhere.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.modules = folder / "lib" / version / "site-packages"
        self.modules.mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
        (folder / "pyvenv.cfg").write_text(
            "home = /usr/bin\ninclude-system-site-packages = false\n"
        )

    def add(self, module: str, text: str) -> None:
        (self.modules / f"{module}.py").write_text(text)

    def template(self, server: Server, name: str, module: str, *lines: str) -> str:
        """A template of the operator that preloads the module. Returns its name."""
        text = [
            f"mount = {self.folder}",
            f"runtime = {self.folder}/bin/python3",
            "language = python",
        ]
        text += [f"preload = {module}", *lines]
        (server.templates / f"{name}.template").write_text("\n".join(text) + "\n")
        return name


@contextmanager
def packages() -> Iterator[Packages]:
    folder = Path(tempfile.mkdtemp(prefix="husk-breach-", dir="/var/tmp"))
    try:
        made = Packages(folder)
        for file in ATTEMPT_FILES:
            shutil.copy(HERE / file, made.modules)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
