#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/python-api.md from the docstrings of sdk/python: every public name of the packages
husk, rayai and sandbox_runtime.

    build/venv/bin/python tools/pyref.py            writes it
    build/venv/bin/python tools/pyref.py --check    fails if the file differs from that,
                                                    or if a public name has no docstring

It imports the packages, so httpx and cloudpickle must be installed.
"""
from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "python-api.md"
PACKAGES = ["husk", "rayai", "rayai.sandbox", "sandbox_runtime.sdk"]
OURS = {"husk", "rayai", "sandbox_runtime"}
# Classes that users do not import: their objects come from a sandbox, a client or a result.
GIVEN: dict[str, list[str]] = {
    "husk.sandbox": ["Files", "Stream"],
    "husk.sandbox.aio": ["AsyncStream"],
    "husk.results.models": [],  # all
}
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$")
ITEM = re.compile(r"([*\w][\w, ]*): (.*)")

undocumented: list[str] = []


def markdown(text: str) -> str:
    """A docstring as Markdown: items of its sections become lists, all else stays."""
    lines = []
    in_section = is_list = False
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        head = SECTION.match(line)
        item = ITEM.fullmatch(line.strip())
        if head:
            in_section, is_list = True, head.group(1) not in ("Returns", "Yields")
            lines.append(f"*{head.group(1)}*\n")
        elif in_section and not is_list and depth == 4:
            lines.append(line.strip())
        elif in_section and depth == 4:
            lines.append(f"- `{item.group(1)}`: {item.group(2)}" if item else f"- {line.strip()}")
        elif in_section and depth > 4:
            lines.append("  " + line.strip())
        else:
            in_section = in_section and not line.strip()
            lines.append(line)
    return "\n".join(lines).strip()


def described(thing: Any, where: str) -> str:
    """Returns the docstring, which must not be inherited."""
    text = thing.__doc__ if isinstance(thing, type) else inspect.getdoc(thing)
    if not text:
        undocumented.append(where)
        return ""
    return markdown(inspect.cleandoc(text))


def signature(thing: Any) -> str:
    """Returns the signature without self."""
    text = str(inspect.signature(thing))
    text = re.sub(r"^\((self|cls)(: [^,)]*)?(, /)?(, )?", "(", text)
    text = re.sub(r"<(\w+) [^>]* at 0x[0-9a-f]+>", r"<\1>", text)
    return re.sub(r"(: |-> )([\"'])(.*?)\2", r"\1\3", text)  # string annotations


def fields(kind: type) -> str:
    """The keys of a dict type."""
    return "(" + ", ".join(inspect.get_annotations(kind)) + ")"


def is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).split(".")[0] in OURS


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields public methods and properties, including those of our base classes."""
    seen: set[str] = set()
    for base in filter(is_ours, kind.__mro__):
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, (property, cached_property, classmethod, staticmethod)):
                yield name, member
            elif inspect.isfunction(member):
                yield name, member


def member_text(prefix: str, name: str, member: Any) -> str:
    where = f"{prefix}.{name}"
    if isinstance(member, (property, cached_property)):
        getter: Any = member.fget if isinstance(member, property) else member.func
        result = signature(getter).partition(" -> ")[2]
        return entry(f"{where}: {result}", described(getter, where))
    function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    return entry(f"{kind}{where}{signature(function)}", described(function, where))


def entry(head: str, text: str) -> str:
    """An item of a list, with its text indented below."""
    body = "\n".join(f"  {line}" if line else "" for line in text.splitlines())
    return f"- `{head}`\n\n{body}".rstrip()


def name_text(name: str, thing: Any, blocking: type | None, is_given: bool = False) -> str:
    """A public name with all that belongs to it; only what is its own, if there is a blocking class
    with the same methods.
    """
    parts = [f"### {name}"]
    name = name.rpartition(".")[2]
    if isinstance(thing, type):
        arguments = fields(thing) if issubclass(thing, dict) else signature(thing)
        arguments = arguments.partition(" -> ")[0]
        is_made = not getattr(thing, "_is_protocol", False) and not is_given
        shown = is_made or is_dataclass(thing)
        parts.append(f"`class {name}{arguments}`" if shown else f"`class {name}`")
        parts.append(described(thing, name))
        listed = dict(members(thing))
        if is_given:  # users do not construct these
            listed = {n: m for n, m in listed.items() if not isinstance(m, classmethod)}
        if blocking is not None:
            parts.append(
                f"The methods of [`{blocking.__name__}`](#{blocking.__name__.lower()}), to be awaited."
            )
            listed = {n: m for n, m in listed.items() if not hasattr(blocking, n)}
        parts += [member_text(name, member_name, m) for member_name, m in listed.items()]
    else:
        kind = "async " if inspect.iscoroutinefunction(thing) else ""
        parts += [f"`{kind}{name}{signature(thing)}`", described(thing, name)]
    return concrete("\n\n".join(part for part in parts if part), thing)


