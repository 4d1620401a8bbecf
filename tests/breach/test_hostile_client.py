# SPDX-License-Identifier: Apache-2.0
"""A hostile client over HTTP: what it says about templates and variables reaches the code in its own
boxes, never a zygote, and names nothing of the host.
"""
from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from husk_server import Server
from procfs import below
from v1_client import Api, check_error, v1, v1_server  # noqa: F401

MARK = Path("/var/tmp/husk-breach-mark")  # what hostile code would leave on the host
REFUSALS = ("OSError", "PermissionError")
SHELL = f'/bin/sh -c "echo hostile > {MARK}; echo hostile > /tmp/mark" %s'


@pytest.fixture(autouse=True)
def no_mark() -> Iterator[None]:
    MARK.unlink(missing_ok=True)
    yield
    assert not MARK.exists(), "hostile code ran on the host"


def new_name() -> str:
    return "t-" + uuid.uuid4().hex[:10]


def zygote_texts(server: Server, file: str) -> list[bytes]:
    """The environments or command lines of all processes below the server's launcher that run
    zygote.py.
    """
    found = []
    for process in below(server.process.pid):
        folder = Path(f"/proc/{process.pid}")
        with contextlib.suppress(OSError):  # it has ended
            if b"zygote.py" in (folder / "cmdline").read_bytes():
                found.append((folder / file).read_bytes())
    return found


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_browser_that_is_a_shell(v1: Api, v1_server: Server, method: str) -> None:  # noqa: F811
    """The module antigravity starts $BROWSER when it is imported."""
    name = new_name()
    body: dict[str, Any] = {"preload": ["antigravity"], "default_env_vars": {"BROWSER": SHELL}}
    if method == "POST":
        answer = v1.post("/templates", {"id": name, **body})
    else:
        assert v1.post("/templates", {"id": name}).status == 201
        answer = v1.call("PUT", f"/templates/{name}", body)
    check_error(answer, 422, "InvalidParameter", "preload", "antigravity")
    assert not any(b"antigravity" in text for text in zygote_texts(v1_server, "cmdline"))


# fmt: off
MODULES = [
    "antigravity", "this", "os", "sys", "pty", "site", "code", "idlelib.idle", "turtledemo",
    "os.path", "json.tool", "..json", "json.", ".json", "json;os", "json os", "json\nos", "/etc/x",
    "--warm", "-c", "__main__", "zygote", "_husk", "runner", "JSON", "json ", "j\u0455on", "",
]
# fmt: on


@pytest.mark.parametrize("module", MODULES, ids=[repr(m) for m in MODULES])
def test_a_module_that_the_base_does_not_offer(v1: Api, module: str) -> None:  # noqa: F811
    name = new_name()
    answer = v1.post("/templates", {"id": name, "preload": ["json", module]})
    check_error(answer, 422, "InvalidParameter")
    check_error(v1.get(f"/templates/{name}"), 404, "TemplateNotFound")


BASES = ["/", "/etc/passwd", "../python", "./python", "python/../shell", "..", ".", "python\0x"]
BASES += ["python\nmount = /", "python mount", "$HOME", "%s", "-h", "p" * 64]


@pytest.mark.parametrize("base", BASES, ids=[repr(b) for b in BASES])
def test_a_base_that_is_a_path(v1: Api, base: str) -> None:  # noqa: F811
    answer = v1.post("/templates", {"id": new_name(), "base": base})
    check_error(answer, 422 if answer.status == 422 else 400, "InvalidParameter")


# fmt: off
FIELDS: list[dict[str, Any]] = [
    {"mount": "/"}, {"mounts": ["/"]}, {"root": "/"}, {"runtime": "/bin/sh"}, {"warm": "1"},
    {"seccomp": "debug"}, {"env": ["A=1"]}, {"offers": ["os"]}, {"preload_memory": "64G"},
    {"preload_timeout": "1h"}, {"max_memory": "64G"}, {"language": "shell"}, {"source": "/etc"},
    {"origin": "built-in"}, {"args": ["/bin/sh"]},
]
# fmt: on


@pytest.mark.parametrize("fields", FIELDS, ids=[next(iter(f)) for f in FIELDS])
def test_a_field_that_is_the_operators(v1: Api, fields: dict[str, Any]) -> None:  # noqa: F811
    name = new_name()
    check_error(v1.post("/templates", {"id": name, **fields}), 422, "InvalidParameter")
    check_error(v1.get(f"/templates/{name}"), 404, "TemplateNotFound")


BREAKS = ["1\nmount = /", "1\rmount = /", "1\0mount = /", "1\x0bmount = /", "1\nbase = shell"]


@pytest.mark.parametrize("value", BREAKS, ids=[repr(b) for b in BREAKS])
@pytest.mark.parametrize("field", ["default_env_vars", "description", "name"])
def test_a_text_that_ends_its_line(v1: Api, field: str, value: str) -> None:  # noqa: F811
    """A value must not become a second line of the template's file."""
    name = new_name()
    body = {"id": name, field: {"A": value} if field == "default_env_vars" else value}
    answer = v1.post("/templates", body)
    if answer.status == 201:  # a name is kept as a record, not in the file
        assert field == "name"
        code = "import os; (os.path.exists('/etc/shadow'), os.path.exists('/root'))"
        assert v1.run(v1.session(template_id=name), code)["return_value"] == [False, False]
    else:
        check_error(answer, 400 if "\0" in value else 422, "InvalidParameter")


# fmt: off
VARIABLES = [
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME",
    "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONBREAKPOINT", "BROWSER", "BASH_ENV", "ENV",
    "GCONV_PATH", "GLIBC_TUNABLES", "MALLOC_CONF", "NODE_OPTIONS", "HUSK_WRITABLE",
]
# fmt: on


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_reaches_no_zygote(
    v1: Api, v1_server: Server, variable: str  # noqa: F811
) -> None:
    name, value = new_name(), f"/workspace/{uuid.uuid4().hex}"
    body = {"id": name, "default_env_vars": {variable: value}, "preload": ["json"]}
    assert v1.post("/templates", body).status == 201
    code = f"import os; os.environ.get({variable!r})"
    assert v1.run(v1.session(template_id=name), code)["return_value"] == value
    texts = zygote_texts(v1_server, "environ")
    assert texts and not any(value.encode() in text for text in texts)


@pytest.mark.parametrize("place", ["/usr", "/husk", "/etc", "/"])
def test_husk_writable_makes_nothing_writable(v1: Api, place: str) -> None:  # noqa: F811
    name = new_name()
    body = {"id": name, "default_env_vars": {"HUSK_WRITABLE": place}}
    assert v1.post("/templates", body).status == 201
    code = f"""
try:
    open({place!r} + "/planted", "w")
    outcome = "written"
except OSError as error:
    outcome = type(error).__name__
outcome"""
    assert v1.run(v1.session(template_id=name), code)["return_value"] in REFUSALS


# fmt: off
SESSIONS: list[dict[str, Any]] = [
    {"template_id": "../python"}, {"template_id": "/etc/passwd"}, {"template_id": "a/b"},
    {"template_id": "python\0"}, {"mounts": ["/"]}, {"volumes": [{"host": "/"}]},
    {"resources": {"cpu": "10000"}}, {"seccomp": "debug"},
]
# fmt: on


@pytest.mark.parametrize("fields", SESSIONS, ids=[str(f) for f in SESSIONS])
def test_a_session_that_asks_for_the_host(v1: Api, fields: dict[str, Any]) -> None:  # noqa: F811
    answer = v1.post("/sessions", {"mode": "persistent", **fields})
    assert answer.status in (400, 404, 422), answer.raw
