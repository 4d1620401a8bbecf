# SPDX-License-Identifier: Apache-2.0
"""Reads the contract of huskd (api/openapi.yaml and what it includes) and refuses what is
incomplete.

The result is a Contract: the merged OpenAPI document and its operations, resolved. A mistake is a
ContractError that names the place; nothing is guessed and no keyword is ignored, for a rule that is
written down but not enforced is worse than none.
"""
from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from openapi_schema import ContractError, check_request_schema, check_value, resolve

Json = dict[str, Any]

METHODS = ("get", "post", "put", "delete")
DIALECTS = ("common", "v1", "run", "workspace_se", "agents")
PARAMETERS_MAX = 4  # API_PATH_PARAMS_MAX in src/api/contract/route.h
JSON_TYPE = "application/json"
SUMMARY_MAX = 90


class Loader(yaml.SafeLoader):
    """YAML in which a doubled key is a mistake."""


def unique_mapping(loader: Loader, node: yaml.MappingNode) -> Json:
    construct: Any = loader.construct_object
    result: Json = {}
    for key_node, value_node in node.value:
        key = construct(key_node, deep=True)
        if key in result:
            raise ContractError(f"line {key_node.start_mark.line + 1}", f"key {key!r} is doubled")
        result[key] = construct(value_node, deep=True)
    return result


Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, unique_mapping)


@dataclass
class Operation:
    """One method of one path."""

    id: str
    method: str
    path: str
    dialect: str
    raw: Json
    parameters: list[Json] = field(default_factory=list)  # resolved, in the order of the path first
    alias_of: str | None = None  # id of the operation whose second path this is
    open_query: bool = False

    @property
    def segments(self) -> list[str]:
        return [] if self.path == "/" else self.path[1:].split("/")

    def placed(self, place: str) -> list[Json]:
        return [p for p in self.parameters if p["in"] == place]

    @property
    def has_tail(self) -> bool:
        return any("x-tail" in p for p in self.placed("path"))

    @property
    def tail_is_optional(self) -> bool:
        return any(p.get("x-tail") == "optional" for p in self.placed("path"))

    @property
    def example_path(self) -> str:
        path = self.path
        for parameter in self.placed("path"):
            path = path.replace("{" + parameter["name"] + "}", str(parameter["example"]))
        return path


@dataclass
class Dialect:
    name: str
    title: str
    intro: str


@dataclass
class Contract:
    doc: Json  # what openapi.json shows
    operations: list[Operation]  # aliases too
    dialects: list[Dialect]

    def own(self) -> list[Operation]:
        """One per handler."""
        return [op for op in self.operations if op.alias_of is None]

    def aliases(self, op: Operation) -> list[Operation]:
        return [o for o in self.operations if o.alias_of == op.id]

    def get(self, node: Json) -> Json:
        return resolve(self.doc, node)


def read_yaml(path: Path) -> Json:
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        raise ContractError(path.name, str(error)) from None
    except ContractError as error:
        raise ContractError(f"{path.name}, {error.where}", error.what) from None
    if not isinstance(value, dict):
        raise ContractError(path.name, "must be a mapping")
    return value


def merge(doc: Json, part: Json, name: str) -> None:
    """Adds paths and components of an included file. A name may exist once."""
    pairs = [("paths", doc["paths"], part.get("paths", {}))]
    components = doc.setdefault("components", {})
    for kind, items in part.get("components", {}).items():
        pairs.append((kind, components.setdefault(kind, {}), items))
    for kind, into, items in pairs:
        for key, value in items.items():
            if key in into:
                raise ContractError(name, f"{kind}: {key} is defined twice")
            into[key] = value


def load(folder: Path) -> Contract:
    doc = read_yaml(folder / "openapi.yaml")
    files = [("openapi.yaml", doc)]
    files += [(name, read_yaml(folder / name)) for name in doc.pop("x-include", [])]
    dialect_of: dict[str, Json] = {}
    dialects = []
    for name, part in files:
        if part.get("x-dialect") not in DIALECTS:
            raise ContractError(name, f"x-dialect must be one of {', '.join(DIALECTS)}")
        dialect_of.update({path: part for path in part["paths"]})
        if "x-title" in part:
            dialects.append(Dialect(part["x-dialect"], part["x-title"], part.get("x-intro", "")))
        if part is not doc:
            merge(doc, part, name)
    check_refs(doc)
    operations = list(read_operations(doc, dialect_of))
    for key in ("x-dialect", "x-title", "x-intro"):
        doc.pop(key, None)
    contract = Contract(doc, operations, dialects)
    check(contract)
    return contract


