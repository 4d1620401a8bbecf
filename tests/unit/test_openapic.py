# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/openapic.py: a contract that is incomplete or ambiguous does not build."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import openapi_docs  # noqa: E402
import openapi_limits  # noqa: E402
import openapi_model  # noqa: E402
import openapic  # noqa: E402
from openapi_model import METHODS  # noqa: E402
from openapi_schema import ContractError, check_value, size_bytes  # noqa: E402

Json = dict[str, Any]


def small_contract() -> Json:
    """The least that is accepted."""
    error: Json = {
        "description": "Wrong.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "additionalProperties": False},
                "example": {},
            }
        },
    }
    thing: Json = {
        "name": "thing_id",
        "in": "path",
        "required": True,
        "description": "Which.",
        "schema": {"type": "string", "x-format": "session-id", "maxLength": 64},
        "example": "t1",
    }
    body_schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["n"],
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 9},
            "s": {"type": "string", "maxLength": 8, "default": "x"},
            "list": {"type": "array", "maxItems": 3, "items": {"type": "boolean"}},
        },
    }
    post: Json = {
        "operationId": "thing_change",
        "tags": ["all"],
        "summary": "Change a thing",
        "description": "Durable.",
        "requestBody": {
            "required": True,
            "x-max-bytes": 100,
            "content": {"application/json": {"schema": body_schema, "example": {"n": 1}}},
        },
        "responses": {
            "204": {"description": "Changed."},
            "400": error,
            "415": error,
            "422": error,
        },
    }
    get: Json = {
        "operationId": "thing_get",
        "tags": ["all"],
        "summary": "Get a thing",
        "description": "Cheap.",
        "responses": {"200": {**error, "description": "It."}, "400": error, "422": error},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1", "description": "Things."},
        "tags": [{"name": "all"}],
        "x-dialect": "v1",
        "x-title": "Things",
        "paths": {"/things/{thing_id}": {"parameters": [thing], "post": post, "get": get}},
        "components": {},
    }


def load(tmp_path: Path, doc: Json) -> openapi_model.Contract:
    (tmp_path / "openapi.yaml").write_text(yaml.safe_dump(doc, sort_keys=False))
    return openapi_model.load(tmp_path)


def test_small_contract_is_accepted(tmp_path: Path) -> None:
    contract = load(tmp_path, small_contract())
    assert [op.id for op in contract.own()] == ["thing_change", "thing_get"]
    assert contract.own()[0].example_path == "/things/t1"


def at(doc: Json, *keys: Any) -> Any:
    node: Any = doc["paths"]["/things/{thing_id}"]
    for key in keys:
        node = node[key]
    return node


def body(doc: Json) -> Json:
    content = at(doc, "post", "requestBody", "content", "application/json")
    return content  # type: ignore[no-any-return]


def field(doc: Json, name: str) -> Json:
    return body(doc)["schema"]["properties"][name]  # type: ignore[no-any-return]


def remove(*path: Any) -> Callable[[Json], None]:
    def change(doc: Json) -> None:
        del at(doc, *path[:-1])[path[-1]]

    return change


def put(value: Any, *path: Any) -> Callable[[Json], None]:
    def change(doc: Json) -> None:
        at(doc, *path[:-1])[path[-1]] = value

    return change


def on_field(name: str, **values: Any) -> Callable[[Json], None]:
    """Sets members of a field's schema; None removes one."""

    def change(doc: Json) -> None:
        for key, value in values.items():
            key = key.replace("__", "-")
            if value is None:
                del field(doc, name)[key]
            else:
                field(doc, name)[key] = value

    return change


def on_body(**values: Any) -> Callable[[Json], None]:
    def change(doc: Json) -> None:
        for key, value in values.items():
            if value is None:
                del body(doc)["schema"][key]
            else:
                body(doc)["schema"][key] = value

    return change


def second_path(path: str, **item: Any) -> Callable[[Json], None]:
    """A further GET; what it says is a copy of the first."""

    def change(doc: Json) -> None:
        get = dict(at(doc, "get"), operationId="second")
        names = [s[1:-1] for s in path.split("/") if s.startswith("{")]
        parameters = [dict(at(doc, "parameters", 0), name=n) for n in names]
        doc["paths"][path] = {"parameters": parameters, "get": get, **item}

    return change


