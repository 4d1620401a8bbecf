#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of docs/style.md that no packaged tool checks. Prints "file:line: what is
wrong".

    tools/lint.py            all files of the project
    tools/lint.py FILE...    these
    tools/lint.py --files    lists all files of the project

Each rule is a function that takes a Source and yields findings; RULES at the end lists them.
"""
from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from layers import Layers

ROOT = Path(__file__).resolve().parent.parent

LAYERS = Layers(ROOT)

COLUMNS = 100
FILE_LINES, FILE_LINES_AIM = 800, 400
FUNCTION_LINES, FUNCTION_LINES_AIM = 80, 60

BANNED_EVERYWHERE = {
    "strcpy": "str_copy()",
    "strcat": "struct buf",
    "strncpy": "str_copy()",
    "strncat": "struct buf",
    "sprintf": "str_format()",
    "vsprintf": "str_format()",
    "gets": "fd_read_all()",
    "strtok": "strcspn()",
    "atoi": "parse_u64()",
    "atol": "parse_u64()",
    "atoll": "parse_u64()",
    "system": "posix_spawn()",
    "popen": "posix_spawn()",
    "tmpnam": "O_TMPFILE or mkdtemp()",
    "mktemp": "O_TMPFILE or mkdtemp()",
    "alloca": "a fixed array or struct buf",
    "signal": "sigaction()",
}
BANNED_IN_SRC = {"dup": "fcntl(F_DUPFD_CLOEXEC)"}

# These make descriptors without a way to say close-on-exec, or must say it.
NO_CLOEXEC = {
    "pipe": "pipe2()",
    "accept": "accept4()",
    "epoll_create": "epoll_create1()",
    "inotify_init": "inotify_init1()",
}
NEEDS_CLOEXEC = ["socket", "socketpair", "accept4", "pipe2", "epoll_create1", "eventfd"]
NEEDS_CLOEXEC += ["timerfd_create", "signalfd", "memfd_create", "inotify_init1"]

# What modules of the SDK may import when they are imported themselves.
MAY_IMPORT = {*sys.stdlib_module_names, "husk", "rayai", "sandbox_runtime", "httpx", "cloudpickle"}
TOP_IMPORT = re.compile(r"(?:import|from) ([A-Za-z_]\w*)")

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~>)}$*-])/(?:root|work)/[\w.]")
VAGUE = re.compile(r"\b(?:whoever|nobody|somebody|everybody|anybody)\b", re.I)
SPDX = "SPDX-License-Identifier: Apache-2.0"
BINARY_OR_DATA = (".png", ".ico", ".gz", ".zip", ".svg")

# Programs that attack: they name host paths and use calls that ours must not.
ATTACKS = "tests/escape/"
SAMPLES = "tests/corpus/"


@dataclass
class Finding:
    line: int
    text: str
    is_note: bool = False  # shown, but not a failure


class Source:
    """A file of the project."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.lines = text.splitlines()
        self.is_c = name.endswith((".c", ".h", ".def"))
        self.is_shell = self.text.startswith(("#!/usr/bin/env bash", "#!/bin/sh", "#!/bin/bash"))
        self.is_python = name.endswith(".py") or self.text.startswith("#!/usr/bin/python3")
        self.is_attack = self.name.startswith(ATTACKS)
        self.layer = self.name.split("/")[1] if self.name.startswith("src/") else ""

    @cached_property
    def code(self) -> str:
        """C without comments and the insides of literals; everything else stays where it was."""
        return C_TOKEN.sub(blank, self.text)

    def line_of(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1


C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def blank(match: re.Match[str]) -> str:
    token = match.group()
    if token.startswith("//"):
        return token  # for the rule that forbids it
    if token.startswith("/*"):
        return re.sub(r"[^\n]", " ", token)
    return token[0] + " " * (len(token) - 2) + token[-1]


def calls(source: Source, name: str) -> Iterator[tuple[int, str]]:
    """Where a C function is called, with its arguments. Members and our own x_name() are not it."""
    for match in re.finditer(rf"(?<![\w.>]){name}\(", source.code):
        depth, end = 1, match.end()
        while depth > 0 and end < len(source.code):
            depth += {"(": 1, ")": -1}.get(source.code[end], 0)
            end += 1
        yield source.line_of(match.start()), source.code[match.end() : end - 1]


def check_head(source: Source) -> Iterator[Finding]:
    """The licence first, then what the file is for."""
    if not (source.is_c or source.is_shell or source.is_python) or source.is_attack:
        return
    if source.name.startswith("tests/") and source.text == "":
        return  # __init__.py
    at = 1 if source.text.startswith("#!") else 0
    head = source.lines[at : at + 2] + ["", ""]
    if SPDX not in head[0]:
        yield Finding(at + 1, f'the first line must be the comment "{SPDX}"')
    if not head[1].lstrip().startswith(("/*", "#", '"""', 'r"""')):
        yield Finding(at + 2, "a comment must say what the file does")


def check_name(source: Source) -> Iterator[Finding]:
    """A base name appears once in src: it tells which file is meant."""
    if source.layer and source.is_c:
        base = source.name.split("/")[-1]
        twins = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob(base)]
        if twins := [name for name in sorted(twins) if name != source.name]:
            yield Finding(1, f"{twins[0]} has the same base name: give one of them another")