def read_operations(doc: Json, dialect_of: dict[str, Json]) -> Iterator[Operation]:
    for path, item in doc["paths"].items():
        alias = item.pop("x-alias-of", None)
        if alias is not None:
            if alias not in doc["paths"] or item:
                raise ContractError(path, f"must be nothing but x-alias-of a path, not {alias}")
            item.update(copy.deepcopy(doc["paths"][alias]))
        part = dialect_of[path]
        shared = item.get("parameters", [])
        for method, raw in item.items():
            if method in ("parameters", "x-shadows"):
                continue
            where = f"{method.upper()} {path}"
            if method not in METHODS:
                raise ContractError(where, f"unknown method or key; known: {', '.join(METHODS)}")
            op = Operation(raw.get("operationId", ""), method, path, part["x-dialect"], raw)
            op.open_query = bool(part.get("x-open-query", False))
            op.parameters = [resolve(doc, p) for p in shared + raw.get("parameters", [])]
            if alias is not None:
                op.alias_of = op.id
                raw["operationId"] = op.id = op.id + "_alias"
            yield op


def walk(node: Any, where: str) -> Iterator[tuple[str, Json]]:
    """Every mapping below a node, with its place."""
    if isinstance(node, dict):
        yield where, node
        for key, value in node.items():
            yield from walk(value, f"{where}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from walk(value, f"{where}/{index}")


def check_refs(doc: Json) -> None:
    used = set()
    for where, node in walk(doc, "#"):
        if "$ref" in node:
            try:
                resolve(doc, node)
            except ContractError as error:
                raise ContractError(where, error.what) from None
            used.add(node["$ref"])
    for kind, items in doc["components"].items():
        for name in items:
            if f"#/components/{kind}/{name}" not in used:
                raise ContractError(f"components/{kind}/{name}", "is used nowhere")


def check(contract: Contract) -> None:
    seen: set[str] = set()
    tags = {tag["name"] for tag in contract.doc["tags"]}
    for op in contract.operations:
        where = f"{op.method.upper()} {op.path}"
        if not re.fullmatch(r"[a-z][a-z0-9_]*", op.id):
            raise ContractError(where, "operationId is missing or not snake_case")
        if op.id in seen:
            raise ContractError(where, f"operationId {op.id} is doubled")
        seen.add(op.id)
        check_text(op, where, tags)
        check_path(op, where)
        for parameter in op.parameters:
            check_parameter(contract, parameter, f"{where}, parameter {parameter.get('name')}")
        if "requestBody" in op.raw:
            check_body(contract, op.raw["requestBody"], where)
        check_responses(contract, op, where)
    check_ambiguity(contract)
    for name, schema in contract.doc["components"].get("schemas", {}).items():
        if "example" in schema:
            check_value(contract.doc, schema, schema["example"], f"schemas/{name}: example")


def check_text(op: Operation, where: str, tags: set[str]) -> None:
    summary = op.raw.get("summary", "")
    if not summary or "\n" in summary or len(summary) > SUMMARY_MAX or summary.endswith("."):
        raise ContractError(where, f"summary: one line, at most {SUMMARY_MAX}, no full stop")
    if not op.raw.get("description"):
        raise ContractError(where, "description is missing: what does it promise?")
    if len(op.raw.get("tags", [])) != 1 or op.raw["tags"][0] not in tags:
        raise ContractError(where, "needs exactly one tag, of those in openapi.yaml")


def check_path(op: Operation, where: str) -> None:
    in_path = re.findall(r"\{(\w+)\}", op.path)
    declared = [p["name"] for p in op.placed("path")]
    if in_path != declared:
        text = f"path parameters {declared} must be those of the path, in its order: {in_path}"
        raise ContractError(where, text)
    if len(in_path) > PARAMETERS_MAX:
        raise ContractError(where, f"more than {PARAMETERS_MAX} path parameters")
    for segment in op.segments:
        if not re.fullmatch(r"[A-Za-z0-9._-]+|\{\w+\}", segment):
            raise ContractError(where, f"segment {segment!r} must be plain or one parameter")
    for parameter in op.placed("path"):
        name = "{" + parameter["name"] + "}"
        if "x-tail" in parameter and (op.segments[-1] != name or len(in_path) == 0):
            raise ContractError(where, f"{name} has x-tail, so it must come last")
    for place in ("path", "query", "header"):
        names = [p["name"].lower() for p in op.placed(place)]
        if len(names) != len(set(names)):
            raise ContractError(where, f"a {place} parameter is doubled")


def check_parameter(contract: Contract, parameter: Json, where: str) -> None:
    known = {"name", "in", "required", "description", "schema", "example", "x-tail"}
    if unknown := set(parameter) - known:
        raise ContractError(where, f"unknown keys {sorted(unknown)}")
    if parameter.get("in") not in ("path", "query", "header"):
        raise ContractError(where, "`in` must be path, query or header")
    if parameter["in"] == "path" and parameter.get("required") is not True:
        raise ContractError(where, "a path parameter must be required")
    for key in ("schema", "description", "example"):
        if key not in parameter:
            raise ContractError(where, f"{key} is missing")
    schema = contract.get(parameter["schema"])
    if schema.get("type") not in ("string", "integer", "number", "boolean"):
        raise ContractError(where, "type must be string, integer, number or boolean")
    check_request_schema(contract.doc, schema, where)
    check_value(contract.doc, schema, parameter["example"], f"{where}: example")


def check_body(contract: Contract, body: Json, where: str) -> None:
    if not isinstance(body.get("x-max-bytes"), int) or "required" not in body:
        raise ContractError(where, "requestBody needs `required` and x-max-bytes")
    if unknown := set(body) - {"required", "x-max-bytes", "x-raw", "content"}:
        raise ContractError(where, f"requestBody: unknown keys {sorted(unknown)}")
    if not body.get("content"):
        raise ContractError(where, "requestBody has no content")
    if JSON_TYPE in body["content"] and len(body["content"]) > 1:
        raise ContractError(where, "a JSON body must be the only kind of body")
    for kind, media in body["content"].items():
        if "schema" not in media:
            raise ContractError(where, f"{kind} has no schema")
        schema = contract.get(media["schema"])
        check_request_schema(contract.doc, schema, f"{where}, body")
        if kind != JSON_TYPE:
            continue
        if schema.get("type") != "object":
            raise ContractError(where, "a JSON body must be an object")
        if "example" not in media:
            raise ContractError(where, "the body has no example")
        check_value(contract.doc, schema, media["example"], f"{where}, body: example")


def check_responses(contract: Contract, op: Operation, where: str) -> None:
    codes = [str(code) for code in op.raw.get("responses", {})]
    if not any(code[0] in "45" for code in codes):
        raise ContractError(where, "has no error answer")
    can_refuse = op.parameters or "requestBody" in op.raw or not op.open_query
    if can_refuse and "422" not in codes:
        raise ContractError(where, "may refuse a parameter or its body but has no answer 422")
    if (op.placed("path") or op.placed("query")) and "400" not in codes:
        raise ContractError(where, "has parameters in its address but no answer 400")
    if op.method != "get" and "415" not in codes:  # call_body.c looks at the type of any body
        raise ContractError(where, "may get a body of the wrong type but has no answer 415")
    for code in codes:
        if not re.fullmatch(r"101|[2345]\d\d", code):
            raise ContractError(where, f"answer {code}: must be a status code")
        answer = contract.get(op.raw["responses"][code])
        if not answer.get("description"):
            raise ContractError(where, f"answer {code} has no description")
        if code in ("101", "204", "304"):
            continue
        if not answer.get("content"):
            raise ContractError(where, f"answer {code} has no content")
        for kind, media in answer["content"].items():
            schema = contract.get(media.get("schema", {}))
            if not schema:
                raise ContractError(where, f"answer {code}: {kind} has no schema")
            example = media.get("example", schema.get("example"))
            if kind == JSON_TYPE and example is None:
                raise ContractError(where, f"answer {code} has no example")
            if example is not None:
                check_value(contract.doc, schema, example, f"{where}, answer {code}: example")


def can_both_match(a: Operation, b: Operation) -> bool:
    """True if some path matches both. A tail takes any rest; an optional one also none."""

    def is_parameter(segment: str) -> bool:
        return segment.startswith("{")

    for index in range(max(len(a.segments), len(b.segments)) + 1):
        for op in (a, b):
            if op.has_tail and index == len(op.segments) - 1:
                other = b if op is a else a
                rest = len(other.segments) - index
                return rest > 0 or op.tail_is_optional
        if index >= len(a.segments) or index >= len(b.segments):
            return len(a.segments) == len(b.segments)
        x, y = a.segments[index], b.segments[index]
        if not (is_parameter(x) or is_parameter(y) or x == y):
            return False
    return False


def shape(op: Operation) -> list[str]:
    parts = ["{}" if s.startswith("{") else s for s in op.segments]
    return parts[:-1] + ["{tail}"] if op.has_tail else parts


def check_ambiguity(contract: Contract) -> None:
    for index, a in enumerate(contract.operations):
        for b in contract.operations[index + 1 :]:
            if a.method != b.method or not can_both_match(a, b):
                continue
            shadows = contract.doc["paths"][a.path].get("x-shadows", [])
            shadows_back = contract.doc["paths"][b.path].get("x-shadows", [])
            declared = b.path in shadows or a.path in shadows_back
            if shape(a) == shape(b) or not declared:
                where = f"{a.method.upper()} {a.path}"
                raise ContractError(where, f"some paths also match {b.path}: rename, or x-shadows")
