# SPDX-License-Identifier: Apache-2.0
"""Tests of lint.py, test_summary.py, reachable.py, account and commit in tools/: what gates everything must
itself be right.
"""
from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n/* A file. */\n"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


load("layers")
lint = load("lint")
load("reachable")
summary = load("test_summary")


def findings(name: str, text: str) -> list[str]:
    return [f"{f.line}: {f.text}" for f in lint.check(lint.Source(name, text)) if not f.is_note]


BAD_C = [
    ("src/base/a.c", '#include "box/setup.h"\n', "3: base/ must not include box/setup.h"),
    ("src/launcher/a.c", '#include "http/head.h"\n', "3: launcher/ must not include http/head.h"),
    ("src/other/a.c", "", "1: src/other is no layer"),
    ("src/box/buf.c", "", "1: src/base/buf.c has the same base name"),
    ("src/base/a.c", "\nint x = atoi(s);\n", "4: atoi() is banned, use parse_u64()"),
    ("tests/unit/a.c", "strcpy(a, b);\n", "3: strcpy() is banned"),
    ("src/base/a.c", "dup(1);\n", "3: dup() is banned"),
    ("src/base/a.c", "p = malloc(n * size);\n", "3: malloc() of a product"),
    ("src/base/a.c", "exit(1);\n", "3: exit() outside"),
    ("src/base/a.c", "pipe(p);\n", "3: pipe() leaks into children"),
    ("src/base/a.c", "socket(AF_UNIX, SOCK_STREAM, 0);\n", "3: socket() without CLOEXEC"),
    ("src/base/a.c", "eventfd(0,\n  EFD_NONBLOCK);\n", "3: eventfd() without CLOEXEC"),
    ("src/base/a.c", "int a; // b\n", "3: comments are /* */"),
    ("src/base/a.c", "typedef struct x y;\n", "3: structs are not typedef'd"),
    ("src/base/a.h", "int a;\n", "1: a header needs #pragma once"),
    ("src/base/a.c", "/* TO" "DO: more */\n", "3: TO" "DO: finish it"),
    ("src/base/a.c", 'open("/ro' 'ot/x");\n', "3: a path of one machine"),
    ("src/base/a.c", "int f(void)\n{\n" + "    x();\n" * 81 + "}\n", "4: function of 81 lines"),
    ("src/base/a.c", "int x;\n" * 800, "802: 802 lines"),
    ("src/base/a.c", f"/* {'x' * 95} */\n", "3: 101 columns"),
]


@pytest.mark.parametrize("name, text, want", BAD_C)
def test_lint_finds(name: str, text: str, want: str) -> None:
    found = findings(name, HEAD + text)
    assert len(found) == 1, found
    assert found[0].startswith(want)


GOOD_C = [
    ("src/box/a.c", '#include "base/fd.h"\n#include "box/b.h"\n#include <errno.h>\n'),
    ("src/base/a.c", "socket(AF_UNIX,\n SOCK_STREAM | SOCK_CLOEXEC, 0);\n"),
    ("src/base/a.c", 'x("strcpy(a)"); /* atoi() and http://x */\n'),
    ("src/base/a.c", "my_system(1); ops->system(2); ops.dup(3);\n"),
    ("src/base/a.c", "p = malloc(sizeof(*p));\n"),
    ("src/cli/a.c", "int main(void)\n{\n    exit(1);\n}\n"),
    ("src/base/a.c", "int f(void)\n{\n" + "    x();\n" * 80 + "}\n"),
    ("src/box/a.c", 'x("root:x:0:0:root:/root:/bin/sh");\n'),
    ("tests/escape/native/a.c", "socket(1, 2, 3); system(4);\n"),
]


@pytest.mark.parametrize("name, text", GOOD_C)
def test_lint_is_content(name: str, text: str) -> None:
    assert findings(name, HEAD + text) == []


def test_lint_keeps_frameworks_out_of_the_sdk() -> None:
    head = "# SPDX-License-Identifier: Apache-2.0\n# c\n"
    assert findings("sdk/python/husk/a.py", head + "import os\nfrom husk import b\n") == []
    assert findings("sdk/python/husk/a.py", head + "def f():\n    import ray\n") == []
    found = findings("sdk/python/rayai/a.py", head + "import os\nfrom ray.util import x\n")
    assert found == ["4: ray is imported with the module; do it in a function"]
    assert findings("sdk/python/examples/a.py", head + "import ray\n") == []


def test_lint_wants_licence_and_comment_first() -> None:
    assert len(findings("src/base/a.c", "int x;\n")) == 2
    assert len(findings("tools/a.py", "import os\nimport re\n")) == 2
    assert len(findings("tools/a", "#!/usr/bin/env bash\nset -eu\n:\n")) == 2
    spdx = "# SPDX-License-Identifier: Apache-2.0\n"
    assert findings("tools/a", f"#!/usr/bin/env bash\n{spdx}# Does it.\nset -eu\n") == []
    assert findings("tools/a.py", f'{spdx}"""Does it."""\n') == []


