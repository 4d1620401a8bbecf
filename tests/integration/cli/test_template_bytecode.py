# SPDX-License-Identifier: Apache-2.0
"""Compiled modules of templates: made in a box, kept by the operator, read by boxes only."""
from __future__ import annotations

import marshal
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from husk_server import Server
from programs import Program
from v1_client import Api


class Environment:
    """A virtual environment with modules that are not compiled, and its template `mine`."""

    def __init__(self, folder: Path, husk: Program) -> None:
        self.venv = folder / "venv"
        self.cache = folder / "cache"
        self.husk = husk
        husk.env["HUSK_CACHE_DIR"] = str(self.cache)
        make = ["/usr/bin/python3", "-m", "venv", "--without-pip", str(self.venv)]
        subprocess.run(make, check=True)
        self.modules = next(self.venv.glob("lib/python3.*/site-packages"))

    def add(self, *options: str) -> str:
        done = self.husk("template", "add", "mine", "--python", str(self.venv), *options)
        assert done.code == 0, done.error
        return done.text + done.error

    def run(self, code: str) -> str:
        done = self.husk("run", "--template", "mine", code)
        assert done.code == 0, done.error
        return done.text

    def compiled(self) -> dict[str, Path]:
        found = (self.cache / "bytecode" / "mine").rglob("*.pyc")
        return {path.name.partition(".")[0]: path for path in found}


@pytest.fixture
def environment(husk: Program) -> Iterator[Environment]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # boxes have a /tmp of their own
        Path(name).chmod(0o755)
        yield Environment(Path(name), husk)


def replace_code(path: Path, source: str) -> None:
    """So that it shows which file was read: the header stays."""
    code = marshal.dumps(compile(source, "replaced", "exec"))
    path.write_bytes(path.read_bytes()[:16] + code)


