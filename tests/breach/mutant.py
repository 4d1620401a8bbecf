# SPDX-License-Identifier: Apache-2.0
"""A copy of source and build in which defences can be taken away.

The copy lies below the build folder, and so do its programs. Times of files are kept and the build
names its sources by relative paths, so ninja compiles only what an edit changes. A row is undone by
writing the original text again: the build of the next row puts it back in place.

Must not write to the tree that it is a copy of, nor run a mutated program out of a test.
"""
from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mutations import Edit, Mutation

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["api", "include", "profiles", "runtimes", "scaffold", "sdk", "src", "templates"]
SOURCES += ["tests", "tools", "bench", "meson.build", "meson_options.txt", "VERSION"]
BUILT = ["bin", "inc", "lib", "meson-info", "meson-private", "profiles", "runtimes", "src", "tests"]
BUILT += ["bench", "build.ninja", ".ninja_log", ".ninja_deps"]
# What tools/stage puts in its place.
PROGRAMS = ["src/cli/husk", "src/cli/rayai", "src/cli/sandbox-run", "src/daemon/huskd"]
PROGRAMS += ["src/launcher/husk-launcher", "src/runner/husk-init", "src/runner/_husk.abi3.so"]
TEST_SECONDS = 120
# Made at every build, as the source's commit may be another one; ninja -n cannot tell that it is not.
OF_COMMIT = [
    "src/cli/commit.h",
    "common_cmd_version.c.o",
    "target src/cli/husk",
    "target src/cli/rayai",
]


@dataclass
class Outcome:
    """A test that has ended. One that was skipped shows nothing, with a defence or without."""

    passed: bool
    said: str

    @property
    def was_skipped(self) -> bool:
        return self.passed and (" # SKIP " in self.said or " skipped in " in self.said)


def c_program(test: str) -> str:
    """The program of "program:name"; empty for a pytest."""
    return "" if ".py::" in test else test.split(":")[0]


class Mutant:
    """The copy. It is the tree itself until the first row is applied."""

    def __init__(self, build: Path) -> None:
        assert ROOT in build.parents, f"{build} must lie in {ROOT}: its paths are relative"
        inside = build.relative_to(ROOT)
        self.folder = build / "mutants"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.build = self.folder / inside
        self.build.mkdir(parents=True)
        for source, target, names in ((ROOT, self.folder, SOURCES), (build, self.build, BUILT)):
            for name in names:
                copy(source / name, target / name)
        self.edited: dict[Path, str] = {}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- source ----

    def apply(self, row: Mutation) -> None:
        """In place of the row before."""
        for path, original in self.edited.items():
            path.write_text(original)
        self.edited = {}
        for edit in row.edits:
            path = self.folder / edit.file
            text = path.read_text()
            check_text(row, edit, text)
            self.edited.setdefault(path, text)
            path.write_text(text.replace(edit.text, edit.replacement))

    # ---- programs ----

    def is_current(self, tests: list[str]) -> str:
        """What ninja would do, if anything: then the build is older than the source."""
        said = self.ninja("-n", *tests).stdout
        steps = [line for line in said.splitlines() if line.startswith("[")]
        old = [step for step in steps if not any(part in step for part in OF_COMMIT)]
        return said if old or not (steps or "no work to do" in said) else ""

    def compile(self, test: str) -> None:
        done = self.ninja(test)
        assert done.returncode == 0, f"the mutated source does not compile:\n{done.stdout}"
        staged = subprocess.run(
            [self.folder / "tools" / "stage", self.build], capture_output=True, text=True
        )
        assert staged.returncode == 0, staged.stderr

    def ninja(self, *words: str) -> subprocess.CompletedProcess[str]:
        flags = [w for w in words if w.startswith("-")]
        tests = {f"tests/{c_program(w)}" for w in words if w not in flags and c_program(w)}
        command = ["ninja", "-C", str(self.build), *flags, *PROGRAMS, *sorted(tests)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    # ---- tests ----

    def run(self, test: str) -> Outcome:
        env = dict(os.environ, HUSK_BUILD=str(self.build), HUSK_BIN=str(self.build / "bin/husk"))
        env["HUSK_BIN_DIR"] = str(self.build / "bin")
        if c_program(test):
            program, name = test.split(":")
            command = [str(self.build / "tests" / program), name]
        else:
            command = ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += ["--tb=short", test]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TEST_SECONDS,
            check=False,
        )
        return Outcome(done.returncode == 0, done.stdout)


def copy(source: Path, target: Path) -> None:
    """With the times of files, by which ninja tells what is new."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def check_text(row: Mutation, edit: Edit, original: str) -> None:
    found = original.count(edit.text)
    assert found == 1, (
        f"row {row.name} of tests/breach/mutations.py is out of date: {edit.file} holds this text "
        f"{found} times, not once:\n{edit.text}\nWrite the text that the defence has now."
    )
