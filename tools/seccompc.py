#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles system-call policies (profiles/NAME.seccomp) to classic BPF, as C source.

Grammar: docs/seccomp.md. Reading a policy is seccomp_policy.py's work; this file turns one into
instructions and writes them out. A mistake in a policy ends the build, nothing is guessed.

    seccompc.py --programs default strict debug --own daemon
                                                   C source: seccomp_programs[], seccomp_daemon
    seccompc.py --expect default                   "nr name action" for every call number
    seccompc.py --expect-header default strict     the same as C tables, for the tests
"""
from __future__ import annotations

import argparse
import errno
import hashlib
import shlex
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from seccomp_policy import ALLOW, AUDIT_ARCH, Condition, Decision, Policy, PolicyError, target_read

KILL_PROCESS = 0x80000000  # <linux/seccomp.h>

# Instructions of classic BPF (<linux/bpf_common.h>). All work on the accumulator and a constant.
LD, AND, JA, JEQ, JGE, JSET, RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
JUMP_MAX = 255  # conditional jumps have 8-bit distances
PROGRAM_MAX = 4096  # BPF_MAXINSNS

# struct seccomp_data: nr, arch, instruction pointer, six 64-bit arguments. Both targets are
# little-endian, so an argument's low half comes first.
OFFSET_NR, OFFSET_ARCH, OFFSET_ARGS = 0, 4, 16

X32_BIT = 0x40000000
NR_NONE = 0xFFFFFFFF  # what a tracer writes to cancel a call; has the x32 bit set but is no call
NR_TABLE = 512  # how far expectation tables go: well past the newest call

Insn = tuple[int, int, int, int]  # code, jt, jf, k
Outcome = int | Decision  # what a filter returns, or rules that find it out


class Program:
    """Instructions, written from the last to the first: every target is there before its jump.

    A label is the number of instructions from the labelled one to the end. Equal returns are
    shared: the time to install a filter grows with its length.
    """

    def __init__(self) -> None:
        self.backwards: list[Insn] = []
        self.outcomes: dict[Outcome, int] = {}

    def add(self, insn: Insn) -> int:
        self.backwards.append(insn)
        return len(self.backwards)

    def distance(self, label: int) -> int:
        return len(self.backwards) - label

    def near(self, label: int) -> int:
        """A label that leads there and that the next two conditional jumps can reach."""
        if self.distance(label) < JUMP_MAX:
            return label
        return self.add((JA, 0, 0, self.distance(label)))

    def jump(self, code: int, k: int, yes: int, no: int) -> int:
        yes = self.near(yes)
        no = self.near(no)
        return self.add((code, self.distance(yes), self.distance(no), k))

    def step(self, code: int, k: int, then: int) -> int:
        """An instruction that does not jump, so what comes then must follow it."""
        if self.distance(then) != 0:
            self.add((JA, 0, 0, self.distance(then)))
        return self.add((code, 0, 0, k))

    def outcome(self, outcome: Outcome) -> int:
        if outcome not in self.outcomes:
            if isinstance(outcome, Decision):
                self.outcomes[outcome] = self.rules(outcome)
            else:
                self.outcomes[outcome] = self.add((RET, 0, 0, outcome))
        return self.outcomes[outcome]

    def rules(self, decision: Decision) -> int:
        label = 0
        for rule in reversed(decision.rules):
            next_rule = label  # the last rule has no conditions, so it goes to no next one
            label = self.outcome(rule.action)
            for cond in reversed(rule.conditions):
                label = self.condition(cond, label, next_rule)
        return label

    def condition(self, cond: Condition, holds: int, fails: int) -> int:
        found, label = (fails, holds) if cond.negated else (holds, fails)
        for value in reversed(cond.values):
            label = self.jump(JEQ, value, found, label)
        if cond.mask != 0xFFFFFFFF:
            label = self.step(AND, cond.mask, label)
        return self.step(LD, OFFSET_ARGS + 8 * cond.arg, label)

    def tree(self, ranges: list[Range]) -> int:
        """Binary search for the range that holds the number."""
        if len(ranges) > 1:
            middle = len(ranges) // 2
            high = self.tree(ranges[middle:])
            low = self.tree(ranges[:middle])
            return self.jump(JGE, ranges[middle].first, high, low)
        label = self.outcome(ranges[0].outcome)
        if ranges[0].exception is not None:
            number, outcome = ranges[0].exception
            label = self.jump(JEQ, number, self.outcome(outcome), label)
        return label


@dataclass
class Range:
    """Numbers from `first` up to the next range: all with the same outcome, except perhaps one."""

    first: int
    outcome: Outcome
    exception: tuple[int, Outcome] | None = None


@dataclass
class Part:
    """A whole policy, or the half of it that is loaded before or after the set-up of a box."""

    calls: dict[int, Decision]
    default: int


def part_of(policy: Policy, which: str) -> Part:
    """Early: the set-up's calls are allowed. Late: all others are. Both together are the whole."""
    calls = policy.by_number()
    if which == "whole":
        return Part(calls, policy.default_action())
    setup = {policy.numbers[call]: policy.setup_decision(call) for call in policy.setup}
    if which == "early":
        return Part(calls | setup, policy.default_action())
    default = Decision(policy.name, policy.default_action())
    return Part({nr: calls.get(nr, default) for nr in setup}, ALLOW)