def forget_422(doc: Json) -> None:
    get = doc["paths"]["/other"]["get"]
    get["responses"] = {code: a for code, a in get["responses"].items() if code != "422"}


def tail(doc: Json) -> None:
    at(doc, "parameters", 0)["x-tail"] = "required"


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(doc: Json) -> None:
        for one in changes:
            one(doc)

    return change


def dangling(doc: Json) -> None:
    field(doc, "s").clear()
    field(doc, "s")["$ref"] = "#/components/schemas/Nothing"


def no_example(doc: Json) -> None:
    del body(doc)["example"]


def unused(doc: Json) -> None:
    doc["components"]["schemas"] = {"Lonely": {"type": "string"}}


def circle(doc: Json) -> None:
    doc["components"]["schemas"] = {"A": {"$ref": "#/components/schemas/A"}}


BROKEN: list[tuple[str, Callable[[Json], None]]] = [
    ("operationId is missing", remove("get", "operationId")),
    ("operationId is missing or not snake_case", put("getThing", "get", "operationId")),
    ("operationId thing_change is doubled", put("thing_change", "get", "operationId")),
    ("summary: one line", remove("get", "summary")),
    ("summary: one line", put("Ends with a stop.", "get", "summary")),
    ("summary: one line", put("x" * 91, "get", "summary")),
    ("description is missing", remove("get", "description")),
    ("needs exactly one tag", put(["other"], "get", "tags")),
    ("leads nowhere", dangling),
    ("is used nowhere", unused),
    ("refers to itself", circle),
    ("unknown method or key", put({}, "patch")),
    ("must be those of the path", put([], "parameters")),
    ("schema is missing", remove("parameters", 0, "schema")),
    ("example is missing", remove("parameters", 0, "example")),
    ("description is missing", remove("parameters", 0, "description")),
    ("a path parameter must be required", put(False, "parameters", 0, "required")),
    ("a string needs maxLength", put({"type": "string"}, "parameters", 0, "schema")),
    ("type must be string, integer", put({"type": "array"}, "parameters", 0, "schema")),
    ("unknown keys ['style']", put("simple", "parameters", 0, "style")),
    ("is too short or too long", put("x" * 65, "parameters", 0, "example")),
    ("requestBody needs `required` and x-max-bytes", remove("post", "requestBody", "x-max-bytes")),
    ("requestBody needs `required`", remove("post", "requestBody", "required")),
    ("has no content", put({}, "post", "requestBody", "content")),
    ("the body has no example", no_example),
    ("n is missing", lambda d: body(d).update(example={})),
    ("0 is out of range", lambda d: body(d).update(example={"n": 0})),
    ("m is no field", lambda d: body(d).update(example={"n": 1, "m": 2})),
    ("must say additionalProperties", on_body(additionalProperties=None)),
    ("must say why", on_body(additionalProperties=True)),
    ("is required but is no property", on_body(required=["n", "q"])),
    ("oneOf and not may only hold", on_body(oneOf=[{"properties": {}}])),
    ("oneOf must require one field", on_body(oneOf=[{"required": ["n", "s"]}])),
    ("allOf may only hold `not`", on_body(allOf=[{"required": ["n"]}])),
    ("['patternProperties'] is not enforced", on_body(patternProperties={})),
    ("a number needs minimum and maximum", on_field("n", minimum=None)),
    ("a number needs minimum and maximum", on_field("n", maximum=None)),
    ("minimum is above maximum", on_field("n", minimum=10)),
    ("has more than three decimals", on_field("n", type="number", minimum=0.0001)),
    ("['multipleOf'] is not enforced", on_field("n", multipleOf=2)),
    ("a string needs maxLength", on_field("s", maxLength=None)),
    ("pattern alone is not enforced", on_field("s", pattern="^x$")),
    ("x-format zip-code is unknown", on_field("s", x__format="zip-code")),
    ("enum must hold strings only", on_field("s", enum=["x", 1])),
    ("type must be given", on_field("s", type=None)),
    ("1 is no string", on_field("s", default=1)),
    ("an array needs items and maxItems", on_field("list", maxItems=None)),
    ("has no error answer", put({"204": {"description": "x"}}, "post", "responses")),
    ("no answer 422", put({"400": {"description": "x"}}, "get", "responses")),
    (
        "no answer 422",
        both(remove("post", "responses", "422"), put({}, "post", "responses", "400")),
    ),
    ("no answer 422", both(second_path("/other"), forget_422)),
    ("no answer 400", remove("get", "responses", "400")),
    ("no answer 415", remove("post", "responses", "415")),
    ("must be a status code", put({"description": "x"}, "get", "responses", "default")),
    ("must be a status code", put({"description": "x"}, "get", "responses", "100")),
    ("has no description", remove("get", "responses", "200", "description")),
    ("has no content", remove("get", "responses", "200", "content")),
    ("some paths also match /things/{other}", second_path("/things/{other}")),
    ("some paths also match /things/list", second_path("/things/list")),
    ("must come last", both(tail, second_path("/things/{thing_id}/more"))),
    ("some paths also match /things/a/b", both(tail, second_path("/things/a/b"))),
    ("must be plain or one parameter", second_path("/things/a b")),
    ("must be nothing but x-alias-of", second_path("/other", **{"x-alias-of": "/things"})),
]


