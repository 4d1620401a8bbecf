# SPDX-License-Identifier: Apache-2.0
"""Templates of /api/v1 against a real huskd."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from husk_server import Server
from places import ROOT
from procfs import below
from v1_client import Api, check_bad_ids, check_error, v1, v1_server  # noqa: F401
from waiting import wait_until


def count_env(built_in: str) -> int:
    text = (ROOT / "templates" / f"{built_in}.template").read_text()
    return sum(line.split("=")[0].strip() == "env" for line in text.splitlines())


def make(v1: Api, **fields: Any) -> str:
    name = "t-" + uuid.uuid4().hex[:10]
    answer = v1.post("/templates", {"id": name, **fields})
    assert answer.status == 201, answer.raw
    return name


def test_create_shows_what_was_asked_for(v1: Api) -> None:
    name = "t-" + uuid.uuid4().hex[:10]
    body = {
        "id": name,
        "name": "Numbers",
        "description": "for sums",
        "preload": ["math", "json"],
        "default_cpu_cores": 0.5,
        "default_memory_mb": 400,
        "default_disk_mb": 256,
        "default_timeout": 120,
        "default_env_vars": {"A": "1"},
    }
    answer = v1.post("/templates", body)
    assert answer.status == 201
    made = answer.body
    assert {k: made[k] for k in body} == body
    assert made["base"] == "python" and made["language"] == "python" and made["origin"] == "api"
    assert made["default_timeout_sec"] == 120 and made["is_active"] is True
    assert made["created_at"] is not None
    assert v1.get(f"/templates/{name}").body == made


def test_defaults(v1: Api) -> None:
    made = v1.get(f"/templates/{make(v1)}").body
    assert made["default_memory_mb"] == 512 and made["default_disk_mb"] == 384
    assert made["default_cpu_cores"] == 0.5 and made["default_timeout"] == 300


def test_the_disk_is_shown_as_sessions_get_it(v1: Api) -> None:
    name = "t-" + uuid.uuid4().hex[:10]
    made = v1.post("/templates", {"id": name, "default_memory_mb": 512, "default_disk_mb": 1024})
    assert made.status == 201 and made["default_disk_mb"] == 384
    assert v1.get(f"/templates/{name}")["default_disk_mb"] == 384
    listed = {t["id"]: t for t in v1.get("/templates?limit=200")["items"]}
    assert listed[name]["default_disk_mb"] == 384
    assert v1.get(f"/sessions/{v1.session(template_id=name)}")["resources"]["disk"] == "384Mi"
    more = v1.call("PUT", f"/templates/{name}", {"default_memory_mb": 2048})
    assert more["default_disk_mb"] == 1024, "what was asked for is not forgotten"


@pytest.mark.parametrize("asked,given", [(0.125, 0.125), (0.12345, 0.123), (1, 1)])
def test_the_cores_are_shown_as_sessions_get_them(v1: Api, asked: float, given: float) -> None:
    name = make(v1, default_cpu_cores=asked)
    assert v1.get(f"/templates/{name}")["default_cpu_cores"] == given
    session = v1.get(f"/sessions/{v1.session(template_id=name)}").body
    assert float(session["resources"]["cpu"]) == given


def test_the_disk_of_a_template_file_follows_its_memory(v1: Api, v1_server: Server) -> None:
    (v1_server.templates / "small.template").write_text("memory = 128M\n")
    shown = v1.get("/templates/small")["default_disk_mb"]
    session = v1.get(f"/sessions/{v1.session(template_id='small')}").body
    assert shown == 64 and session["resources"]["disk"] == "64Mi"


def test_sessions_take_what_the_template_says(v1: Api) -> None:
    name = make(
        v1,
        preload=["decimal"],
        default_memory_mb=640,
        default_disk_mb=256,
        default_timeout=90,
        default_env_vars={"FROM_TEMPLATE": "yes"},
    )
    s = v1.get(f"/sessions/{v1.session(template_id=name)}").body
    assert s["template_id"] == name and s["timeout"] == 90
    assert s["resources"]["memory"] == "640Mi" and s["resources"]["cpu"] == "0.5"
    code = "import os, sys; ('decimal' in sys.modules, os.environ.get('FROM_TEMPLATE'))"
    assert v1.run(s["id"], code)["return_value"] == [True, "yes"]
    over = v1.post("/sessions", {"template_id": name, "mode": "persistent", "timeout": 60})
    assert over["timeout"] == 60


def test_taken_names_are_a_conflict(v1: Api) -> None:
    name = make(v1)
    check_error(v1.post("/templates", {"id": name}), 409, "Conflict", name)
    check_error(v1.post("/templates", {"id": "python"}), 409, "Conflict", "python")


def test_an_image_is_refused(v1: Api) -> None:
    """There is no container back end: a template must not pretend to be made from an image."""
    body = {"id": "imaged", "image_url": "docker.io/library/python:3.12"}
    check_error(v1.post("/templates", body), 422, "InvalidParameter", "container back end")
    assert v1.call("GET", "/templates/imaged").status == 404
    assert v1.post("/templates", {"id": "imaged", "image_url": None})["image_url"] is None
    changed = v1.call("PUT", "/templates/imaged", {"image_url": "python:3.12"})
    check_error(changed, 422, "InvalidParameter", "container back end")
    assert v1.call("DELETE", "/templates/imaged").status == 204


def test_unknown_base_is_refused(v1: Api) -> None:
    body = {"id": "t-" + uuid.uuid4().hex[:10], "base": "no-such"}
    check_error(v1.post("/templates", body), 422, "InvalidParameter", "base")


WRONG: list[Any] = [
    {},
    {"id": ""},
    {"id": "Upper"},
    {"id": "a/b"},
    {"id": "../x"},
    {"id": "x" * 64},
    {"id": "ok", "default_cpu_cores": 0.05},
    {"id": "ok", "default_cpu_cores": 4.1},
    {"id": "ok", "default_memory_mb": 127},
    {"id": "ok", "default_memory_mb": 8193},
    {"id": "ok", "default_disk_mb": 255},
    {"id": "ok", "default_disk_mb": 51201},
    {"id": "ok", "default_timeout": 59},
    {"id": "ok", "default_timeout": 86401},
    {"id": "ok", "preload": ["os; import sys"]},
    {"id": "ok", "preload": "os"},
    {"id": "ok", "default_env_vars": {"A B": "x"}},
    {"id": "ok", "colour": "red"},
]


TOO_MUCH: list[tuple[Any, str]] = [
    ({"default_env_vars": {f"A{i}": "x" for i in range(33)}}, "default_env_vars"),
    ({"default_env_vars": {"LONG": "x" * 251}}, "LONG"),
    ({"preload": ["m" * 128] * 8}, "preload"),
    ({"description": "x" * 160}, "description"),
    ({"description": "\u00e4" * 80}, "description"),
]


@pytest.mark.parametrize("fields,word", TOO_MUCH)
def test_more_than_a_template_has_room_for(v1: Api, fields: Any, word: str) -> None:
    name = "t-" + uuid.uuid4().hex[:10]
    check_error(v1.post("/templates", {"id": name, **fields}), 422, "InvalidParameter", word)
    check_error(v1.get(f"/templates/{name}"), 404, "TemplateNotFound")
    small = make(v1, description="first")
    check_error(v1.call("PUT", f"/templates/{small}", fields), 422, "InvalidParameter", word)
    made = v1.get(f"/templates/{small}")
    assert made["description"] == "first" and made["is_active"] is True


def test_as_much_as_a_template_has_room_for(v1: Api) -> None:
    free = 32 - count_env("python")
    variables = {f"A{i}": "x" for i in range(free - 1)} | {"LONG": "x" * 250}
    base = make(v1, default_env_vars=variables, description="x" * 159)
    s = v1.session(template_id=base)
    assert v1.run(s, "import os; len(os.environ['LONG'])")["return_value"] == 250
    body = {"id": "t-" + uuid.uuid4().hex[:10], "base": base, "default_env_vars": {"ONE": "more"}}
    check_error(v1.post("/templates", body), 422, "InvalidParameter", "default_env_vars", "base")


def test_what_is_missing_names_no_folder_of_the_host(v1: Api, v1_server: Server) -> None:
    folder = v1_server.templates
    (folder / "broken.template").write_text("env = A=1\n" * 33)
    (folder / "rootless.template").write_text(f"root = {folder}/none\n")
    broken, rootless = v1.get("/templates/broken").body, v1.get("/templates/rootless").body
    assert broken["is_active"] is False and "env: too many" in broken["missing"]
    assert rootless["is_active"] is False and "is not there" in rootless["missing"]
    assert str(folder) not in broken["missing"] + rootless["missing"]


@pytest.mark.parametrize("body", WRONG)
def test_wrong_bodies(v1: Api, body: Any) -> None:
    check_error(v1.post("/templates", body), 422, "InvalidParameter")


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "x\nruntime = /bin/false"},
        {"default_env_vars": {"A": "1\nmount = /"}},
        {"default_env_vars": {"A": "1\rmount = /"}},
    ],
)
def test_texts_cannot_break_out_of_the_definition(v1: Api, fields: Any) -> None:
    name = "t-" + uuid.uuid4().hex[:10]
    answer = v1.post("/templates", {"id": name, **fields})
    check_error(answer, 422, "InvalidParameter", next(iter(fields)))
    assert "one line" in answer["error_detail"]
    check_error(v1.get(f"/templates/{name}"), 404, "TemplateNotFound")
    sound = make(v1)
    check_error(v1.call("PUT", f"/templates/{sound}", fields), 422, "InvalidParameter", "line")


def test_list_has_built_in_ones_and_pages(v1: Api) -> None:
    name = make(v1)
    whole = v1.get("/templates?limit=200").body
    ids = [t["id"] for t in whole["items"]]
    assert ids == sorted(ids) and {"python", "shell", name} <= set(ids)
    assert whole["total"] == len(ids) and whole["has_more"] is False
    python = whole["items"][ids.index("python")]
    assert python["origin"] == "built-in" and python["is_active"] is True
    page = v1.get("/templates?limit=1&offset=1").body
    assert [t["id"] for t in page["items"]] == [ids[1]] and page["has_more"] is True
    assert v1.get("/templates?offset=100000")["items"] == []
    check_error(v1.get("/templates?limit=0"), 422, "InvalidParameter", "limit")


def test_update_changes_only_what_is_named(v1: Api) -> None:
    name = make(v1, description="first", default_memory_mb=300)
    answer = v1.call("PUT", f"/templates/{name}", {"default_timeout": 600, "name": "New"})
    assert answer.status == 200
    assert answer["default_timeout"] == 600 and answer["name"] == "New"
    assert answer["description"] == "first" and answer["default_memory_mb"] == 300
    assert v1.get(f"/templates/{name}").body == answer.body
    assert v1.get(f"/sessions/{v1.session(template_id=name)}")["timeout"] == 600


def test_live_sessions_keep_what_they_were_made_from(v1: Api) -> None:
    name = make(v1, default_memory_mb=300, default_disk_mb=256)
    s = v1.session(template_id=name)
    v1.call("PUT", f"/templates/{name}", {"default_memory_mb": 400})
    assert v1.get(f"/sessions/{s}")["resources"]["memory"] == "300Mi"
    fresh = v1.session(template_id=name)
    assert v1.get(f"/sessions/{fresh}")["resources"]["memory"] == "400Mi"


def test_update_refuses(v1: Api) -> None:
    name = make(v1)
    check_error(v1.call("PUT", f"/templates/{name}", {}), 422, "InvalidParameter")
    check_error(v1.call("PUT", f"/templates/{name}", {"id": "x"}), 422, "InvalidParameter", "id")
    check_error(v1.call("PUT", f"/templates/{name}", {"base": "shell"}), 422, "InvalidParameter")
    check_error(v1.call("PUT", "/templates/python", {"name": "x"}), 409, "Conflict", "python")
    check_error(v1.call("PUT", "/templates/absent", {"name": "x"}), 404, "TemplateNotFound")


def test_delete(v1: Api) -> None:
    name = make(v1)
    assert v1.call("DELETE", f"/templates/{name}").status == 204
    check_error(v1.get(f"/templates/{name}"), 404, "TemplateNotFound", name)
    check_error(v1.call("DELETE", f"/templates/{name}"), 404, "TemplateNotFound")
    check_error(v1.post("/sessions", {"template_id": name}), 404, "TemplateNotFound")
    check_error(v1.call("DELETE", "/templates/python"), 409, "Conflict")
    assert v1.post("/templates", {"id": name}).status == 201


def test_delete_waits_for_sessions_that_use_it(v1: Api) -> None:
    name = make(v1)
    s = v1.session(template_id=name)
    check_error(v1.call("DELETE", f"/templates/{name}"), 409, "Conflict")
    v1.post(f"/sessions/{s}/terminate")
    assert v1.call("DELETE", f"/templates/{name}").status == 204


def test_delete_waits_for_templates_that_are_made_from_it(v1: Api) -> None:
    base = make(v1)
    heir = make(v1, base=base)
    check_error(v1.call("DELETE", f"/templates/{base}"), 409, "Conflict", heir)
    assert v1.call("PUT", f"/templates/{heir}", {"name": "still of use"}).status == 200
    assert v1.call("DELETE", f"/templates/{heir}").status == 204
    assert v1.call("DELETE", f"/templates/{base}").status == 204


@pytest.fixture
def modules() -> Iterator[Path]:
    """Where a Python of its own finds modules. Not below /tmp, of which boxes have their own."""
    with tempfile.TemporaryDirectory(prefix="husk-test-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
        (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
        found = folder / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
        found.mkdir(parents=True)
        yield found


def preloading(module: str, found: Path) -> str:
    """A template of that Python."""
    venv = found.parents[2]
    return f"mount = {venv}\nruntime = {venv}/bin/python3\npreload = {module}\n"


# The module's text, and words of the answer. What is said is shown in one line, control characters
# as what they are.
FAILURES = {
    "raises": (
        "def load():\n    raise ImportError('Read this first.\\n\\nlibfoo.so: no such file\\x1b[1m')\nload()\n",
        [
            "preload of module 'fails_here'",
            "ImportError",
            r"libfoo.so: no such file\x1b[1m",
            "line 2",
        ],
    ),
    "has_a_cause": (
        "try:\n    import no_such_part\nexcept ImportError as e:\n    raise RuntimeError('no part') from e\n",
        ["RuntimeError: no part", "No module named 'no_such_part'"],
    ),
    "exits": (
        "raise SystemExit('the licence has expired')\n",
        ["SystemExit", "the licence has expired"],
    ),
    "crashes": (
        "import os\nos.write(2, b'engine: cannot find its licence\\n')\nos.abort()\n",
        ["died while starting (signal", "engine: cannot find its licence"],
    ),
    "ends": (
        "import os\nos.write(2, b'bye\\n\\n')\nos._exit(3)\n",
        ["died while starting (exit status 3)", "bye"],
    ),
    "talks": (
        "import os\nos.write(2, b'first words ' + b'x' * 100000 + b' last words\\n')\nos._exit(3)\n",
        ["first words", "last words"],
    ),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_template_that_cannot_start_says_why(
    v1: Api, v1_server: Server, modules: Path, how: str
) -> None:
    text, words = FAILURES[how]
    name = f"fails-{how.replace('_', '-')}"
    (modules / "fails_here.py").write_text(text)
    (v1_server.templates / f"{name}.template").write_text(preloading("fails_here", modules))
    answer = v1.post("/sessions", {"template_id": name, "mode": "persistent"})
    check_error(answer, 422, "InvalidParameter", *words)
    assert str(modules) not in answer["error_detail"] and "\n" not in answer["error_detail"]
    wait_until(lambda: f"template_failed template={name}" in v1_server.output, "a line of the log")
    line = next(x for x in v1_server.output.splitlines() if f"template_failed template={name}" in x)
    assert all(word in line for word in words), line


def test_a_mount_that_cannot_be_made_is_named(v1: Api, v1_server: Server, modules: Path) -> None:
    file = v1_server.templates / "misplaced.template"
    for line, words in (
        (f"{modules} /usr/nowhere/x", "Read-only file system"),
        (f"{modules}/none", "No such file"),
    ):
        file.write_text(f"mount = {line}\n")
        answer = v1.post("/sessions", {"template_id": "misplaced", "mode": "persistent"})
        check_error(answer, 422, "InvalidParameter", words)


def test_a_module_that_does_not_exist_is_named(v1: Api, v1_server: Server) -> None:
    (v1_server.templates / "lame.template").write_text("preload = no_such_module_at_all\n")
    answer = v1.post("/sessions", {"template_id": "lame", "mode": "persistent"})
    check_error(answer, 422, "InvalidParameter", "No module named 'no_such_module_at_all'")


def test_a_corrected_template_starts_without_a_restart(v1: Api, v1_server: Server) -> None:
    file = v1_server.templates / "mended.template"
    file.write_text("preload = no_such_module_at_all\n")
    body = {"template_id": "mended", "mode": "persistent"}
    assert v1.post("/sessions", body).status == 422
    assert v1.post("/sessions", body).status == 422
    file.write_text("preload = decimal\nmemory = 200M\n")
    session = v1.session(template_id="mended")
    assert v1.run(session, "import sys; 'decimal' in sys.modules")["return_value"] is True
    assert v1.get(f"/sessions/{session}")["resources"]["memory"] == "200Mi"


def test_a_running_template_follows_its_file(v1: Api, v1_server: Server) -> None:
    """Live sessions stay as they are; a file with a mistake changes nothing."""
    file = v1_server.templates / "changing.template"
    file.write_text("env = EDITION=1\n")
    code = "import os; os.environ['EDITION']"

    def edition() -> str:
        session = v1.post("/sessions", {"template_id": "changing"})["id"]
        seen: str = v1.run(session, code)["return_value"]
        v1.call("DELETE", f"/sessions/{session}")
        return seen

    old = v1.session(template_id="changing")
    assert v1.run(old, code)["return_value"] == "1"
    file.write_text("env = EDITION=2\n")
    wait_until(lambda: edition() == "2", "new sessions have the new definition")
    assert v1.run(old, code)["return_value"] == "1"
    file.write_text("env = EDITION=3\npreload = no_such_module_at_all\n")
    wait_until(lambda: "zygote_not_replaced template=changing" in v1_server.output, "it is refused")
    file.write_text("environment = EDITION=4\n")
    wait_until(lambda: 'unknown key "environment"' in v1_server.output, "and so is this")
    assert edition() == "2"
    file.write_text("env = EDITION=5\n")
    wait_until(lambda: edition() == "5", "the next correct one is used")


def test_a_module_that_starts_threads_is_left_to_the_boxes(
    v1: Api, v1_server: Server, modules: Path
) -> None:
    (modules / "threaded.py").write_text(
        "import os, threading, time\nos.environ['CHANGED'] = 'yes'\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    text = preloading("decimal threaded fractions", modules)
    (v1_server.templates / "threaded.template").write_text(text)
    session = v1.session(template_id="threaded")
    names = ["decimal", "threaded", "fractions"]
    seen = v1.run(
        session, f"import sys, os; ([n in sys.modules for n in {names}], 'CHANGED' in os.environ)"
    )
    assert seen["return_value"] == [[True, False, True], False]
    code = "import threaded, threading; threading.active_count()"
    assert v1.run(session, code)["return_value"] == 2
    shown = v1.get("/templates/threaded").body
    assert shown["not_preloaded"] == ["threaded: its import starts threads"]
    assert shown["is_active"] is True and shown["missing"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another account")
def test_a_python_in_a_closed_folder_is_named_as_that(
    v1: Api, v1_server: Server, modules: Path
) -> None:
    closed = modules / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy("/usr/bin/python3", closed / "python3")
    file = v1_server.templates / "closed.template"
    file.write_text(f"mount = {modules}\nruntime = {closed}/python3\n")
    answer = v1.post("/sessions", {"template_id": "closed", "mode": "persistent"})
    check_error(answer, 422, "InvalidParameter", "closed to other accounts")
    wait_until(lambda: f"the folder {closed} is closed" in v1_server.output, "the log has its path")
    modules.chmod(0o700)  # of huskd, too; what boxes see is the mount
    closed.chmod(0o755)
    assert v1.get("/templates/closed")["is_active"] is True


@pytest.mark.parametrize("module", ["antigravity", "no_such_module_at_all", "os.path"])
def test_modules_that_the_base_does_not_offer_are_refused(v1: Api, module: str) -> None:
    name = "t-" + uuid.uuid4().hex[:10]
    answer = v1.post("/templates", {"id": name, "preload": ["json", module]})
    check_error(answer, 422, "InvalidParameter", "preload", module, "offers")
    check_error(v1.get(f"/templates/{name}"), 404, "TemplateNotFound")
    sound = make(v1, preload=["json"])
    answer = v1.call("PUT", f"/templates/{sound}", {"preload": [module]})
    check_error(answer, 422, "InvalidParameter", "preload", module)
    assert v1.get(f"/templates/{sound}")["preload"] == ["json"]


def zygote_environments(server: Server) -> list[bytes]:
    """Of all processes that run zygote.py below the server."""
    found = []
    for process in below(server.process.pid):
        folder = Path(f"/proc/{process.pid}")
        with contextlib.suppress(OSError):
            if b"zygote.py" in (folder / "cmdline").read_bytes():
                found.append((folder / "environ").read_bytes())
    return found


def test_variables_of_a_client_reach_no_zygote(v1: Api, v1_server: Server) -> None:
    name = make(v1, default_env_vars={"BROWSER": "a-shell", "PYTHONSTARTUP": "/workspace/x.py"})
    s = v1.session(template_id=name)
    code = "import os; (os.environ['BROWSER'], os.environ['PYTHONSTARTUP'])"
    assert v1.run(s, code)["return_value"] == ["a-shell", "/workspace/x.py"]
    seen = zygote_environments(v1_server)
    assert seen and all(b"a-shell" not in e and b"PYTHONSTARTUP" not in e for e in seen)


def test_sessions_keep_the_variables_of_a_template_that_changes(v1: Api) -> None:
    name = make(v1, default_env_vars={"A": "first", "B": "first"})
    body = {"template_id": name, "mode": "persistent", "env_vars": {"B": "own"}}
    s = v1.post("/sessions", body)["id"]
    v1.call("PUT", f"/templates/{name}", {"default_env_vars": {"A": "second"}})
    assert v1.run(s, "import os; (os.environ['A'], os.environ['B'])")["return_value"] == [
        "first",
        "own",
    ]
    fresh = v1.session(template_id=name)
    assert v1.run(fresh, "import os; os.environ['A']")["return_value"] == "second"


def test_a_session_has_no_more_than_the_template_allows(v1: Api, v1_server: Server) -> None:
    (v1_server.templates / "bounded.template").write_text("memory = 128M\nmax_memory = 256M\n")
    wide = {"template_id": "bounded", "mode": "persistent", "resources": {"memory": "512Mi"}}
    check_error(v1.post("/sessions", wide), 422, "InvalidParameter", "memory", "at most")
    wide["resources"] = {"memory": "256Mi"}
    assert v1.post("/sessions", wide).status == 201


MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_session_has_no_more_memory_than_the_machine(v1: Api, v1_server: Server) -> None:
    """Otherwise there would be no limit. The operator may still allow it."""
    over = f"{(MACHINE >> 20) + 1}Mi"
    for memory in ("1024Gi", over):
        body = {"mode": "persistent", "resources": {"memory": memory}}
        check_error(v1.post("/sessions", body), 422, "InvalidParameter", "memory", str(MACHINE))
    most = v1.session(resources={"memory": f"{MACHINE >> 20}Mi"})
    assert v1.run(most, "1")["receipt"]["limits"]["memory_bytes"] == MACHINE >> 20 << 20
    (v1_server.templates / "large.template").write_text("max_memory = 1024G\n")
    large = v1.session(template_id="large", resources={"memory": over})
    assert v1.run(large, "1")["receipt"]["limits"]["memory_bytes"] > MACHINE


def test_defaults_are_lowered_to_the_memory_of_the_machine() -> None:
    """No client asked for them: the server serves, and the receipt says what a box got."""
    with Server.run("--memory", "1024G", "--disk", "700G") as server:
        api = Api(server.port)
        (server.templates / "vast.template").write_text("memory = 1024G\ndisk = 700G\n")
        for template in ("python", "vast"):
            for mode in ("persistent", "ephemeral"):
                session = api.session(template_id=template, mode=mode)
                limits = api.run(session, "1")["receipt"]["limits"]
                assert limits["memory_bytes"] == MACHINE
                assert limits["disk_bytes"] == MACHINE // 4 * 3


@pytest.mark.parametrize("method,body", [("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)])
def test_ids_that_are_none(v1: Api, method: str, body: Any) -> None:
    check_bad_ids(v1, method, "/templates/{}", body)


@pytest.mark.parametrize("how", ["owner", "mode", "link", "second_name"])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs another account")
def test_a_definition_that_others_could_write_is_not_used(
    v1: Api, v1_server: Server, tmp_path: Path, how: str
) -> None:
    """It decides what runs with the supervisor's rights."""
    file = v1_server.templates / f"theirs-{how.replace('_', '-')}.template"
    file.write_text("memory = 128M\n")
    if how == "owner":
        os.chown(file, 4242, 4242)
    elif how == "mode":
        file.chmod(0o666)
    elif how == "link":
        file.rename(v1_server.folder / "elsewhere")
        file.symlink_to(v1_server.folder / "elsewhere")
    else:
        os.link(file, v1_server.folder / "other")
    body = {"template_id": file.stem, "mode": "persistent"}
    check_error(v1.post("/sessions", body), 422, "InvalidParameter")
    said = f"{file.name} must be a plain file"
    wait_until(lambda: said in v1_server.output, "the log names the file")
    file.unlink()
