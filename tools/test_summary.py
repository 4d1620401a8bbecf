#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the test suites, two at a time, and ends with "N passed, N failed, N skipped".

    test_summary.py BUILD                    all suites
    test_summary.py BUILD unit box           these
    test_summary.py BUILD --c-only unit      only the C programs of them

A suite is a folder below tests/. Its tests are the C programs that the build registers for it, the
shell scripts *.tap.sh and *_vm.sh in the folder (both speak TAP), and its pytest files, in rooms
below the folder, too. tests/lib is no suite: it holds what C tests share. HUSK_BUILD,
HUSK_BIN_DIR and HUSK_BIN tell tests where the build, its programs and its husk program are. The
breach suite also compiles mutants: copies of the build below it, each with one defence taken away,
in which one test must fail (tests/breach/mutations.py).

With T_MUST_WORK=1 a skip is a failure, unless tests/expected-skips lists it. The C harness applies
that rule itself; here it is applied to shell scripts and pytest.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reachable import make_reachable

ROOT = Path(__file__).resolve().parent.parent
# The suites of a lane run one after the other, the lanes beside each other: tests wait more than
# they compute.
LANES = [["lint", "unit", "corpus", "box", "escape", "breach", "sdk"], ["integration"]]
SUITES = [suite for lane in LANES for suite in lane]
PROGRAM_SECONDS = 600
PYTEST_SECONDS = 2700
DETAIL_LINES = 60  # of one failure
DETAILS_SHOWN = 20  # failures with their output; the rest by name

TAP_POINT = re.compile(r"^(not )?ok\b(?: \d+)?(?: ?-)? ?(.*?)(?: # ?(SKIP)\b ?(.*))?$", re.I)
TAP_PLAN = re.compile(r"^1\.\.(\d+)(?: # ?SKIP ?(.*))?$", re.I)


@dataclass
class Tally:
    """What a suite, or everything so far, came to."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    details: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.details += other.details

    def fail(self, name: str, text: str = "") -> None:
        self.failed += 1
        lines = text.strip().splitlines()
        if len(lines) > DETAIL_LINES:
            lines = ["..."] + lines[-DETAIL_LINES:]
        self.details.append("\n    ".join([f"FAILED {name}"] + lines))

    def skip(self, name: str, reason: str) -> None:
        if os.environ.get("T_MUST_WORK") == "1" and not is_expected_skip(name):
            self.fail(
                name, f"skipped ({reason}), but T_MUST_WORK=1 and not in tests/expected-skips"
            )
        else:
            self.skipped += 1

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass
class Ended:
    """A test program after its end."""

    output: str  # its stdout
    errors: str  # its stderr
    status: int
    timed_out: bool

    def why_bad(self) -> str:
        if self.timed_out:
            return "did not end in time and was killed"
        return "" if self.status == 0 else f"ended with status {self.status}"


def expected_skips() -> dict[str, str]:
    """The lines "suite/test reason" of tests/expected-skips. One without a reason does not
    count.
    """
    found = {}
    for line in (ROOT / "tests" / "expected-skips").read_text().splitlines():
        name, _, reason = line.partition(" ")
        if reason.strip() and not name.startswith("#"):
            found[name] = reason.strip()
    return found


def is_expected_skip(name: str) -> bool:
    """A parametrised pytest is listed with its parameters or, for all of them, without."""
    listed = expected_skips()
    return name in listed or name.split("[")[0] in listed


class Interrupted(Exception):
    """The user pressed Ctrl-C."""


class Programs:
    """Those that run now, so that Ctrl-C reaches them in their sessions and they can clean up."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[int] = set()
        self.interrupted = False

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        with self.lock:
            if self.interrupted:
                raise Interrupted
            process = subprocess.Popen(command, start_new_session=True, text=True, **options)
            self.running.add(process.pid)
            return process

    def ended(self, process: subprocess.Popen[str]) -> None:
        with self.lock:
            self.running.discard(process.pid)

    def interrupt(self) -> None:
        with self.lock:
            self.interrupted = True
            for session in self.running:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(session, signal.SIGINT)


PROGRAMS = Programs()


def run(
    command: list[str],
    build: Path,
    seconds: int,
    folder: Path = ROOT,
    more_env: dict[str, str] | None = None,
) -> Ended:
    """Runs a program in a session of its own, so that all of it can be ended."""
    env = dict(os.environ, HUSK_BUILD=str(build), HUSK_BIN=str(build / "bin" / "husk"))
    env.update(more_env or {})
    process = PROGRAMS.start(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        errors="replace",
    )
    timed_out = False
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    PROGRAMS.ended(process)
    return Ended(output, errors, process.returncode, timed_out)


def count_tap(name: str, suite: str, ended: Ended, checks_skips: bool) -> Tally:
    """Counts the points of a TAP stream; anything irregular about it is a failure more."""
    tally = Tally()
    planned = -1
    seen = 0
    for line in ended.output.splitlines():
        plan = TAP_PLAN.match(line)
        point = TAP_POINT.match(line)
        if plan:
            planned = int(plan.group(1))
            if planned == 0:
                tally.skip(f"{suite}/{name}", plan.group(2) or "no reason given")
        elif point:
            seen += 1
            failed, what, directive, reason = point.groups()
            if failed:
                tally.fail(f"{suite}/{what} ({name})")
            elif directive and checks_skips:
                tally.skip(f"{suite}/{what}", reason)
            elif directive:
                tally.skipped += 1
            else:
                tally.passed += 1

    program = f"{suite}/{name}"
    if planned != seen:
        shown = "no plan" if planned < 0 else f"a plan of {planned}"
        tally.fail(program, f"{shown}, but {seen} results\n{ended.why_bad()}")
    elif ended.why_bad() and tally.failed == 0:
        tally.fail(program, ended.why_bad())
    if tally.failed > 0:
        remarks = [s for s in ended.output.splitlines() if not s.startswith(("ok ", "1.."))]
        remarks = remarks[-DETAIL_LINES:] + ended.errors.splitlines()[-DETAIL_LINES:]
        tally.details.insert(0, "\n    ".join([f"What {program} said:"] + remarks))
    return tally


