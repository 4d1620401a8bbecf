# SPDX-License-Identifier: Apache-2.0
"""The policy compiler: its programs decide as the policy reads, its complaints name the line.

Programs run here in a small interpreter, so that aarch64 is covered on any machine.
test_seccomp.c does the same in the kernel, for the machine it runs on.
"""
from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import seccompc  # noqa: E402
from seccomp_policy import (
    ALLOW,
    AUDIT_ARCH,
    ERRNO,
    Policy,
    PolicyError,
    Target,
    target_read,
)  # noqa: E402

PROFILES = ["default", "strict", "debug", "daemon"]
ENOSYS = ERRNO | 38
EPERM = ERRNO | 1

# What the kernel's arch/arm64 has as <asm/unistd.h>: the generic table with these extras.
ARM64_UNISTD = """
#define __BITS_PER_LONG 64
#define __ARCH_WANT_RENAMEAT
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SET_GET_RLIMIT
#define __ARCH_WANT_TIME32_SYSCALLS
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_MEMFD_SECRET
#include <asm-generic/unistd.h>
"""


@pytest.fixture(scope="module", params=["host", "aarch64"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Target:
    if request.param == "host":
        return target_read(["cc"])
    headers = tmp_path_factory.mktemp("arm64")
    (headers / "asm").mkdir()
    (headers / "asm" / "unistd.h").write_text(ARM64_UNISTD)
    (headers / "asm" / "bitsperlong.h").write_text("")
    pretend = ["-U__x86_64__", "-D__aarch64__", "-D__AARCH64EL__"]
    return target_read(["cc", f"-I{headers}", *pretend])


def run(code: list[seccompc.Insn], nr: int, arch: int, args: list[int]) -> int:
    """Interprets the instructions that the compiler uses. Every jump goes forward, so it ends."""
    words = {0: nr, 4: arch}
    for i, arg in enumerate(args):
        words[16 + 8 * i] = arg & 0xFFFFFFFF
        words[20 + 8 * i] = arg >> 32
    a, pc = 0, 0
    while True:
        op, jt, jf, k = code[pc]
        pc += 1
        if op == seccompc.RET:
            return k
        if op == seccompc.LD:
            a = words[k]
        elif op == seccompc.AND:
            a &= k
        elif op == seccompc.JA:
            pc += k
        else:
            tests = {seccompc.JEQ: a == k, seccompc.JGE: a >= k, seccompc.JSET: a & k != 0}
            assert 0 <= jt <= 255 and 0 <= jf <= 255
            pc += jt if tests[op] else jf


def compile_text(tmp_path: Path, text: str, target: Target) -> Policy:
    (tmp_path / "p.seccomp").write_text(text)
    return Policy(tmp_path, "p", target)


def interesting_args(policy: Policy) -> list[list[int]]:
    """Every value a rule compares with, its neighbours, and each with rubbish in its upper half."""
    rules = [r for d in policy.calls.values() for r in d.rules]
    rules += [r for setup in policy.setup.values() for r in setup]
    values = {v for r in rules for c in r.conditions for v in c.values} | {0}
    near = sorted({(v + d) & 0xFFFFFFFF for v, d in itertools.product(values, (-1, 0, 1))})
    single = [[v | high] * 6 for v in near for high in (0, 0xABCD << 32)]
    sockets = [[f, t, p, 0, 0, 0] for f in (1, 2, 10, 16, 38) for t in range(12) for p in near]
    return single + sockets


@pytest.mark.parametrize("name", PROFILES)
def test_program_decides_as_the_policy_reads(name: str, target: Target) -> None:
    policy = Policy(ROOT / "profiles", name, target)
    code = seccompc.compile_policy(policy)
    arch = AUDIT_ARCH[target.arch]
    calls = policy.by_number()
    for nr in [*range(600), 0x3FFFFFFF, 0x80000000]:
        decision = calls.get(nr)
        if decision is None or decision.action is not None:
            want = policy.default_action() if decision is None else decision.action
            assert run(code, nr, arch, [0] * 6) == want, nr
            continue
        for args in interesting_args(policy):
            low = [arg & 0xFFFFFFFF for arg in args]
            assert run(code, nr, arch, args) == decision.decide(low), (nr, args)


@pytest.mark.parametrize("name", PROFILES)
def test_other_entry_points_are_killed(name: str, target: Target) -> None:
    code = seccompc.compile_policy(Policy(ROOT / "profiles", name, target))
    i386, arm = 0x40000003, 0x40000028
    others = {i386, arm, *AUDIT_ARCH.values()} - {AUDIT_ARCH[target.arch]}
    for arch, nr in itertools.product(others, range(600)):
        assert run(code, nr, arch, [0] * 6) == seccompc.KILL_PROCESS
    x32 = seccompc.KILL_PROCESS if target.arch == "x86_64" else ENOSYS
    for nr in range(600):
        assert run(code, seccompc.X32_BIT | nr, AUDIT_ARCH[target.arch], [0] * 6) == x32
    assert run(code, 0xFFFFFFFF, AUDIT_ARCH[target.arch], [0] * 6) == ENOSYS


def signed(action: int) -> int:
    """Of two filters the kernel obeys the one whose answer is lower, read as a signed number."""
    return action - (1 << 32) if action & 0x80000000 else action


@pytest.mark.parametrize("name", PROFILES)
def test_the_two_halves_are_the_whole(name: str, target: Target) -> None:
    policy = Policy(ROOT / "profiles", name, target)
    whole = seccompc.compile_policy(policy)
    halves = [seccompc.compile_policy(policy, which) for which in ("early", "late")]
    calls = {nr: d for nr, d in policy.by_number().items() if d.action is None}
    rules = {policy.numbers[call]: rules for call, rules in policy.setup.items() if rules}
    arch = AUDIT_ARCH[target.arch]
    numbers = [*range(600), 0x3FFFFFFF, 0x80000000, seccompc.X32_BIT | 1, 0xFFFFFFFF]
    for nr, machine in itertools.product(numbers, (arch, 0x40000003)):
        ruled = nr in calls | rules and machine == arch
        for args in interesting_args(policy) if ruled else [[0] * 6]:
            answers = [run(code, nr, machine, args) for code in halves]
            assert min(answers, key=signed) == run(whole, nr, machine, args), (nr, args)
    plain = {policy.numbers[call] for call in policy.setup} - set(rules)
    assert plain and all(run(halves[0], nr, arch, [0] * 6) == ALLOW for nr in plain)


@pytest.mark.parametrize("name", PROFILES)
def test_the_early_half_adds_the_arguments_of_the_set_up_and_no_others(
    name: str, target: Target
) -> None:
    policy = Policy(ROOT / "profiles", name, target)
    whole, early = (seccompc.compile_policy(policy, which) for which in ("whole", "early"))
    arch = AUDIT_ARCH[target.arch]
    added = 0
    for call, rules in policy.setup.items():
        for args in interesting_args(policy) if rules else []:
            fits = any(all(c.holds(args) for c in rule.conditions) for rule in rules)
            want = ALLOW if fits else run(whole, policy.numbers[call], arch, args)
            assert run(early, policy.numbers[call], arch, args) == want, (call, args)
            added += want != run(whole, policy.numbers[call], arch, args)
    assert added > 0


WRONG_SETUP = [
    ("setup rule mount: else -> allow # x", "under a condition"),
    ("setup rule mount: arg0 == 1 -> EPERM # x", "under a condition"),
    ("setup mount # x\nsetup rule mount: arg0 == 1 -> allow # x", "any arguments"),
    ("setup mount mount # x", "named before"),
    ("setup rule nosuch: arg0 == 1 -> allow # x", "unknown call"),
]


@pytest.mark.parametrize("text,word", WRONG_SETUP)
def test_wrong_lines_about_the_set_up(text: str, word: str, tmp_path: Path, target: Target) -> None:
    with pytest.raises(PolicyError, match=word):
        compile_text(tmp_path, "default ENOSYS # the rest\n" + text, target)


def test_a_program_too_wide_for_short_jumps_still_decides_right(tmp_path: Path) -> None:
    target = Target("aarch64", {f"call{nr}": nr for nr in range(0, 1400, 2)})
    lines = [f"allow {name} # odd ones out" for name in target.numbers]
    policy = compile_text(tmp_path, "default ENOSYS # the rest\n" + "\n".join(lines), target)
    code = seccompc.compile_policy(policy)
    for nr in range(1500):
        want = ALLOW if nr % 2 == 0 and nr < 1400 else ENOSYS
        assert run(code, nr, AUDIT_ARCH["aarch64"], [0] * 6) == want


def test_numbers_and_names_of_the_two_architectures(target: Target) -> None:
    known = {"x86_64": (0, 16, 257, 56), "aarch64": (63, 29, 56, 220)}[target.arch]
    assert tuple(target.numbers[n] for n in ("read", "ioctl", "openat", "clone")) == known
    assert "syscalls" not in target.numbers
    policy = Policy(ROOT / "profiles", "default", target)
    assert policy.numbers["mseal"] == 462
    assert ("open" in policy.calls) == (target.arch == "x86_64")


def test_derived_policy_overrides_and_keeps_the_rest(tmp_path: Path, target: Target) -> None:
    (tmp_path / "base.seccomp").write_text(
        "default ENOSYS # d\nallow read write # io\nrule ioctl: arg1 == 5 -> EPERM # no\n"
        "rule ioctl: else -> allow # yes\n"
    )
    policy = compile_text(
        tmp_path,
        "include base # all\noverride deny EPERM read # no\n"
        "override rule ioctl: arg1 & 0xff in 1 2 -> allow # some\nrule ioctl: else -> EPERM # no\n",
        target,
    )
    assert policy.calls["read"].action == EPERM
    assert policy.calls["write"].action == ALLOW
    ioctl = policy.calls["ioctl"]
    decided = [ioctl.decide([0, request, 0, 0, 0, 0]) for request in (0x101, 2, 5, 0)]
    assert decided == [ALLOW, ALLOW, EPERM, EPERM]


GOOD = "default ENOSYS # fine\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("allow read # fine\n", "p.seccomp: no 'default' line"),
        ("default ENOSYS # a\ndefault EPERM # b\n", "p.seccomp:2: default takes one errno"),
        ("default allow # a\n", "p.seccomp:1: 'allow' is no errno"),
        (GOOD + "allow read\n", "p.seccomp:2: the line gives no reason"),
        (GOOD + "allow read #  \n", "p.seccomp:2: the line gives no reason"),
        (GOOD + "allow # nothing\n", "p.seccomp:2: no call named"),
        (GOOD + "allow reed # typo\n", "p.seccomp:2: unknown call 'reed'"),
        (GOOD + "allow read # a\n\nallow write read # b\n", "p.seccomp:4: duplicate call 'read'"),
        (GOOD + "allow read read # b\n", "p.seccomp:2: duplicate call 'read'"),
        (GOOD + "allow read # a\nrule read: else -> allow # b\n", "p.seccomp:3: duplicate call"),
        (GOOD + "deny EWRONG read # a\n", "p.seccomp:2: 'EWRONG' is no errno"),
        (GOOD + "deny read # a\n", "p.seccomp:2: 'read' is no errno"),
        (GOOD + "permit read # a\n", "p.seccomp:2: unknown statement 'permit'"),
        (GOOD + "on mips allow read # a\n", "p.seccomp:2: unknown architecture 'mips'"),
        (GOOD + "override allow read # a\n", "p.seccomp:2: 'read' has no inherited decision"),
        (GOOD + "override include x # a\n", "p.seccomp:2: 'override' goes before"),
        (GOOD + "include nothing # a\n", "p.seccomp:2: there is no policy file"),
        (GOOD + "include p # a\n", "p.seccomp:2: 'p' is included twice"),
        (GOOD + "number read 462 # a\n", "p.seccomp:2: read is "),
        (GOOD + "number mseal 2 mseel 2 # a\n", "p.seccomp:2: 2 is already the number of "),
        (GOOD + "number mseal # a\n", "p.seccomp:2: expected pairs"),
        (GOOD + "define X 1 X 2 # a\n", "p.seccomp:2: 'X' is no new constant"),
        (GOOD + "define X 0x1ffffffff # a\n", "p.seccomp:2: '0x1ffffffff' is neither"),
        (GOOD + "rule ioctl arg1 == 1 -> allow # a\n", "p.seccomp:2: expected 'rule CALL:"),
        (
            GOOD + "rule ioctl: arg1 == 1 -> allow # a\n",
            "p.seccomp:2: the rules of 'ioctl' have no",
        ),
        (GOOD + "rule ioctl: arg6 == 1 -> allow # a\n", "p.seccomp:2: 'arg6 == 1' is no condition"),
        (GOOD + "rule ioctl: arg1 < 1 -> allow # a\n", "p.seccomp:2: 'arg1 < 1' is no condition"),
        (GOOD + "rule ioctl: arg1 == 1 2 -> allow # a\n", "p.seccomp:2: '==' takes one value"),
        (GOOD + "rule ioctl: arg1 == NAME -> allow # a\n", "p.seccomp:2: 'NAME' is neither"),
        (GOOD + "rule ioctl: arg1 & 0xf == 16 -> allow # a\n", "p.seccomp:2: a value has bits"),
        (GOOD + "rule ioctl: else -> maybe # a\n", "p.seccomp:2: 'maybe' is no errno"),
        (
            GOOD + "rule ioctl: else -> allow # a\nrule ioctl: arg1 == 1 -> EPERM # b\n",
            "p.seccomp:3: 'ioctl' already has its else",
        ),
    ],
)
def test_mistakes_name_file_and_line(
    text: str, complaint: str, tmp_path: Path, target: Target
) -> None:
    with pytest.raises(PolicyError) as caught:
        compile_text(tmp_path, text, target)
    assert str(caught.value).startswith(f"{tmp_path}/{complaint}")


