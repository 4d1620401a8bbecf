# SPDX-License-Identifier: Apache-2.0
"""Schemas of the contract: references, the subset that requests may use, and values against them.

Requests are checked in C (src/api/contract/schema.c), so their schemas may only say what is enforced there.
Answers are described more freely; for them this only proves that the examples are true.
"""
from __future__ import annotations

import json
import re
from typing import Any

Json = dict[str, Any]


class ContractError(Exception):
    """Where the contract is wrong, and what is."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


# x-format names; src/api/contract/schema.h has the same list.
FORMATS = (
    "agent-id",
    "cpu",
    "cursor",
    "date-time",
    "env-name",
    "execution-id",
    "file-path",
    "idempotency-key",
    "identifier",
    "not-blank",
    "relative-path",
    "se-path",
    "session-id",
    "size",
    "template-name",
)
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
MESSAGES = ("format", "too-short", "too-long", "type")

ANYWHERE = {"type", "description", "default", "x-format", "enum", "example"}
ANYWHERE |= {f"x-message-{m}" for m in MESSAGES}
NUMBERS = {"minimum", "maximum"}
STRINGS = {"minLength", "maxLength", "pattern", "x-max-bytes", "contentMediaType"}
ARRAYS = {"items", "minItems", "maxItems"}
OBJECTS = {"properties", "required", "additionalProperties", "propertyNames", "minProperties"}
OBJECTS |= {"maxProperties", "oneOf", "allOf", "dependentRequired", "x-open"}


def resolve(doc: Json, node: Json) -> Json:
    """Follows $ref; what stands beside it wins over what is there."""
    seen = []
    beside: Json = {}
    while "$ref" in node:
        ref = node["$ref"]
        if ref in seen:
            raise ContractError(ref, "refers to itself")
        seen.append(ref)
        beside = {**{k: v for k, v in node.items() if k != "$ref"}, **beside}
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise ContractError(str(ref), f"$ref {ref!r} must begin with #/")
        target: Any = doc
        for part in ref[2:].split("/"):
            if not isinstance(target, dict) or part not in target:
                raise ContractError(ref, f"$ref {ref} leads nowhere")
            target = target[part]
        node = target
    return {**node, **beside} if beside else node


def types_of(schema: Json) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def size_bytes(text: str) -> int | None:
    """As parse_size() in src/base/parse.c."""
    match = re.fullmatch(r"([0-9]+)(?:([KMGTkmgt])|([KMGT])(?:B|iB?)|B)?", text)
    if match is None:
        return None
    unit = (match.group(2) or match.group(3) or "").upper()
    return int(match.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]


# ---- schemas of requests ----


def check_request_schema(doc: Json, schema: Json, where: str) -> None:
    """Only what schema.c enforces, and nothing without a bound."""
    schema = resolve(doc, schema)
    types = types_of(schema)
    if not types or not set(types) <= set(TYPES):
        raise ContractError(where, f"type must be given, of {', '.join(TYPES)}")
    check_keywords(schema, types, where)
    check_bounds(schema, types, where)
    if "array" in types:
        if "items" not in schema or "maxItems" not in schema:
            raise ContractError(where, "an array needs items and maxItems")
        check_request_schema(doc, schema["items"], f"{where}[]")
    if "object" in types:
        check_object(doc, schema, where)
    if "default" in schema:
        check_value(doc, schema, schema["default"], f"{where}: default")


def check_keywords(schema: Json, types: list[str], where: str) -> None:
    allowed = set(ANYWHERE)
    allowed |= NUMBERS if {"integer", "number"} & set(types) else set()
    allowed |= STRINGS if "string" in types else set()
    allowed |= ARRAYS if "array" in types else set()
    allowed |= OBJECTS if "object" in types else set()
    if unknown := set(schema) - allowed:
        text = f"{sorted(unknown)} is not enforced for {'/'.join(types)}"
        raise ContractError(where, text)
    if "x-format" in schema and schema["x-format"] not in FORMATS:
        raise ContractError(where, f"x-format {schema['x-format']} is unknown")
    if "pattern" in schema and "x-format" not in schema:
        raise ContractError(where, "pattern alone is not enforced, name an x-format")
    if "enum" in schema and not all(isinstance(v, str) for v in schema["enum"]):
        raise ContractError(where, "enum must hold strings only")


def check_bounds(schema: Json, types: list[str], where: str) -> None:
    if {"integer", "number"} & set(types) and not NUMBERS <= set(schema):
        raise ContractError(where, "a number needs minimum and maximum")
    if "string" in types and not {"enum", "maxLength", "x-max-bytes"} & set(schema):
        raise ContractError(where, "a string needs maxLength, x-max-bytes or enum")
    if schema.get("minimum", 0) > schema.get("maximum", schema.get("minimum", 0)):
        raise ContractError(where, "minimum is above maximum")
    for key in NUMBERS & set(schema):
        thousandths = schema[key] * 1000
        if abs(thousandths - round(thousandths)) > 1e-6:
            raise ContractError(where, f"{key} has more than three decimals")


def check_object(doc: Json, schema: Json, where: str) -> None:
    more = schema.get("additionalProperties")
    if more is None:
        raise ContractError(where, "an object must say additionalProperties")
    if more is not False and not schema.get("x-open"):
        raise ContractError(where, "an open object must say why (x-open)")
    if isinstance(more, dict):
        check_request_schema(doc, more, f"{where}.*")
        if "maxProperties" not in schema:
            raise ContractError(where, "an object of any names needs maxProperties")
    if "propertyNames" in schema:
        check_request_schema(doc, schema["propertyNames"], f"{where}, names")
    fields = schema.get("properties", {})
    for name, value in fields.items():
        check_request_schema(doc, value, f"{where}.{name}")
    named = list(schema.get("required", []))
    for rule in rules_of(schema, where):
        named += rule[1]
    for name in named:
        if name not in fields:
            raise ContractError(where, f"{name} is required but is no property")


def rules_of(schema: Json, where: str) -> list[tuple[str, list[str]]]:
    """How fields depend on each other, as (kind, names); kinds as in struct api_rule."""
    rules = []

    def required_only(node: Json) -> list[str]:
        if set(node) != {"required"}:
            raise ContractError(where, "oneOf and not may only hold `required`")
        return list(node["required"])

    if "oneOf" in schema:
        names = [required_only(node) for node in schema["oneOf"]]
        if any(len(n) != 1 for n in names):
            raise ContractError(where, "each part of oneOf must require one field")
        rules.append(("API_EXACTLY_ONE", [n[0] for n in names]))
    for node in schema.get("allOf", []):
        if set(node) != {"not"}:
            raise ContractError(where, "allOf may only hold `not`")
        rules.append(("API_AT_MOST_ONE", required_only(node["not"])))
    for name, needs in schema.get("dependentRequired", {}).items():
        rules.append(("API_NEEDS", [name, *needs]))
    return rules


# ---- values, for examples and defaults ----


def type_name(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "object"


def check_value(doc: Json, schema: Json, value: Any, where: str) -> None:
    """Raises when the value breaks a rule of the schema."""
    schema = resolve(doc, schema)
    shown = json.dumps(value)[:60]
    if "anyOf" in schema:
        for part in schema["anyOf"]:
            try:
                return check_value(doc, part, value, where)
            except ContractError:
                continue
        raise ContractError(where, f"{shown} matches no part of anyOf")
    types, got = types_of(schema), type_name(value)
    if types and got not in types and not (got == "integer" and "number" in types):
        raise ContractError(where, f"{shown} is no {'/'.join(types)}")
    if "enum" in schema and value not in schema["enum"]:
        raise ContractError(where, f"{shown} is not one of {schema['enum']}")
    if got == "string":
        check_string(schema, value, where)
    elif got in ("integer", "number"):
        check_range(schema, value, where)
    elif got == "array":
        for index, item in enumerate(value):
            check_value(doc, schema.get("items", {}), item, f"{where}[{index}]")
        check_count(schema, len(value), "Items", where)
    elif got == "object":
        check_members(doc, schema, value, where)


def check_string(schema: Json, value: str, where: str) -> None:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise ContractError(where, f"{value[:40]!r} is too short or too long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise ContractError(where, f"{value[:40]!r} does not match {schema['pattern']}")
    if schema.get("x-format") == "size":
        check_range(schema, size_bytes(value), where)
    elif schema.get("x-format") == "cpu":
        check_range(schema, float(value), where)


def check_range(schema: Json, value: float | None, where: str) -> None:
    if value is None:
        raise ContractError(where, "is no size")
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise ContractError(where, f"{value} is out of range")


def check_count(schema: Json, n: int, kind: str, where: str) -> None:
    if not schema.get(f"min{kind}", 0) <= n <= schema.get(f"max{kind}", n):
        raise ContractError(where, f"{n} is too few or too many")


def check_members(doc: Json, schema: Json, value: Json, where: str) -> None:
    fields = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    for name in schema.get("required", []):
        if name not in value:
            raise ContractError(where, f"{name} is missing")
    for name, member in value.items():
        if name in fields:
            check_value(doc, fields[name], member, f"{where}.{name}")
        elif more is False:
            raise ContractError(where, f"{name} is no field")
        elif isinstance(more, dict):
            check_value(doc, more, member, f"{where}.{name}")
    for kind, names in rules_of(schema, where):
        n = sum(name in value for name in names)
        wrong = {
            "API_EXACTLY_ONE": n != 1,
            "API_AT_MOST_ONE": n > 1,
            "API_NEEDS": names[0] in value and n != len(names),
        }
        if wrong[kind]:
            raise ContractError(where, f"{kind} of {', '.join(names)} does not hold")
    check_count(schema, len(value), "Properties", where)