@dataclass
class Program:
    """A C test as the build knows it."""

    suite: str
    name: str
    command: list[str]
    env: dict[str, str]
    folder: Path  # to run it in


def registered_programs(build: Path) -> list[Program]:
    text = subprocess.run(
        ["meson", "introspect", "--tests", str(build)], check=True, stdout=subprocess.PIPE
    ).stdout
    return [
        Program(
            t["suite"][0].split(":")[-1], t["name"], t["cmd"], t["env"], Path(t["workdir"] or build)
        )
        for t in json.loads(text)
    ]


def run_pytest(suite: str, build: Path) -> Tally:
    """Runs the suite's pytest files and counts the cases in its report."""
    tally = Tally()
    folder = ROOT / "tests" / suite
    report = build / f"pytest-{suite}.xml"
    report.unlink(missing_ok=True)
    python, more_env = "/usr/bin/python3", {"HUSK_BIN_DIR": str(build / "bin")}
    if suite == "sdk":  # beside the frameworks that tools/python-env has installed
        python = str(build / "venv" / "bin" / "python")
        more_env["PYTHONPATH"] = str(ROOT / "sdk" / "python")
    command = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-o", "xfail_strict=true", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    command += ["--rootdir", str(ROOT)]
    ended = run([*command, str(folder)], build, PYTEST_SECONDS, more_env=more_env)

    if ended.timed_out or ended.status not in (0, 1) or not report.exists():
        tally.fail(f"{suite} (pytest)", f"{ended.why_bad()}\n{ended.output}\n{ended.errors}")
    if not report.exists():
        return tally
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("file") or case.get("classname") or "?"
        name = f"{file.removeprefix('tests/')}::{case.get('name')}"
        bad = [*case.findall("failure"), *case.findall("error")]
        skipped = case.find("skipped")
        if bad:
            tally.fail(name, "\n".join(b.text or b.get("message") or "" for b in bad))
        elif skipped is not None:
            tally.skip(name, skipped.get("message") or "no reason given")
        else:
            tally.passed += 1
    return tally


def check_registration(programs: list[Program], tally: Tally) -> None:
    """A test that is written but never run must not look like one that passes."""
    for program in programs:
        if program.suite not in SUITES:
            tally.fail(f"{program.suite}/{program.name}", f"its suite is none of {SUITES}")
    names = {p.name for p in programs}
    tests = ROOT / "tests"
    for source in sorted([*tests.rglob("test_*.c"), *tests.glob("fuzz/fuzz_*.c")]):
        if source.stem.replace("fuzz_", "replay_") not in names:
            tally.fail(str(source.relative_to(ROOT)), "not in the meson.build of its folder")


def run_suite(suite: str, build: Path, c_only: bool) -> Tally:
    tally = Tally()
    for program in registered_programs(build):
        if program.suite == suite:
            ended = run(program.command, build, PROGRAM_SECONDS, program.folder, program.env)
            tally.add(count_tap(program.name, suite, ended, checks_skips=False))
    if c_only:
        return tally

    folder = ROOT / "tests" / suite
    for script in sorted([*folder.rglob("*.tap.sh"), *folder.rglob("*_vm.sh")]):
        ended = run(["bash", str(script)], build, PROGRAM_SECONDS)
        tally.add(count_tap(script.name, suite, ended, checks_skips=True))
    if any(folder.rglob("test_*.py")):
        tally.add(run_pytest(suite, build))
    return tally


def run_lane(suites: list[str], build: Path, c_only: bool) -> Tally:
    total = Tally()
    for suite in suites:
        start = time.monotonic()
        tally = run_suite(suite, build, c_only)
        print(f"==> {suite:12s} {tally}  ({time.monotonic() - start:.1f} s)", flush=True)
        total.add(tally)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the test suites and counts.")
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="suite")
    parser.add_argument("--c-only", action="store_true", help="only the C programs")
    args = parser.parse_intermixed_args()
    build = args.build.resolve()
    for suite in args.suites:
        if suite not in SUITES:
            parser.error(f"no suite {suite}; there are: {', '.join(SUITES)}")

    make_reachable(ROOT)
    # What a shell in the background (SIGINT) or nohup (SIGHUP) has ignored would be ignored by every
    # program that a test signals. Programs do not inherit handlers.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    total = Tally()
    check_registration(registered_programs(build), total)
    start = time.monotonic()
    lanes = [[suite for suite in lane if suite in args.suites] for lane in LANES]
    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(run_lane, lane, build, args.c_only) for lane in lanes]
        try:
            for lane in running:
                total.add(lane.result())
        except KeyboardInterrupt:
            PROGRAMS.interrupt()
            print("\ninterrupted: the tests that were running end", flush=True)
            return 130

    for detail in total.details[:DETAILS_SHOWN]:
        print(f"\n{detail}")
    for detail in total.details[DETAILS_SHOWN:]:
        print(detail.splitlines()[0])
    if total.passed == 0:
        total.fail("no test ran at all")
    print(f"==> Tests took {time.monotonic() - start:.1f} s")
    print(total)
    return 0 if total.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