def test_modules_are_compiled_when_a_template_is_added(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 'source'\n")
    (environment.modules / "pack").mkdir()
    (environment.modules / "pack" / "__init__.py").write_text("")
    (environment.modules / "pack" / "two.py").write_text("VALUE = 2\n")
    (environment.modules / "wrong.py").write_text("this is no Python\n")
    assert "3 modules compiled" in environment.add()
    made = environment.compiled()
    assert set(made) == {"one", "__init__", "two"}
    assert made["two"].stat().st_mode & 0o777 == 0o644
    assert not list(environment.venv.rglob("*.pyc")), "the environment itself stays as it was"
    assert environment.run("import one, pack.two; (one.VALUE, pack.two.VALUE)") == "('source', 2)\n"
    replace_code(made["one"], "VALUE = 'compiled'")
    assert environment.run("import one; one.VALUE") == "'compiled'\n"
    assert environment.run("import one, sys; one.__file__") == f"'{environment.modules}/one.py'\n"


def test_what_is_outdated_is_not_used(environment: Environment) -> None:
    module = environment.modules / "one.py"
    module.write_text("VALUE = 1\n")
    environment.add()
    replace_code(environment.compiled()["one"], "VALUE = 'compiled'")
    module.write_text("VALUE = 200\n")
    assert environment.run("import one; one.VALUE") == "200\n"
    done = environment.husk("template", "compile", "mine")
    assert (done.code, done.text) == (0, "1 modules compiled\n"), done.error
    replace_code(environment.compiled()["one"], "VALUE = 'again'")
    assert environment.run("import one; one.VALUE") == "'again'\n"
    assert [p.name for p in (environment.cache / "bytecode").iterdir()] == ["mine"]


def test_a_file_beside_the_module_comes_first(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    environment.add()
    replace_code(environment.compiled()["one"], "VALUE = 'cache'")
    subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", environment.modules], check=True)
    replace_code(next(environment.modules.rglob("one.*.pyc")), "VALUE = 'beside'")
    assert environment.run("import one; one.VALUE") == "'beside'\n"
    done = environment.husk("template", "compile", "mine")
    assert done.text == "no module of its own lacks a .pyc file\n"


def test_boxes_cannot_write_it(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    environment.add()
    path = "/husk-bytecode" + str(environment.modules / "__pycache__")
    code = f"""
import os
said = []
for attempt in (lambda: open({path!r} + "/x", "w"), lambda: os.rename({path!r}, "/tmp/x"),
                lambda: os.unlink({path!r} + "/" + os.listdir({path!r})[0]),
                lambda: os.chmod({path!r}, 0o777)):
    try:
        attempt()
    except OSError as error:
        said.append(error.errno)
print(len(said))
"""
    assert environment.run(code) == "4\n"


def test_a_folder_that_others_can_write_is_refused(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    environment.add()
    folder = environment.cache / "bytecode" / "mine"
    folder.chmod(0o777)
    done = environment.husk("run", "--template", "mine", "1")
    assert done.code == 125 and "no other account can write" in done.error
    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, 4242, 4242)
        done = environment.husk("run", "--template", "mine", "1")
        assert done.code == 125 and "a folder of yours" in done.error
        os.chown(folder, 0, 0)
    folder.rename(folder.with_name("theirs"))
    folder.symlink_to("theirs")
    done = environment.husk("run", "--template", "mine", "1")
    assert done.code == 125 and "a folder of yours" in done.error
    folder.unlink()
    assert environment.run("import one; one.VALUE") == "1\n", "without it imports take longer"


def test_sessions_of_a_server_use_it(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    with Server.run() as server:
        environment.husk.env["HUSK_TEMPLATE_DIR"] = str(server.templates)
        environment.add("--preload", "one")
        replace_code(environment.compiled()["one"], "VALUE = 'compiled'")
        api = Api(server.port)
        session = api.session(template_id="mine")
        code = "import sys; ('one' in sys.modules, __import__('one').VALUE)"
        assert api.run(session, code)["return_value"] == [True, "compiled"]


def test_no_compile(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    assert "compiled" not in environment.add("--no-compile")
    assert environment.compiled() == {}
    assert environment.husk("template", "check", "mine").code == 0
    assert environment.husk("template", "compile", "mine").text == "1 modules compiled\n"


REFUSED, NOISE = "a file that it must not", "printed something else"
PATH = "importlib.util.cache_from_source = lambda p: "
PRINT = "import os; os.wait = lambda: os.write(1, {}) and os._exit(0)"

# What an environment could print, and what is said then.
HOSTILE = {
    "above": (PATH + "'{venv}/../../../../var/tmp/husk-evil.pyc'", REFUSED),
    "elsewhere": (PATH + "'/etc/husk-evil.pyc'", REFUSED),
    "beside": (PATH + "'{venv}-evil/x.pyc'", REFUSED),
    "no_pyc": (PATH + "'{venv}/x.py'", REFUSED),
    "twice": (PATH + "'{venv}/x.pyc'", "File exists"),
    "long_name": (PATH + "'{venv}/' + 'x' * 2000 + '.pyc'", NOISE),
    "huge": (PRINT.format("b'99999999999 {venv}/x.pyc\\n'"), REFUSED),
    "negative": (PRINT.format("b'-5 {venv}/x.pyc\\n'"), REFUSED),
    "noise": (PRINT.format("b'x' * 5000"), NOISE),
    "half": (PRINT.format("b'100 {venv}/x.pyc\\nabc'"), "in the middle of a file"),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_environment_writes_nothing(environment: Environment, how: str) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    (environment.modules / "two.py").write_text("VALUE = 1\n")
    environment.add("--no-compile")
    attempt, words = HOSTILE[how]
    attempt = attempt.replace("{venv}", str(environment.venv))
    # When the compiling program begins to import.
    (environment.modules / "sitecustomize.py").write_text(
        "import builtins, importlib.util\n"
        "real = builtins.__import__\n"
        "def fake(name, *rest):\n"
        "    if name == 'shutil':\n"
        f"        {attempt}\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = fake\n"
    )
    done = environment.husk("template", "compile", "mine")
    assert done.code == 125 and words in done.error, (done.text, done.error)
    assert not list(environment.cache.rglob("*.pyc"))
    assert list((environment.cache / "bytecode").iterdir()) == []
    assert not Path("/etc/husk-evil.pyc").exists() and not Path("/var/tmp/husk-evil.pyc").exists()


def test_pip_says_where_packages_come_from(husk: Program) -> None:
    for command in ("pip install no-such-package", "python3 -m pip install no-such-package"):
        done = husk("run", "--template", "shell", command)
        assert done.code == 1
        said = done.text + done.error
        assert "a-box-has-no-network/packages-come-with-its-template/see-husk-template-add" in said
        assert "externally-managed" not in said and "apt" not in said and "Retrying" not in said


def test_a_wheel_of_the_workspace_can_be_installed(husk: Program, tmp_path: Path) -> None:
    wheel = tmp_path / "own-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("own.py", "VALUE = 7\n")
        about = "own-1.0.dist-info/"
        archive.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
        archive.writestr(
            about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            about + "RECORD", f"own.py,,\n{about}METADATA,,\n{about}WHEEL,,\n{about}RECORD,,\n"
        )
    command = f"pip install -q /srv/{wheel.name} && python3 -c 'import own; print(own.VALUE)'"
    wheel.chmod(0o644)
    done = husk("run", "--template", "shell", "--mount", f"{wheel}:/srv/{wheel.name}:ro", command)
    assert (done.code, done.text) == (0, "7\n"), done.error


def test_compiling_leaves_the_folders_of_other_templates_alone(environment: Environment) -> None:
    (environment.modules / "one.py").write_text("VALUE = 1\n")
    environment.add()
    other = environment.cache / "bytecode" / "mine.old"  # of a template with that name
    other.mkdir()
    (other / "kept.pyc").write_bytes(b"kept")
    done = environment.husk("template", "compile", "mine")
    assert done.code == 0, done.error
    assert (other / "kept.pyc").read_bytes() == b"kept"
    assert sorted(path.name for path in other.parent.iterdir()) == ["mine", "mine.old"]