@pytest.mark.parametrize("want, change", BROKEN, ids=[f"{i} {b[0]}" for i, b in enumerate(BROKEN)])
def test_broken_contract_is_refused(
    tmp_path: Path, want: str, change: Callable[[Json], None]
) -> None:
    doc = json.loads(json.dumps(small_contract()))
    change(doc)
    with pytest.raises(ContractError) as caught:
        load(tmp_path, doc)
    assert want in str(caught.value)


def test_shadowing_must_be_declared(tmp_path: Path) -> None:
    doc = small_contract()
    second_path("/things/list", **{"x-shadows": ["/things/{thing_id}"]})(doc)
    assert len(load(tmp_path, doc).operations) == 3


def test_what_refuses_nothing_needs_no_answer_for_it(tmp_path: Path) -> None:
    doc = small_contract()
    both(second_path("/other"), forget_422)(doc)
    doc["x-open-query"] = True
    assert len(load(tmp_path, doc).operations) == 3


def test_alias_is_a_second_path_of_the_same_operation(tmp_path: Path) -> None:
    doc = small_contract()
    doc["paths"]["/old/{thing_id}"] = {"x-alias-of": "/things/{thing_id}"}
    contract = load(tmp_path, doc)
    assert len(contract.own()) == 2 and len(contract.operations) == 4
    assert openapic.constant(contract.operations[2]) == "API_THING_CHANGE"


def test_doubled_keys_and_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "openapi.yaml").write_text("a: 1\na: 2\n")
    with pytest.raises(ContractError, match="key 'a' is doubled"):
        openapi_model.load(tmp_path)
    doc = small_contract()
    doc["x-include"] = ["more.yaml"]
    more = {"x-dialect": "v1", "paths": {"/things/{thing_id}": {}}}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(more))
    with pytest.raises(ContractError, match="is defined twice"):
        load(tmp_path, doc)


@pytest.fixture(scope="module")
def contract() -> openapi_model.Contract:
    return openapi_model.load(ROOT / "api")


def test_documents_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert openapic.main(["--check"]) == 0, capsys.readouterr().err


def test_check_notices_an_old_document(tmp_path: Path) -> None:
    old = tmp_path / "api.md"
    assert openapic.main(["--check", "--doc-file", str(old)]) == 1
    old.write_text((ROOT / "docs" / "api.md").read_text() + "\n")
    assert openapic.main(["--check", "--doc-file", str(old)]) == 1
    assert openapic.main(["--docs", "--doc-file", str(old)]) == 0
    assert openapic.main(["--check", "--doc-file", str(old)]) == 0


def test_wrong_contract_ends_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "openapi.yaml").write_text("x-dialect: other\n")
    assert openapic.main(["--source", str(tmp_path), "--out", str(tmp_path)]) == 1
    assert "x-dialect must be one of" in capsys.readouterr().err


def test_every_seed_route_is_there(contract: openapi_model.Contract) -> None:
    have = {(op.method.upper(), op.path) for op in contract.operations}
    v1 = "/api/v1"
    session = f"{v1}/sessions/{{session_id}}"
    execution = f"{v1}/executions/{{execution_id}}"
    second = f"{v1}/executions/sessions/{{session_id}}"
    want = {("POST", f"{session}/execute"), ("POST", f"{second}/execute")}
    want |= {("POST", f"{session}/execute-sync"), ("POST", f"{second}/execute-sync")}
    want |= {("GET", f"{session}/status"), ("GET", f"{session}/result")}
    want |= {("GET", f"{execution}/status"), ("GET", f"{execution}/result")}
    want |= {("GET", "/"), ("GET", "/health"), ("POST", "/run"), ("GET", "/metrics")}
    assert want <= have
    assert len([op for op in contract.own() if op.dialect == "workspace_se"]) == 18