def ranges_of(part: Part) -> list[Range]:
    plain: list[Range] = []
    for nr in range(max(part.calls, default=0) + 2):
        decision = part.calls.get(nr)
        outcome: Outcome = part.default
        if decision is not None:
            outcome = decision if decision.action is None else decision.action
        if not plain or plain[-1].outcome != outcome:
            plain.append(Range(nr, outcome))

    # A lone number within a range takes one test, where three ranges would take two.
    folded: list[Range] = []
    while plain:
        first = plain.pop(0)
        if len(plain) >= 2 and plain[1] == Range(plain[0].first + 1, first.outcome):
            first.exception = (plain[0].first, plain[0].outcome)
            del plain[:2]
        folded.append(first)
    return folded


def compile_policy(policy: Policy, which: str = "whole") -> list[Insn]:
    program = Program()
    part = part_of(policy, which)
    ranges = ranges_of(part)
    kill = program.outcome(KILL_PROCESS)
    for decision in part.calls.values():
        program.outcome(decision if decision.action is None else decision.action)

    label = program.tree(ranges)
    if policy.target.arch == "x86_64":
        default = program.outcome(part.default)
        x32 = program.jump(JEQ, NR_NONE, default, kill)
        label = program.jump(JSET, X32_BIT, x32, label)
    label = program.step(LD, OFFSET_NR, label)
    label = program.jump(JEQ, AUDIT_ARCH[policy.target.arch], label, kill)
    program.step(LD, OFFSET_ARCH, label)

    code = program.backwards[::-1]
    if len(code) > PROGRAM_MAX:
        raise PolicyError(
            f"{policy.name}: {len(code)} instructions, the kernel takes {PROGRAM_MAX}"
        )
    return code


def digest(code: list[Insn]) -> str:
    raw = b"".join(struct.pack("<HBBI", *insn) for insn in code)
    return hashlib.sha256(raw).hexdigest()[:16]


def programs_source(policies: list[Policy], own: list[Policy]) -> str:
    """Those of boxes in a table, which launcher frames index; our own ones by name, out of their
    reach.
    """
    out = [
        "/* Made by tools/seccompc.py from profiles/; do not edit. */",
        '#include "box/seccomp.h"',
        "",
    ]
    table = []
    for policy in policies + own:
        names = []
        for which in ("whole", "early", "late"):
            code = compile_policy(policy, which)
            name = f"{policy.name}_{which}"
            out.append(f"static const struct sock_filter {name}[] = {{")
            out += [f"    {{0x{c:02x}, {jt}, {jf}, 0x{k:08x}}}," for c, jt, jf, k in code]
            out += ["};", ""]
            names.append(f"{{{name}, {len(code)}}}")
        whole = digest(compile_policy(policy))
        table.append(f'{{"{policy.name}", "{whole}", {", ".join(names)}}}')
    n = len(policies)
    rows = [f"    {row}," for row in table[:n]]
    out += ["const struct seccomp_program seccomp_programs[] = {", *rows, "};"]
    for policy, row in zip(own, table[n:]):
        out.append(f"const struct seccomp_program seccomp_{policy.name} = {row};")
    out.append(f"const size_t seccomp_programs_n = {len(policies)};")
    return "\n".join(out) + "\n"


def expectations(policy: Policy) -> list[tuple[int, str, str]]:
    """(number, name, action) for every number; action is allow, rule or an errno name."""
    names = {number: name for name, number in policy.numbers.items()}
    calls = policy.by_number()
    rows = []
    for nr in range(NR_TABLE):
        decision = calls.get(nr, Decision(policy.name, policy.default_action()))
        action = "rule"
        if decision.action is not None:
            action = (
                "allow" if decision.action == ALLOW else errno.errorcode[decision.action & 0xFFFF]
            )
        rows.append((nr, names.get(nr, "-"), action))
    return rows


def expect_header(policies: list[Policy]) -> str:
    out = ["/* Made by tools/seccompc.py from profiles/; do not edit. */", "#pragma once", ""]
    out += ["#include <errno.h>", "", "#define EXPECT_ALLOW 0", "#define EXPECT_RULE (-1)", ""]
    out += ["/* Indexed by call number; action is one of the above or the errno of the refusal. */"]
    out += ["struct seccomp_expect {", "    const char *name;", "    int action;", "};", ""]
    words = {"allow": "EXPECT_ALLOW", "rule": "EXPECT_RULE"}
    for policy in policies:
        out.append(f"static const struct seccomp_expect expect_{policy.name}[{NR_TABLE}] = {{")
        out += [
            f'    {{"{name}", {words.get(a, a)}}}, /* {nr} */'
            for nr, name, a in expectations(policy)
        ]
        out += ["};", ""]
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description="compile system-call policies")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--programs", action="store_true", help="C source of the filters")
    what.add_argument("--expect", action="store_true", help='lines "nr name action"')
    what.add_argument("--expect-header", action="store_true", help="expectations as C tables")
    parser.add_argument("--cc", default="cc", help="C compiler of the target, with its options")
    parser.add_argument("--profiles", type=Path, default=Path(__file__).parent.parent / "profiles")
    parser.add_argument("-o", "--output", type=Path, help="file to write; default: standard output")
    parser.add_argument(
        "--own", action="append", default=[], metavar="PROFILE", help="not for boxes"
    )
    parser.add_argument("names", nargs="+", metavar="PROFILE")
    args = parser.parse_args()

    try:
        target = target_read(shlex.split(args.cc))
        policies = [Policy(args.profiles, name, target) for name in args.names]
        if args.programs:
            text = programs_source(policies, [Policy(args.profiles, n, target) for n in args.own])
        elif args.expect_header:
            text = expect_header(policies)
        else:
            text = "".join(
                f"{nr} {name} {a}\n" for p in policies for nr, name, a in expectations(p)
            )
    except PolicyError as e:
        print(e, file=sys.stderr)
        return 1
    if args.output is None:
        sys.stdout.write(text)
    else:
        args.output.write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
