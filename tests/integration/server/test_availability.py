# SPDX-License-Identifier: Apache-2.0
"""What the server says about libraries is what programs find."""
from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from husk_server import Server, server  # noqa: F401
from v1_client import Api, check_error
from waiting import wait_until

NAMES = ["sympy", "numpy", "pandas", "matplotlib", "scipy", "sklearn"]


def installed(names: list[str]) -> list[str]:
    code = f"import importlib.util as u; print(*[n for n in {names} if u.find_spec(n)])"
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture
def bare() -> Iterator[Path]:
    """A Python without any package but `present` and `broken`."""
    with tempfile.TemporaryDirectory(prefix="husk-test-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
        (folder / "pyvenv.cfg").write_text(
            "home = /usr/bin\ninclude-system-site-packages = false\n"
        )
        modules = folder / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
        modules.mkdir(parents=True)
        (modules / "present.py").write_text("")
        (modules / "broken.py").write_text("raise OSError('no such; device')\n")
        yield folder


def runs(folder: Path) -> str:
    return f"mount = {folder}\nruntime = {folder}/bin/python3\n"


def test_the_libraries_of_run(server: Server) -> None:
    found = server.get("/").json["capabilities"]["libraries"]
    assert found == installed(NAMES)
    for name in NAMES:
        ran = server.post("/run", {"code": f"import {name}\nprint(1)"}).json
        assert (ran["status"] == "success") == (name in found), ran


def test_a_python_without_libraries(bare: Path) -> None:
    server = Server()
    try:
        (server.templates / "pyrunner.template").write_text(runs(bare) + "warm = rehearse()\n")
        server.start()
        assert server.get("/").json["capabilities"]["libraries"] == []
    finally:
        server.remove()


def test_data_science_starts_with_what_is_there(server: Server) -> None:
    api = Api(server.port)
    wanted = ["numpy", "pandas", "scipy", "sklearn", "matplotlib.pyplot", "sympy"]
    there = installed([n.split(".")[0] for n in wanted])
    absent = [f"{n}: it is not installed" for n in wanted if n.split(".")[0] not in there]
    before = api.get("/templates/python-datascience").body
    assert before["is_active"] is True and before["missing"] is None
    assert before["preload"] == wanted and before["not_preloaded"] == absent
    session = api.session(template_id="python-datascience")
    code = f"import sys; [n for n in {wanted} if n in sys.modules]"
    there = [n for n in wanted if n.split(".")[0] in there]
    assert api.run(session, code)["return_value"] == there
    assert api.get("/templates/python-datascience").body == before
    listed = api.get("/templates?limit=200")["items"]
    assert next(t for t in listed if t["id"] == "python-datascience") == before


def test_a_module_that_is_needed_and_absent(server: Server, bare: Path) -> None:
    api = Api(server.port)
    file = server.templates / "needy.template"
    file.write_text(runs(bare) + "preload = present absent\n")
    shown = api.get("/templates/needy").body
    assert shown["is_active"] is False and shown["missing"] == "module absent is not installed"
    body = {"template_id": "needy", "mode": "persistent"}
    check_error(api.post("/sessions", body), 422, "InvalidParameter", "No module named 'absent'")
    file.write_text(runs(bare) + "preload = present\npreload_optional = absent broken json\n")
    shown = api.get("/templates/needy").body
    assert shown["is_active"] is True and shown["not_preloaded"] == ["absent: it is not installed"]
    session = api.session(template_id="needy")
    code = "import sys; [n in sys.modules for n in ('present', 'absent', 'broken', 'json')]"
    assert api.run(session, code)["return_value"] == [True, False, False, True]
    shown = api.get("/templates/needy").body
    why = "broken: OSError: no such, device (broken, line 1)"
    assert shown["is_active"] is True
    assert shown["not_preloaded"] == ["absent: it is not installed", why]
    assert shown["preload"] == ["present", "absent", "broken", "json"]


def test_templates_of_clients_are_held_against_their_base(server: Server, bare: Path) -> None:
    api = Api(server.port)
    offering = server.templates / "offering.template"
    offering.write_text(runs(bare) + "offers = present absent\n")
    for name, modules in (("has-it", ["present"]), ("has-not", ["present", "absent"])):
        made = api.post("/templates", {"id": name, "base": "offering", "preload": modules})
        assert made.status == 201, made.raw
        assert made["is_active"] is (name == "has-it")
        assert made["missing"] == (None if name == "has-it" else "module absent is not installed")
        assert made["preload"] == modules


def test_asking_leaves_no_zygote(server: Server, bare: Path) -> None:
    api = Api(server.port)
    (server.templates / "asked.template").write_text(runs(bare) + "preload = present\n")
    assert api.get("/templates/asked")["is_active"] is True
    wait_until(
        lambda: not any(
            "asked" in c["template_id"] for c in api.get("/containers?limit=200")["items"]
        ),
        "no box of it is left",
    )


def test_a_python_that_does_not_start_is_not_active(server: Server, bare: Path) -> None:
    api = Api(server.port)
    (bare / "bin" / "python3").unlink()
    (bare / "bin" / "python3").write_text("#!/bin/sh\necho this is no Python >&2\nexit 4\n")
    (bare / "bin" / "python3").chmod(0o755)
    (server.templates / "none.template").write_text(runs(bare) + "preload = present\n")
    shown = api.get("/templates/none").body
    assert shown["is_active"] is False and "this is no Python" in shown["missing"]
