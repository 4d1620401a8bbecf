# SPDX-License-Identifier: Apache-2.0
"""Adds to the contract, as it is served, what holds for every request and would only blur the files in api/.

Texts have no NUL, whole numbers fit 64 bits, an address has a longest length (src/api/contract/json.c, src/http/head.h).
Machines that read /openapi.json find these in the schemas; people read them once, in the introduction.
"""

from __future__ import annotations

import copy
from typing import Any

from openapi_model import JSON_TYPE, Contract, Operation
from openapi_schema import Json, resolve, types_of

NO_NUL = r"^[^\u0000]*$"
ANY = "JsonValue"
# A response of the dialect whose body is an error.
ERRORS = {
    "v1": "Invalid",
    "common": "Invalid",
    "run": "RunError",
    "workspace_se": "SeError",
    "agents": "AgentRefused",
}


def any_value() -> Json:
    """Any JSON that a request may have.

    Not recursive: tools that make data from it would not come to an end. A number has no bound: 1e300 is fine, and a
    schema cannot tell it from 300 digits.
    """
    return {
        "description": "Any JSON: texts and names without NUL, whole numbers of 64 bits; the same holds inside.",
        "anyOf": [
            {"type": ["boolean", "null"]},
            {"type": "number"},
            {"type": "string", "pattern": NO_NUL},
            {"type": "array"},
            {"type": "object", "propertyNames": {"pattern": NO_NUL}},
        ],
    }


def bound(schema: Json) -> None:
    """Adds the limits to the schema of a request."""
    types = types_of(schema)
    if "string" in types and not {"pattern", "enum"} & set(schema):
        schema["pattern"] = NO_NUL
    if "object" in types and schema.get("additionalProperties") is True:
        schema["additionalProperties"] = {"$ref": f"#/components/schemas/{ANY}"}
        schema.setdefault("propertyNames", {"pattern": NO_NUL})
    for member in schema.get("properties", {}).values():
        bound(member)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            bound(schema[key])


def referred(node: Any, doc: Json, seen: set[int]) -> None:
    """Bounds a schema and all schemas that it refers to; each once."""
    if isinstance(node, list):
        for item in node:
            referred(item, doc, seen)
    elif isinstance(node, dict) and id(node) not in seen:
        seen.add(id(node))
        if "$ref" in node:
            target: Any = doc
            for part in node["$ref"][2:].split("/"):
                target = target[part]
            referred(target, doc, seen)
        if "type" in node and not isinstance(node["type"], dict):
            bound(node)
        for value in list(node.values()):
            referred(value, doc, seen)


def fits(op: Operation, other: Operation) -> bool:
    """Whether the address of an operation is also one of another that takes the rest of a path."""
    wide, own = other.segments, op.segments
    return (
        other.has_tail
        and other.path != op.path
        and not op.has_tail
        and len(own) >= len(wide)
        and all(a == b or a.startswith("{") for a, b in zip(wide, own))
    )


def add_names(contract: Contract, doc: Json) -> None:
    """Adds operations of names that other routes have for other methods: GET .../files/move reads a file called move."""
    for op in contract.operations:
        item = doc["paths"][op.path]
        for other in contract.operations:
            if fits(op, other) and other.method not in item:
                raw = copy.deepcopy(doc["paths"][other.path][other.method])
                raw["operationId"] += "_" + op.segments[-1]
                raw["summary"] += f", called {op.segments[-1]}"
                item[other.method] = raw


def declared(contract: Contract) -> Json:
    """Returns the document with these limits."""
    doc: Json = copy.deepcopy(contract.doc)
    doc["components"]["schemas"][ANY] = any_value()
    seen: set[int] = {id(doc["components"]["schemas"][ANY])}
    for op in contract.operations:
        raw = doc["paths"][op.path][op.method]
        body = resolve(doc, raw.get("requestBody", {})).get("content", {})
        if JSON_TYPE in body:
            referred(body[JSON_TYPE]["schema"], doc, seen)
        response = resolve(doc, {"$ref": f"#/components/responses/{ERRORS[op.dialect]}"})
        raw["responses"].setdefault(
            "414",
            {
                "description": "The address has more than 8000 bytes.",
                "content": response["content"],
            },
        )
        raw["responses"] = dict(sorted(raw["responses"].items()))
    add_names(contract, doc)
    return doc