@pytest.mark.parametrize("name", ["FilePath", "DirectoryPath", "SePath"])
def test_patterns_of_paths_say_what_the_server_accepts(
    contract: openapi_model.Contract, name: str
) -> None:
    """A name may hold any character, line breaks too."""
    pattern = contract.doc["components"]["schemas"][name]["pattern"]
    for good in ("a", "a/b", ".a", "a..", "...", "a\nb", "\n", "\u2028", "a\n/b"):
        assert re.search(pattern, good), good
    for bad in ("..", "a/..", "a/../b", "a\n/../b", "a\nb/.."):
        assert not re.search(pattern, bad), bad


def test_openapi_json_is_closed_and_lists_all(contract: openapi_model.Contract) -> None:
    part = openapic.part_of(contract, contract.doc, "workspace_se")
    openapi_model.check_refs(part)
    assert all(path.startswith("/workspace/se/") for path in part["paths"])
    listed = set()
    for item in contract.doc["paths"].values():
        listed |= {item[m]["operationId"] for m in openapi_model.METHODS if m in item}
    assert listed == {op.id for op in contract.operations}


def test_generated_text_is_stable(contract: openapi_model.Contract) -> None:
    again = openapi_model.load(ROOT / "api")
    for write in openapic.WRITERS.values():
        assert write(contract) == write(again)


def test_page_loads_nothing(contract: openapi_model.Contract) -> None:
    page = openapi_docs.page(contract)
    for word in ("<script", "<link", "<img", "src=", "@import", "url("):
        assert word not in page
    for op in contract.own():
        assert op.path in page


def test_markdown_has_every_operation(contract: openapi_model.Contract) -> None:
    text = openapi_docs.markdown(contract)
    for op in contract.own():
        assert f"### {op.method.upper()} {op.path}\n" in text
    for line in text.splitlines():
        assert not line.startswith("| ") or line.endswith(" |")


def test_examples_of_answers_are_those_of_successes(contract: openapi_model.Contract) -> None:
    """Where there is a success at all: an answer without an example must not be shown as an
    error.
    """
    for op in contract.own():
        blocks = openapi_docs.operation_blocks(contract, op)
        if any(str(code)[0] == "2" for code in op.raw["responses"]):
            assert all(
                "error_code" not in block.text for block in blocks if block.level == -1
            ), op.id


def test_example_of_a_command_has_no_variables(contract: openapi_model.Contract) -> None:
    (op,) = [op for op in contract.own() if op.id == "se_execute"]
    blocks = openapi_docs.operation_blocks(contract, op)
    assert "output_variables" not in blocks[-1].text and "returncode" in blocks[-1].text