def check_size(source: Source) -> Iterator[Finding]:
    if not (source.is_c or source.is_python or source.is_shell):
        return
    n = len(source.lines)
    if n > FILE_LINES:
        yield Finding(n, f"{n} lines, at most {FILE_LINES}: split it by topic")
    elif n > FILE_LINES_AIM:
        yield Finding(n, f"{n} lines, aim for {FILE_LINES_AIM}", is_note=True)


def check_width(source: Source) -> Iterator[Finding]:
    """clang-format sees to code; comments it leaves alone, and tears declarations apart for
    them.
    """
    if source.name.endswith((".c", ".h")) and not source.is_attack:
        for number, line in enumerate(source.lines, 1):
            if len(line) > COLUMNS:
                yield Finding(number, f"{len(line)} columns, at most {COLUMNS}")


def check_functions(source: Source) -> Iterator[Finding]:
    """A function's braces stand alone in the first column; nothing else does."""
    start = 0
    for number, line in enumerate(source.lines if source.is_c else [], 1):
        if line == "{":
            start = number
        elif line == "}" and start > 0:
            n = number - start - 1
            if n > FUNCTION_LINES:
                yield Finding(start, f"function of {n} lines, at most {FUNCTION_LINES}")
            elif n > FUNCTION_LINES_AIM:
                text = f"function of {n} lines, aim for {FUNCTION_LINES_AIM}"
                yield Finding(start, text, is_note=True)
            start = 0


def check_includes(source: Source) -> Iterator[Finding]:
    """The layers. The build refuses most of what this finds; it names the rule, and sees "../"."""
    if source.layer and source.is_c:
        for line, text in LAYERS.violations(source.name.removeprefix("src/"), source.text):
            yield Finding(line, text)


def check_banned(source: Source) -> Iterator[Finding]:
    if not source.is_c or source.is_attack:
        return
    banned = dict(BANNED_EVERYWHERE)
    if source.layer:
        banned.update(BANNED_IN_SRC)
    for name, instead in banned.items():
        for line, _ in calls(source, name):
            yield Finding(line, f"{name}() is banned, use {instead}")
    if not source.layer:
        return
    for name in ("malloc", "realloc"):
        for line, arguments in calls(source, name):
            if re.search(r"[\w)\]] \* [\w(]", arguments):
                yield Finding(line, f"{name}() of a product can overflow, use calloc, reallocarray")
    if not re.search(r"^int main\(", source.code, re.M):
        for line, _ in calls(source, "exit"):
            yield Finding(line, "exit() outside the file of main(): return an error")


