# SPDX-License-Identifier: Apache-2.0
"""Templates of /api/v1 against a real huskd."""
from __future__ import annotations

import contextlib
import os
import uuid
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
    {"id": "ok", "default_timeout": 3601},
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


def test_a_template_that_cannot_start_says_so(v1: Api, v1_server: Server) -> None:
    (v1_server.templates / "lame.template").write_text("preload = no_such_module_at_all\n")
    answer = v1.post("/sessions", {"template_id": "lame", "mode": "persistent"})
    check_error(answer, 422, "InvalidParameter", "preloaded module")


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