def concrete(text: str, kind: Any) -> str:
    """The text with the arguments of generic bases in the place of their type variables."""
    for base in getattr(kind, "__orig_bases__", ()):
        for variable, argument in zip(
            getattr(get_origin(base), "__parameters__", ()), get_args(base)
        ):
            text = re.sub(rf"\b{variable.__name__}\b", argument.__name__, text)
    return text


def is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


def package_text(package: ModuleType, known: dict[int, str]) -> str:
    """A package: its public names but for exceptions, which have a table; what `known` has by
    reference.
    """
    parts = [f"## Package `{package.__name__}`", markdown(inspect.getdoc(package) or "")]
    again, constants = [], []
    for name in package.__all__:
        thing = getattr(package, name)
        if name.startswith("__") or is_error(thing) or isinstance(thing, ModuleType):
            continue
        if not callable(thing):
            constants.append(f"`{name}`")
            continue
        if id(thing) in known:
            first = known[id(thing)]
            shown = f"`{name}`" if first == name else f"`{name}` (`{first}`)"
            again.append(f"[{shown}](#{first.lower().replace('.', '')})")
            continue
        heading = name if package.__name__ == "husk" else f"{package.__name__}.{name}"
        known[id(thing)] = heading
        has_twin = name.startswith("Async") and name[5:] in package.__all__
        parts.append(name_text(heading, thing, getattr(package, name[5:]) if has_twin else None))
    if constants:
        parts.append(f"Constants: {', '.join(constants)}.")
    if again:
        parts.append(f"Described above: {', '.join(again)}.")
    return "\n\n".join(parts)


def given_text() -> str:
    """Classes of objects that calls return."""
    parts = ["## What calls return", "Calls of the classes above create these objects."]
    for module_name, names in GIVEN.items():
        module = importlib.import_module(module_name)
        own = [name for name, kind in vars(module).items() if is_dataclass(kind)]
        parts += [name_text(name, getattr(module, name), None, True) for name in names or own]
    return "\n\n".join(parts)


def is_own(kind: type, module: ModuleType) -> bool:
    return kind.__module__ == module.__name__ and not kind.__name__.startswith("_")


def errors_text() -> str:
    """All exceptions in one table."""
    lines = ["## Exceptions", ""]
    for module in map(importlib.import_module, ("husk.errors", "husk.tool_errors")):
        lines += [f"### {module.__name__}", "", described(module, module.__name__), ""]
        lines += ["| exception | derives from | when |", "|---|---|---|"]
        for name, kind in vars(module).items():
            if is_error(kind) and is_own(kind, module):
                bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
                text = described(kind, f"{module.__name__}.{name}").split("\n\n")[0]
                lines.append(f"| `{name}` | {bases} | {' '.join(text.split())} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def document() -> str:
    known: dict[int, str] = {}
    parts = [
        "# Python API",
        "Made by `tools/pyref.py` from the docstrings in `sdk/python`: change those, then run it. The tutorial is\n"
        "[python.md](python.md).",
        *(package_text(importlib.import_module(name), known) for name in PACKAGES),
        given_text(),
        errors_text(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    sys.path.insert(0, str(ROOT / "sdk" / "python"))
    text = document()
    for name in undocumented:
        print(f"pyref.py: {name} has no docstring")
    if sys.argv[1:] != ["--check"]:
        OUT.write_text(text, encoding="utf-8")
    elif not OUT.is_file() or OUT.read_text(encoding="utf-8") != text:
        print(f"{OUT.relative_to(ROOT)} is not what the docstrings say: run tools/pyref.py")
        return 1
    return 1 if undocumented else 0


if __name__ == "__main__":
    sys.exit(main())