def check_cloexec(source: Source) -> Iterator[Finding]:
    if not source.is_c or source.is_attack:
        return
    for name, instead in NO_CLOEXEC.items():
        for line, _ in calls(source, name):
            yield Finding(line, f"{name}() leaks into children, use {instead} with CLOEXEC")
    for name in NEEDS_CLOEXEC:
        for line, arguments in calls(source, name):
            if "CLOEXEC" not in arguments:
                yield Finding(line, f"{name}() without CLOEXEC")


def check_c_text(source: Source) -> Iterator[Finding]:
    if not source.is_c:
        return
    for match in re.finditer(r"//", source.code):
        yield Finding(source.line_of(match.start()), "comments are /* */")
    for match in re.finditer(r"\btypedef\s+(struct|union|enum)\b", source.code):
        yield Finding(source.line_of(match.start()), f"{match.group(1)}s are not typedef'd")
    if source.name.endswith(".h") and "#pragma once" not in source.lines:
        yield Finding(1, "a header needs #pragma once")


def check_words(source: Source) -> Iterator[Finding]:
    """The subject of a comment is a process, function, caller, client, file or field."""
    for number, line in enumerate(source.lines if source.layer and source.is_c else [], 1):
        if match := VAGUE.search(line):
            yield Finding(number, f'"{match.group()}": name the thing that is meant', is_note=True)


def check_python_imports(source: Source) -> Iterator[Finding]:
    """Importing our packages must cost nothing: frameworks are imported by the functions that need
    them.
    """
    packages = ("husk", "rayai", "sandbox_runtime")
    if not source.name.startswith(tuple(f"sdk/python/{name}/" for name in packages)):
        return
    for number, line in enumerate(source.lines, 1):
        if (match := TOP_IMPORT.match(line)) and match.group(1) not in MAY_IMPORT:
            yield Finding(
                number, f"{match.group(1)} is imported with the module; do it in a function"
            )


def check_any_text(source: Source) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, 1):
        if match := UNFINISHED.search(line):
            yield Finding(number, f"{match.group()}: finish it, or write it down elsewhere")
        if not source.is_attack and MACHINE_PATH.search(line):
            yield Finding(number, "a path of one machine")


RULES: list[Callable[[Source], Iterator[Finding]]] = [
    check_head,
    check_name,
    check_size,
    check_width,
    check_functions,
    check_includes,
    check_banned,
    check_cloexec,
    check_c_text,
    check_words,
    check_python_imports,
    check_any_text,
]


def check(source: Source) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(source)]


def project_files() -> list[Path]:
    """What git has or would take; without git all that is not built or hidden. Samples of the
    fuzzers may hold anything.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    names = set(listed.stdout.split("\0"))
    if listed.returncode != 0:
        found = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
        names = {n for n in found if not re.match(r"build|\.|.*/(\.|__pycache__)", n)}
    kept = [n for n in sorted(names) if n and not n.startswith(SAMPLES) and n != "LICENSE"]
    paths = [ROOT / n for n in kept if not n.endswith(BINARY_OR_DATA)]
    return [p for p in paths if p.is_file()]


def main() -> int:
    if sys.argv[1:] == ["--files"]:
        print("\n".join(path.relative_to(ROOT).as_posix() for path in project_files()))
        return 0
    errors = 0
    notes = []
    for path in [Path(a).resolve() for a in sys.argv[1:]] or project_files():
        source = Source(path.relative_to(ROOT).as_posix(), path.read_text(errors="replace"))
        for finding in check(source):
            text = f"{source.name}:{finding.line}: {finding.text}"
            if finding.is_note:
                notes.append(text)
            else:
                errors += 1
                print(text)
    for text in notes:
        print(f"note: {text}")
    print(f"lint.py: {errors} errors, {len(notes)} notes")
    return 0 if errors == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
