#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the options of husk, rayai and sandbox-run into docs/cli.md and the manual pages.

    tools/cliref.py BUILD            rewrites the text between the markers
    tools/cliref.py BUILD --check    fails when a page is not what would be written

BUILD is a build folder that has the three programs. The source is what they print as help, which
comes from the option tables in src/cli and from src/config/config.def.

A marker pair is `<!-- options:husk run:begin -->` and `<!-- options:husk run:end -->`; in a manual
page `.\\" options:husk run:begin`. The kinds:

    options:COMMAND     the options of the command, without the settings of the server
    settings:COMMAND    the settings of the server that the command takes
    usage:COMMAND       how the command is called, or each command of a program
"""
from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs" / "cli.md", *sorted((ROOT / "man").glob("*.[1-8]"))]

OPTION = re.compile(r"  (?:-(\w), |    )--([\w-]+)(?: (\S+))?(?:  +(\S.*))?")
MORE = re.compile(r" {7,}(\S.*)")
GROUP = re.compile(r"(\S.*):")
MARKER = re.compile(
    r'(?P<begin>^(?:<!-- |\.\\" )(?P<kind>\w+):(?P<name>[\w -]+):begin(?: -->)?\n)'
    r'.*?(?P<end>^(?:<!-- |\.\\" )(?P=kind):(?P=name):end(?: -->)?$)',
    re.MULTILINE | re.DOTALL,
)


class PageError(Exception):
    """A help text or a marker that this does not understand."""


@dataclass
class Option:
    group: str
    letter: str
    name: str
    value: str
    text: str


@dataclass
class Help:
    usage: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


def parse(text: str) -> Help:
    """What a help text says: its usage lines, and its options with the group each belongs to."""
    usage, _, body = text.partition("\n\n")
    found = Help([line[len("Usage: ") :] for line in usage.splitlines()])
    group = ""
    for line in body.partition("\nExamples:\n")[0].splitlines():
        if option := OPTION.fullmatch(line):
            letter, name, value, words = (part or "" for part in option.groups())
            found.options.append(Option(group, letter, name, value, words))
        elif more := MORE.fullmatch(line):
            found.options[-1].text = f"{found.options[-1].text} {more[1]}".strip()
        elif heading := GROUP.fullmatch(line):
            group = heading[1]
        elif line.startswith("  "):
            raise PageError(f"not an option: {line!r}")
    return found


# ---- as Markdown ----


def markdown_options(options: list[Option]) -> str:
    lines = ["| option | meaning |", "|---|---|"]
    for o in options:
        names = (f"`-{o.letter}`, " if o.letter else "") + f"`--{o.name}` {o.value}".rstrip()
        text = re.sub(r"(?<![\w`-])(--[a-z][\w-]*|\\xNN)", r"`\1`", o.text.replace("|", "\\|"))
        lines.append(f"| {names} | {text} |")
    return "\n".join(lines)


# ---- as a manual page ----


def roff(text: str) -> str:
    """Options and what stands in backquotes are bold."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"`(.*?)`|(?<![\w-])(--?[a-z][\w-]*)", r"\\fB\1\2\\fR", text)
    text = re.sub(r"(?<![a-z])-|(?<=[a-z])-(?=[\w-]*\\fR)", r"\\-", text)
    return "\\&" + text if text.startswith((".", "'")) else text


def man_options(options: list[Option]) -> str:
    lines = []
    group = options[0].group
    if any(o.group != group for o in options):
        group = ""  # each group gets its heading
    for o in options:
        if o.group != group:
            lines.append(f".SS {o.group}")
            group = o.group
        names = roff((f"-{o.letter}, " if o.letter else "") + f"--{o.name}")
        lines += [".TP", f"{names} \\fI{o.value}\\fR" if o.value else names, roff(o.text)]
    return "\n".join(lines)


def man_usage(lines: list[str]) -> str:
    """Words that the caller replaces are italic, all others bold."""
    text = []
    for line in lines:
        line = re.sub(r"[a-z-][\w-]*", lambda word: f"\\fB{word[0]}\\fR", line)
        line = re.sub(r"\b[A-Z]+\b(?!\\)", lambda word: f"\\fI{word[0]}\\fR", line)
        text.append(line.replace("-", "\\-"))
    return "\n.br\n".join(text)


# ---- pages ----


class Programs:
    """The help texts of the programs in a build folder."""

    def __init__(self, build: Path) -> None:
        self.folder = build / "src" / "cli"
        self.seen: dict[str, str] = {}

    def text(self, *words: str) -> str:
        command = " ".join(words)
        if command not in self.seen:
            argv = [str(self.folder / words[0]), *words[1:]]
            self.seen[command] = subprocess.check_output(argv, text=True)
        return self.seen[command]

    def help(self, command: str) -> Help:
        return parse(self.text(*command.split(), "--help"))

    def settings(self, command: str) -> list[Option]:
        """`husk down` has the settings and no options of its own."""
        shared = [o for o in self.help("husk down").options if o.name not in ("config", "help")]
        return [o for o in self.help(command).options if o in shared]

    def options(self, command: str) -> list[Option]:
        settings = self.settings(command)
        own = [o for o in self.help(command).options if o not in settings]
        return [replace(o, group="") for o in own] if settings else own

    def usage(self, command: str) -> list[str]:
        text = self.text(*command.split(), "--help")
        commands = re.findall(r"^  ([\w-]+)  +\S", text.partition("\nCommands:\n")[2], re.MULTILINE)
        if not commands:
            return parse(text).usage
        lines = [line for c in commands for line in parse(self.text(command, "help", c)).usage]
        return list(dict.fromkeys(lines))  # some commands share a table


def write(kind: str, name: str, is_man: bool, programs: Programs) -> str:
    if kind == "usage" and is_man:
        return man_usage(programs.usage(name))
    if kind in ("options", "settings"):
        found = programs.options(name) if kind == "options" else programs.settings(name)
        if found:
            return man_options(found) if is_man else markdown_options(found)
    raise PageError(f"nothing to write for {kind}:{name}")


def fill(page: str, is_man: bool, programs: Programs) -> str:
    if page.count(":begin") != len(MARKER.findall(page)):
        raise PageError("a marker has no end")
    return MARKER.sub(
        lambda m: f"{m['begin']}{write(m['kind'], m['name'], is_man, programs)}\n{m['end']}", page
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes options into docs/cli.md and man/.")
    parser.add_argument("build", type=Path, help="build folder that has the programs")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it differs")
    arguments = parser.parse_args()
    programs = Programs(arguments.build)
    stale = 0
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        try:
            new = fill(old, path.suffix != ".md", programs)
        except PageError as error:
            print(f"cliref: {path.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
        if new == old:
            continue
        if arguments.check:
            name = path.relative_to(ROOT)
            print(f"{name} is not current: run tools/cliref.py {arguments.build}", file=sys.stderr)
            stale = 1
        else:
            path.write_text(new, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
