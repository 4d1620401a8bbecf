# SPDX-License-Identifier: Apache-2.0
"""Reads system-call policies: profiles/NAME.seccomp with everything it includes.

A mistake raises PolicyError, which names file and line. Knows nothing of BPF; see seccompc.py.
"""
from __future__ import annotations

import errno
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# What a filter returns (<linux/seccomp.h>). ERRNO carries the errno in its low 16 bits.
ALLOW = 0x7FFF0000
ERRNO = 0x00050000

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # <linux/audit.h>
NOT_CALLS = ("__NR_syscalls", "__NR_arch_specific_syscall")  # limits in <asm-generic/unistd.h>


class PolicyError(Exception):
    """A mistake in a policy; the message starts with file:line."""


@dataclass
class Condition:
    arg: int
    mask: int
    values: list[int]
    negated: bool  # holds when the masked argument is none of the values

    def holds(self, args: list[int]) -> bool:
        return ((args[self.arg] & self.mask) in self.values) != self.negated


@dataclass
class Rule:
    conditions: list[Condition]  # all must hold; empty means "else"
    action: int
    where: str


@dataclass(eq=False)
class Decision:
    """What happens to one call: an action, or rules of which the first that holds gives it."""

    file: str
    action: int | None = None
    rules: list[Rule] = field(default_factory=list)

    def decide(self, args: list[int]) -> int:
        if self.action is not None:
            return self.action
        return next(r.action for r in self.rules if all(c.holds(args) for c in r.conditions))


@dataclass
class Target:
    arch: str
    numbers: dict[str, int]