TAP = [
    ("1..2\nok 1 - a\nok 2 - b\n", 0, (2, 0, 0)),
    ("1..2\nok 1 - a\nnot ok 2 - b\n", 1, (1, 1, 0)),
    ("1..1\nok 1 - a # SKIP no kernel\n", 0, (0, 0, 1)),
    ("ok 1 - a\n1..1\n", 0, (1, 0, 0)),  # the plan may come last
    ("1..2\nok 1 - a\n", 0, (1, 1, 0)),  # one is missing
    ("ok 1 - a\n", 0, (1, 1, 0)),  # no plan: it may have died
    ("1..1\nok 1 - a\n", 3, (1, 1, 0)),  # a bad end
    ("", -11, (0, 1, 0)),
    ("1..0 # SKIP nothing to do here\n", 0, (0, 0, 1)),
]


@pytest.mark.parametrize("text, status, want", TAP)
def test_summary_counts_tap(
    text: str, status: int, want: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("T_MUST_WORK", raising=False)
    tally = summary.count_tap("t", "unit", summary.Ended(text, "", status, False), False)
    assert (tally.passed, tally.failed, tally.skipped) == want


def test_summary_fails_unexpected_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"box/known": "no such controller", "box/test_a.py::test_b": "needs a disk"}
    monkeypatch.setattr(summary, "expected_skips", lambda: listed)
    names = ["box/known", "box/test_a.py::test_b", "box/test_a.py::test_b[x]", "box/other"]
    for must_work, want in (("1", (0, 1, 3)), ("0", (0, 0, 4))):
        monkeypatch.setenv("T_MUST_WORK", must_work)
        tally = summary.Tally()
        for name in names:
            tally.skip(name, "reason")
        assert (tally.passed, tally.failed, tally.skipped) == want


def test_summary_hands_an_interrupt_on_and_starts_nothing_more() -> None:
    programs = summary.Programs()
    gone = programs.start(["true"])
    gone.wait()
    # The sleeper inherits it: a shell's background job has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sleeper = programs.start(["sleep", "600"])
    signal.signal(signal.SIGINT, before)
    programs.interrupt()
    assert sleeper.wait() == -signal.SIGINT
    with pytest.raises(summary.Interrupted):
        programs.start(["true"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a home that is closed to others")
def test_a_checkout_in_a_closed_folder_is_reachable_for_its_tests_alone(tmp_path: Path) -> None:
    place = tmp_path / "closed" / "checkout"
    (place / "build").mkdir(parents=True)
    (place / "build" / "file").write_text("found")
    (place.parent / "beside").write_text("kept")
    (place.parent / "link").symlink_to("beside")
    place.parent.chmod(0o700)
    look = [
        "setpriv",
        "--reuid=65534",
        "--clear-groups",
        "cat",
        "build/file",
        "../beside",
        "../link",
    ]
    script = (
        "import os, sys; from pathlib import Path; from reachable import make_reachable\n"
        f"make_reachable(Path({str(place)!r})); os.execvp('setpriv', {look!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=TOOLS, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("foundkeptkept", "")
    assert subprocess.run(look, cwd=place, capture_output=True, check=False).returncode != 0
    assert place.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "uid, has_account, has_group, creates",
    [
        (0, False, False, "--user-group"),
        (0, False, True, "--gid=husk"),
        (0, True, True, ""),
        (1, False, False, ""),
    ],
)
def test_the_account_is_created_once_and_by_root_only(
    tmp_path: Path, uid: int, has_account: bool, has_group: bool, creates: str
) -> None:
    programs = {
        "id": f"echo {uid}",
        "getent": f"[ $1 = passwd ] && exit {int(not has_account)}\nexit {int(not has_group)}",
        "useradd": f'echo "$@" >{tmp_path}/asked',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([TOOLS / "account"], env=env, check=True, capture_output=True)
    asked = tmp_path / "asked"
    words = asked.read_text().split() if asked.exists() else []
    assert bool(words) == bool(creates)
    if words:
        assert creates in words and words[-1] == "husk"
        assert {"--system", "--no-create-home", "/usr/sbin/nologin"} <= set(words)


def test_the_commit_is_that_of_the_source_itself(tmp_path: Path) -> None:
    """An archive of the source has none, even if it lies in a repository of another project."""

    def commit(source: Path) -> str:
        done = subprocess.run(
            [TOOLS / "commit", source], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(tmp_path), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    inside = tmp_path / "archive"
    inside.mkdir()
    assert commit(tmp_path) == commit(inside) == "unknown"
    git("init", "-q")
    assert commit(tmp_path) == "unknown", "there is no commit yet"
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert commit(tmp_path) == git("rev-parse", "HEAD")
    assert commit(inside) == "unknown"