def test_silent_override_is_refused(tmp_path: Path, target: Target) -> None:
    (tmp_path / "base.seccomp").write_text("default ENOSYS # d\ndeny EPERM read # no\n")
    with pytest.raises(PolicyError, match="p.seccomp:2: 'read' is decided in base; say 'override'"):
        compile_text(tmp_path, "include base # all\nallow read # quietly\n", target)


def test_a_rule_too_long_for_short_jumps_still_decides_right(
    tmp_path: Path, target: Target
) -> None:
    values = " ".join(str(v) for v in range(0, 1200, 2))
    text = GOOD + f"rule ioctl: arg1 in {values} -> allow # a\nrule ioctl: else -> EPERM # b\n"
    code = seccompc.compile_policy(compile_text(tmp_path, text, target))
    for request in range(1300):
        want = ALLOW if request % 2 == 0 and request < 1200 else EPERM
        args = [0, request, 0, 0, 0, 0]
        assert run(code, target.numbers["ioctl"], AUDIT_ARCH[target.arch], args) == want


def test_a_program_too_long_for_the_kernel_is_a_mistake(tmp_path: Path, target: Target) -> None:
    values = " ".join(str(v) for v in range(5000))
    text = GOOD + f"rule ioctl: arg1 in {values} -> allow # a\nrule ioctl: else -> EPERM # b\n"
    with pytest.raises(PolicyError, match="p: [0-9]+ instructions, the kernel takes 4096"):
        seccompc.compile_policy(compile_text(tmp_path, text, target))


def test_command_line(tmp_path: Path) -> None:
    tool = [sys.executable, "-B", str(ROOT / "tools" / "seccompc.py")]
    table = subprocess.run(
        [*tool, "--expect", "default"], check=True, capture_output=True, text=True
    )
    rows = [line.split() for line in table.stdout.splitlines()]
    assert [int(row[0]) for row in rows] == list(range(len(rows)))
    actions = {row[1]: row[2] for row in rows}
    wanted = {"read": "allow", "ptrace": "EPERM", "clone3": "ENOSYS", "clone": "rule"}
    assert {name: actions[name] for name in wanted} == wanted

    (tmp_path / "bad.seccomp").write_text("allow read\n")
    bad = [*tool, "--profiles", str(tmp_path), "-o", str(tmp_path / "out.c"), "--programs", "bad"]
    done = subprocess.run(bad, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "bad.seccomp:1: the line gives no reason" in done.stderr
    assert not (tmp_path / "out.c").exists()