def target_read(cc: list[str]) -> Target:
    """Asks the C compiler which architecture it builds for and which call numbers that has."""
    command = [*cc, "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"seccompc: {shlex.join(command)} failed:\n{done.stderr}")
    macros = dict(re.findall(r"^#define (\w+) (\S+)$", done.stdout, re.MULTILINE))
    arch = next((a for a in AUDIT_ARCH if f"__{a}__" in macros), None)
    if arch is None or "__ILP32__" in macros or "__AARCH64EB__" in macros:
        raise SystemExit(
            "seccompc: the compiler's target is neither x86_64 nor little-endian aarch64"
        )

    numbers = {}
    for macro, value in macros.items():
        if not macro.startswith("__NR_") or macro in NOT_CALLS:
            continue
        while value in macros:  # the generic table has __NR_lseek as __NR3264_lseek
            value = macros[value]
        numbers[macro.removeprefix("__NR_")] = int(value, 0)
    return Target(arch, numbers)


class Policy:
    """One profile: read with everything it includes, checked, ready to be compiled."""

    def __init__(self, folder: Path, name: str, target: Target) -> None:
        self.folder = folder
        self.name = name
        self.target = target
        self.numbers = dict(target.numbers)
        self.constants: dict[str, int] = {}
        self.default: int | None = None
        self.calls: dict[str, Decision] = {}
        # Calls that the set-up of a box makes, and a box may not: with any arguments (no rules),
        # or with those of the rules.
        self.setup: dict[str, list[Rule]] = {}
        self.files: list[str] = []
        self.file, self.where = name, name
        self.read(name)
        self.check()

    def fail(self, text: str) -> PolicyError:
        return PolicyError(f"{self.where}: {text}")

    def read(self, name: str) -> None:
        path = self.folder / f"{name}.seccomp"
        if name in self.files:
            raise self.fail(f"'{name}' is included twice")
        if not path.is_file():
            raise self.fail(f"there is no policy file {path}")
        outer = self.file, self.where
        self.files.append(name)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            self.file, self.where = name, f"{path}:{number}"
            if line.strip() and not line.lstrip().startswith("#"):
                self.read_line(line)
        self.file, self.where = outer

    def read_line(self, line: str) -> None:
        statement, _, reason = line.partition("#")
        if not reason.strip():
            raise self.fail("the line gives no reason (text after '#')")
        words = statement.split()
        if len(words) > 1 and words[0] == "on":
            if words[1] not in AUDIT_ARCH:
                raise self.fail(f"unknown architecture '{words[1]}'")
            if words[1] != self.target.arch:
                return
            words = words[2:]
        override = words[:1] == ["override"]
        words = words[1:] if override else words
        keyword = words[0] if words else ""
        if override and keyword not in ("allow", "deny", "rule"):
            raise self.fail("'override' goes before allow, deny or rule")

        handlers = {
            "include": self.read_include,
            "default": self.read_default,
            "number": self.read_number,
            "define": self.read_define,
            "setup": self.read_setup,
        }
        if keyword in handlers:
            handlers[keyword](words[1:])
        elif keyword == "allow":
            self.set_action(words[1:], ALLOW, override)
        elif keyword == "deny":
            self.set_action(
                words[2:], self.errno_value(words[1] if len(words) > 1 else ""), override
            )
        elif keyword == "rule":
            self.read_rule(" ".join(words[1:]), override)
        else:
            raise self.fail(f"unknown statement '{keyword}'")

    def read_include(self, words: list[str]) -> None:
        if len(words) != 1:
            raise self.fail("include takes one policy name")
        self.read(words[0])

    def read_default(self, words: list[str]) -> None:
        if len(words) != 1 or self.default is not None:
            raise self.fail("default takes one errno and is said once")
        self.default = self.errno_value(words[0])

    def pairs(self, words: list[str]) -> list[tuple[str, int]]:
        if not words or len(words) % 2 != 0:
            raise self.fail("expected pairs of name and value")
        return [(name, self.value(text)) for name, text in zip(words[::2], words[1::2])]

    def read_number(self, words: list[str]) -> None:
        for name, value in self.pairs(words):
            known = self.numbers.get(name, value)
            if known != value:
                raise self.fail(f"{name} is {known} in the compiler's headers, not {value}")
            taken = next((n for n, v in self.numbers.items() if v == value and n != name), None)
            if taken is not None:
                raise self.fail(f"{value} is already the number of {taken}")
            self.numbers[name] = value

    def read_define(self, words: list[str]) -> None:
        for name, value in self.pairs(words):
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name in self.constants:
                raise self.fail(f"'{name}' is no new constant name")
            self.constants[name] = value

    def read_setup(self, words: list[str]) -> None:
        if words[:1] == ["rule"]:
            call, rule = self.parse_rule(" ".join(words[1:]))
            if rule.action != ALLOW or not rule.conditions:
                raise self.fail("a rule of the set-up allows a call under a condition")
            if self.setup.get(call) == []:
                raise self.fail(f"'{call}' is allowed with any arguments before")
            self.setup.setdefault(call, []).append(rule)
            return
        for call in words:
            if call in self.setup:
                raise self.fail(f"'{call}' is named before")
            self.setup[self.known(call)] = []

    def known(self, call: str) -> str:
        if call not in self.numbers:
            raise self.fail(f"unknown call '{call}' on {self.target.arch}")
        return call

    def setup_decision(self, call: str) -> Decision:
        """What the early half decides: the set-up's arguments pass, others are the policy's."""
        if not self.setup[call]:
            return Decision(self.name, ALLOW)
        own = self.calls.get(call, Decision(self.name, self.default_action()))
        rest = own.rules if own.action is None else [Rule([], own.action, self.where)]
        return Decision(self.name, None, self.setup[call] + rest)

    def value(self, text: str) -> int:
        """A number or a constant. 32 bits: the kernel reads no more of the arguments we compare."""
        if text in self.constants:
            return self.constants[text]
        if not re.fullmatch(r"0x[0-9a-f]{1,8}|0|[1-9][0-9]{0,8}", text):
            raise self.fail(f"'{text}' is neither a constant nor a 32-bit number")
        return int(text, 0)

    def errno_value(self, name: str) -> int:
        value = getattr(errno, name, None) if re.fullmatch(r"E[A-Z0-9]+", name) else None
        if value is None:
            raise self.fail(f"'{name}' is no errno")
        return ERRNO | int(value)

    def action(self, text: str) -> int:
        return ALLOW if text == "allow" else self.errno_value(text)

    def claim(self, call: str, override: bool) -> Decision | None:
        """Checks that this line may decide the call. Returns what this file decided before."""
        before = self.calls.get(self.known(call))
        inherited = before is not None and before.file != self.file
        if override != inherited:
            raise self.fail(
                f"'{call}' has no inherited decision to override"
                if override
                else f"'{call}' is decided in {before.file if before else ''}; say 'override'"
            )
        return None if inherited else before

    def set_action(self, calls: list[str], action: int, override: bool) -> None:
        if not calls:
            raise self.fail("no call named")
        for call in calls:
            if self.claim(call, override) is not None:
                raise self.fail(f"duplicate call '{call}'")
            self.calls[call] = Decision(self.file, action)

    def parse_rule(self, text: str) -> tuple[str, Rule]:
        match = re.fullmatch(r"(\w+): (.+) -> (\w+)", text)
        if match is None:
            raise self.fail("expected 'rule CALL: CONDITION [and CONDITION]... -> ACTION'")
        conditions = []
        if match[2] != "else":
            conditions = [self.condition(part) for part in match[2].split(" and ")]
        return self.known(match[1]), Rule(conditions, self.action(match[3]), self.where)

    def read_rule(self, text: str, override: bool) -> None:
        call, rule = self.parse_rule(text)
        decision = self.claim(call, override) or Decision(self.file)
        if decision.action is not None:
            raise self.fail(f"duplicate call '{call}'")
        if decision.rules and not decision.rules[-1].conditions:
            raise self.fail(f"'{call}' already has its else: this rule is never reached")
        decision.rules.append(rule)
        self.calls[call] = decision

    def condition(self, text: str) -> Condition:
        match = re.fullmatch(r"arg([0-5])(?: & (\w+))? (==|!=|in|not in) ([\w ]+)", text)
        if match is None:
            raise self.fail(f"'{text}' is no condition: argN [& MASK] ==, !=, in, not in VALUE...")
        mask = self.value(match[2]) if match[2] else 0xFFFFFFFF
        values = [self.value(word) for word in match[4].split()]
        if len(values) != 1 and match[3] in ("==", "!="):
            raise self.fail(f"'{match[3]}' takes one value")
        if any(value & ~mask for value in values):
            raise self.fail("a value has bits outside the mask: never equal")
        return Condition(int(match[1]), mask, values, match[3] in ("!=", "not in"))

    def check(self) -> None:
        self.where = str(self.folder / f"{self.name}.seccomp")
        if self.default is None:
            raise self.fail("no 'default' line")
        for call, decision in self.calls.items():
            if decision.rules and decision.rules[-1].conditions:
                raise PolicyError(f"{decision.rules[-1].where}: the rules of '{call}' have no else")
        if len(self.by_number()) != len(self.calls):
            raise self.fail("two of the calls have the same number")

    def default_action(self) -> int:
        assert self.default is not None  # check() has seen to it
        return self.default

    def by_number(self) -> dict[int, Decision]:
        return {self.numbers[call]: decision for call, decision in self.calls.items()}
