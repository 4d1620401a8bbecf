# SPDX-License-Identifier: Apache-2.0
"""The distribution: what is in wheel and sdist, and that both install and work without the
repository around them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from places import BIN

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "python"
VERSION = (ROOT / "VERSION").read_text().strip()
PACKAGES = ["husk", "rayai", "sandbox_runtime"]
FRAMEWORKS = ["ray", "pydantic_ai", "langchain", "langgraph", "agno", "mcp", "fastapi", "numpy"]


def build(source: Path, out: Path, *kinds: str) -> None:
    """With the setuptools of this environment: tests need no network."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *kinds]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist of a copy of the sources (building writes beside them), and the wheel that is made
    from the sdist.
    """
    folder = tmp_path_factory.mktemp("dist")
    repository = folder / "repository"
    (repository / "sdk").mkdir(parents=True)
    for name in ("VERSION", "LICENSE"):
        (repository / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["cp", "-a", SDK, repository / "sdk"], check=True)
    build(repository / "sdk" / "python", folder / "out", "--sdist")
    with tarfile.open(next((folder / "out").glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "unpacked")  # our own
    build(next((folder / "unpacked").iterdir()), folder / "out", "--wheel")
    return folder / "out"


def modules() -> set[str]:
    """Every Python file of the packages."""
    files = [file for name in PACKAGES for file in SDK.glob(f"{name}/**/*.py")]
    return {file.relative_to(SDK).as_posix() for file in files}


def test_names_carry_the_version(dist: Path) -> None:
    assert {file.name for file in dist.iterdir()} == {
        f"husk-{VERSION}.tar.gz",
        f"husk-{VERSION}-py3-none-any.whl",
    }


def test_the_wheel_has_the_packages_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == modules() | {f"{name}/py.typed" for name in PACKAGES}


def test_the_sdist_can_stand_alone(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        files = {m.name.partition("/")[2]: m for m in archive.getmembers()}
    assert all(files[name].isreg() for name in ("VERSION", "LICENSE", "README.md"))
    assert modules() <= set(files)
    assert "examples/quickstart.py" in files


def test_metadata(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        text = wheel.read(f"husk-{VERSION}.dist-info/METADATA").decode()
    data = Parser().parsestr(text)
    assert data["Name"] == "husk" and data["Version"] == VERSION
    assert data["License-Expression"] == "Apache-2.0"
    assert data["Requires-Python"].replace(" ", "") == ">=3.10"
    needed = data.get_all("Requires-Dist") or []
    always = {re.split(r"[^\w-]", n)[0] for n in needed if "extra ==" not in n}
    assert always == {"httpx", "cloudpickle"}
    assert set(data.get_all("Provides-Extra") or []) == {
        "ray",
        "pydantic",
        "langchain",
        "agno",
        "mcp",
        "all",
        "dev",
    }


def test_an_installed_wheel_works_without_any_framework(dist: Path, tmp_path: Path) -> None:
    """In an environment of its own, with the dependencies and nothing else beside it."""
    where = tmp_path / "venv"
    venv.create(where, with_pip=False)
    python = where / "bin" / "python"
    site = next(where.glob("lib/python3*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "-q"]
    done = subprocess.run(
        [*pip, "--no-deps", str(next(dist.glob("*.whl")))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (site / "deps.pth").write_text(f"{BIN.parent}/lib/husk/python-deps\n")
    code = (
        "import sys, husk, rayai, sandbox_runtime.sdk as se\n"
        "names = [n for p in (husk, rayai, se) for n in p.__all__ if getattr(p, n, None) is None]\n"
        f"loaded = [n for n in {FRAMEWORKS} if n in sys.modules]\n"
        "import importlib.metadata as m\n"
        "print(names, loaded, husk.__version__ == m.version('husk'), husk.__file__)"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert done.stdout.startswith(f"[] [] True {site}/husk"), done.stdout + done.stderr


def test_the_command_rayai(dist: Path, tmp_path: Path) -> None:
    """It finds the program, or explains that it is missing; it never runs itself again."""
    where = tmp_path / "venv"
    venv.create(where, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(where / "bin" / "python"), "install"]
    wheel = str(next(dist.glob("*.whl")))
    subprocess.run([*pip, "--no-index", "-q", "--no-deps", wheel], check=True)
    site = next(where.glob("lib/python3*/site-packages"))
    (site / "deps.pth").write_text(f"{BIN.parent}/lib/husk/python-deps\n")

    def rayai(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [str(where / "bin" / "rayai"), *arguments]
        path = f"{where / 'bin'}:/usr/bin:/bin"
        env = {"PATH": path, "HOME": str(tmp_path), **env}
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    found = rayai("analytics", HUSK_BIN=str(BIN))
    assert found.returncode == 0 and "analytics are off" in found.stdout, found.stderr
    assert "no-such-command" in rayai("no-such-command", HUSK_BIN=str(BIN)).stderr
    missing = rayai("up")
    assert missing.returncode == 127 and "HUSK_BIN" in missing.stderr, missing.stderr


def test_what_runs_from_a_checkout_is_what_the_wheel_asks_for() -> None:
    """requirements-run.txt and requirements-test.txt name the same versions; python-deps is one of
    the dependencies.
    """
    pins: dict[str, str] = {}
    for name in ("requirements-run.txt", "requirements-test.txt", "constraints-test.txt"):
        for line in (SDK / name).read_text().splitlines():
            if match := re.fullmatch(r"([\w.-]+)(?:\[\w+\])?==(\S+)", line):
                package = match.group(1).lower().replace("_", "-")
                assert pins.setdefault(package, match.group(2)) == match.group(2), (name, package)
    assert {"httpx", "cloudpickle", "ray", "h11"} <= set(pins)


def python_env(build: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """tools/python-env where no package index answers."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    env.update(PIP_INDEX_URL="http://127.0.0.1:9/", PIP_CONFIG_FILE="/dev/null")
    command = [str(ROOT / "tools" / "python-env"), str(build), *flags]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_make_up_goes_on_without_the_package_index(tmp_path: Path) -> None:
    done = python_env(tmp_path, "--run")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "going on" in done.stderr, done.stderr
    assert not (tmp_path / "lib" / "husk" / "python-deps").exists()


def test_make_test_does_not(tmp_path: Path) -> None:
    done = python_env(tmp_path)
    assert done.returncode == 1
    assert "package index" in done.stderr.splitlines()[-1]


def test_what_is_there_already_needs_no_index() -> None:
    done = python_env(BIN.parent, "--run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