def compile_c(folder: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    command = ["gcc", "-Wall", "-Wextra", "-Wmissing-prototypes", "-Werror", "-o", "program"]
    return subprocess.run(
        [*command, f"-I{folder}", f"-I{ROOT}/src", *sources],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def handlers_of(contract: openapi_model.Contract) -> list[str]:
    return [f"void api_{op.id}(struct api_call *call) {{ (void)call; }}" for op in contract.own()]


def test_a_missing_or_undocumented_handler_does_not_build(
    tmp_path: Path, contract: openapi_model.Contract
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    for name in ("api_ops.h", "api_handlers.c"):
        (tmp_path / name).write_text(openapic.WRITERS[name](contract))
    main = '#include "api_ops.h"\nint main(void) { return api_handlers[0] == 0; }\n'
    handlers = handlers_of(contract)

    def build(lines: list[str]) -> subprocess.CompletedProcess[str]:
        (tmp_path / "main.c").write_text(main + "\n".join(lines) + "\n")
        return compile_c(tmp_path, "main.c", "api_handlers.c")

    assert build(handlers).returncode == 0
    missing = build(handlers[1:])
    assert missing.returncode != 0 and "undefined reference to `api_metrics'" in missing.stdout
    extra = "void api_v1_secret(struct api_call *call) { (void)call; }"
    undocumented = build([*handlers, extra])
    assert undocumented.returncode != 0 and "no previous prototype" in undocumented.stdout
    assert "defined but not used" in build([*handlers, "static " + extra]).stdout


def test_assets_are_the_documents(contract: openapi_model.Contract) -> None:
    text = openapic.write_assets(contract)

    def array(name: str) -> bytes:
        start = text.index("{", text.index(f"{name}[]")) + 1
        return bytes(int(n) for n in text[start : text.index("}", start)].split(","))

    assert json.loads(array("openapi_data"))["openapi"] == "3.1.0"
    assert gzip.decompress(array("openapi_gzip")) == array("openapi_data")
    assert gzip.decompress(array("docs_html_gzip")).startswith(b"<!doctype html>")
    assert "/run" not in json.loads(array("se_data"))["paths"]


SIZES = [
    ("0", 0),
    ("64K", 65536),
    ("512m", 536870912),
    ("512Mi", 536870912),
    ("1Gi", 1073741824),
    ("2GB", 2147483648),
    ("1TiB", 1099511627776),
]


@pytest.mark.parametrize(
    "text, want", SIZES + [("1.5G", None), ("", None), ("1PB", None), ("1mB", None)]
)
def test_sizes_as_in_c(text: str, want: int | None) -> None:
    assert size_bytes(text) == want


def test_the_contract_publishes_the_sizes_that_are_taken() -> None:
    units = ["", "B", "x", "i", "iB", "P"]
    units += [u + end for u in "KMGTkmgt" for end in ("", "B", "i", "iB", "b")]
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "api").glob("*.yaml"))
    patterns = set(re.findall(r'pattern: "([^"]*KMG[^"]*)"', text))
    assert patterns
    for pattern in patterns:
        for unit in units:
            taken = size_bytes(f"64{unit}") is not None
            assert (re.search(pattern, f"64{unit}") is not None) == taken, (pattern, unit)


def test_values_are_checked_against_schemas() -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}
    check_value({}, schema, None, "x")
    check_value({}, schema, [1, 2], "x")
    with pytest.raises(ContractError, match="no part of anyOf"):
        check_value({}, schema, ["a"], "x")
    with pytest.raises(ContractError, match="is no integer"):
        check_value({}, {"type": "integer"}, True, "x")


def test_a_raw_body_is_described_and_not_parsed(tmp_path: Path) -> None:
    doc = small_contract()
    at(doc, "post", "requestBody")["x-raw"] = True
    at(doc, "post", "responses")["200"] = at(doc, "get", "responses", "200")
    contract = load(tmp_path, doc)
    assert openapic.body_kind(contract.own()[0]) == "API_BODY_RAW"
    shown = openapi_docs.markdown(contract)
    assert "Accept: application/json' -H 'Content-Type: application/json' -d '{\"n\": 1}'" in shown


def test_every_error_of_the_contract_is_explained(contract: openapi_model.Contract) -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    rows = re.findall(r"^\| ([0-9, ]+) \|", text[text.index("## What the server answers") :], re.M)
    explained = {code for row in rows for code in row.split(", ")}
    sent = {str(code) for op in contract.operations for code in op.raw["responses"]}
    assert {code for code in sent if code >= "400"} <= explained


def test_what_every_request_obeys_is_declared(contract: openapi_model.Contract) -> None:
    """In the document that is served: machines know no introduction."""
    doc = openapi_limits.declared(contract)
    request = doc["components"]["schemas"]["ExecuteRequest"]["properties"]
    assert not re.search(request["code"]["pattern"], "a\0b")
    assert re.search(request["code"]["pattern"], "a\nb")
    assert request["event"]["additionalProperties"] == {"$ref": "#/components/schemas/JsonValue"}
    below = "/api/v1/sessions/{session_id}/files/"
    for name in ("mkdir", "move", "upload"):
        assert {"get", "put", "delete", "post"} <= set(doc["paths"][below + name])
    operations = [op for item in doc["paths"].values() for m, op in item.items() if m in METHODS]
    assert len({op["operationId"] for op in operations}) == len(operations)
    assert all("414" in contract.get(op)["responses"] for op in operations)
    assert "JsonValue" not in contract.doc["components"]["schemas"], "the files stay as they are"
