#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the contract of huskd (api/*.yaml) to C tables, to documents and to openapi.json.

Reading and refusing is the work of openapi_model.py; this file writes the results.

    openapic.py --out FOLDER    api_ops.h api_tables.c api_assets.c api_handlers.c api_examples.h
    openapic.py --docs          writes docs/api.md
    openapic.py --check         fails when docs/api.md is not what --docs would write
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import openapi_docs
import openapi_limits
from openapi_model import JSON_TYPE, METHODS, Contract, Operation, load
from openapi_schema import MESSAGES, ContractError, Json, rules_of, types_of

ROOT = Path(__file__).resolve().parent.parent
HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tools/openapic.py from api/. */\n"
BYTES_PER_LINE = 24


def c_string(text: str | None) -> str:
    """A C literal; bytes that are not plain ASCII in octal, so that no digit can join them."""
    if text is None:
        return "NULL"
    out = ""
    for byte in text.encode():
        char = chr(byte)
        plain = " " <= char <= "~" and char not in '"\\?'
        out += char if plain else f"\\{byte:03o}"
    return f'"{out}"'


def constant(op: Operation) -> str:
    return "API_" + (op.alias_of or op.id).upper()


def format_constant(schema: Json) -> str:
    name: str = schema.get("x-format", "none")
    return "API_FORMAT_" + name.upper().replace("-", "_")


class Tables:
    """C definitions in the order they are needed; equal ones are written once."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.lines: list[str] = []
        self.names: dict[str, str] = {}

    def define(self, prefix: str, declaration: str, value: str) -> str:
        key = declaration + value
        if key not in self.names:
            name = f"{prefix}_{len(self.names)}"
            self.names[key] = name
            self.lines.append(f"static const {declaration.replace('@', name)} = {value};")
        return self.names[key]

    def strings(self, values: list[str]) -> str:
        text = ", ".join([c_string(v) for v in values] + ["NULL"])
        return self.define("strings", "char *const @[]", "{" + text + "}")

    def fields(self, items: list[tuple[str, Json, bool]]) -> str:
        if not items:
            return "NULL"
        rows = []
        for name, schema, is_required in items:
            rows.append(f"{{{c_string(name)}, &{self.schema(schema)}, {str(is_required).lower()}}}")
        return self.define("fields", "struct api_field @[]", "{\n    " + ",\n    ".join(rows) + "}")

    def messages(self, schema: Json) -> str:
        texts = [schema.get(f"x-message-{m}") for m in MESSAGES]
        if not any(texts):
            return "NULL"
        value = "{" + ", ".join(c_string(t) for t in texts) + "}"
        return "&" + self.define("messages", "struct api_messages @", value)

    def rules(self, schema: Json) -> tuple[str, int]:
        rules = [f"{{{kind}, {self.strings(names)}}}" for kind, names in rules_of(schema, "rules")]
        if not rules:
            return "NULL", 0
        return self.define("rules", "struct api_rule @[]", "{" + ", ".join(rules) + "}"), len(rules)

    def schema(self, node: Json) -> str:
        """The name of its table."""
        schema = self.contract.get(node)
        types = types_of(schema)
        scale = 1000 if "number" in types else 1
        members: dict[str, str] = {}
        members["types"] = " | ".join(f"API_TYPE_{t.upper()}" for t in types)
        if "x-format" in schema:
            members["format"] = format_constant(schema)
        for key, name in (("minimum", "min"), ("maximum", "max")):
            if key in schema:
                members[f"has_{name}"] = "true"
                members[name] = f"INT64_C({round(schema[key] * scale)})"
        for key, name in (
            ("minLength", "min_length"),
            ("maxLength", "max_length"),
            ("x-max-bytes", "max_bytes"),
            ("minItems", "min_items"),
            ("maxItems", "max_items"),
            ("minProperties", "min_items"),
            ("maxProperties", "max_items"),
        ):
            if key in schema:
                members[name] = str(schema[key])
        if "enum" in schema:
            members["values"] = self.strings(schema["enum"])
        if "default" in schema:
            members["fallback"] = c_string(json.dumps(schema["default"]))
        if "items" in schema:
            members["items"] = "&" + self.schema(schema["items"])
        if "object" in types:
            self.object_members(schema, members)
        if (messages := self.messages(schema)) != "NULL":
            members["messages"] = messages
        text = ", ".join(f".{name} = {value}" for name, value in members.items())
        return self.define("schema", "struct api_schema @", "{" + text + "}")

    def object_members(self, schema: Json, members: dict[str, str]) -> None:
        more = schema["additionalProperties"]
        members["is_closed"] = "true" if more is False else "false"
        if isinstance(more, dict):
            members["items"] = "&" + self.schema(more)
        if "propertyNames" in schema:
            members["name_format"] = format_constant(schema["propertyNames"])
        required = schema.get("required", [])
        fields = [(n, s, n in required) for n, s in schema.get("properties", {}).items()]
        members["fields"], members["n_fields"] = self.fields(fields), str(len(fields))
        rules, n_rules = self.rules(schema)
        members["rules"], members["n_rules"] = rules, str(n_rules)

    def parameters(self, op: Operation, place: str) -> str:
        items = []
        for p in op.placed(place):
            name = p["name"].lower() if place == "header" else p["name"]
            items.append((name, p["schema"], bool(p.get("required"))))
        return self.fields(items)


# ---- routes ----


class Node:
    def __init__(self, text: str | None) -> None:
        self.text = text  # None: a parameter
        self.kind = "API_NODE_LITERAL" if text is not None else "API_NODE_PARAMETER"
        self.children: dict[str, Node] = {}
        self.op: Operation | None = None


def tree_of(contract: Contract, method: str) -> Node:
    root = Node("")
    for op in contract.operations:
        if op.method != method:
            continue
        node = root
        for index, segment in enumerate(op.segments):
            is_parameter = segment.startswith("{")
            is_tail = op.has_tail and index == len(op.segments) - 1
            if is_tail and op.tail_is_optional:
                node.op = op
            key = "*" if is_tail else "{}" if is_parameter else segment
            child = node.children.setdefault(key, Node(None if is_parameter else segment))
            if is_tail:
                child.kind = "API_NODE_REST"
            node = child
        node.op = op
    return root


def node_rows(contract: Contract) -> tuple[list[str], list[int]]:
    """Breadth first, so that children lie together: literals by name, then parameter, then rest."""
    kinds = ("API_NODE_LITERAL", "API_NODE_PARAMETER", "API_NODE_REST")
    queue = [tree_of(contract, method) for method in METHODS]
    roots = list(range(len(METHODS)))
    rows = []
    index = 0
    while index < len(queue):
        node = queue[index]
        children = sorted(node.children.values(), key=lambda n: (kinds.index(n.kind), n.text or ""))
        first = len(queue)
        queue += children
        op = constant(node.op) if node.op is not None else "API_OPS"
        text = c_string(node.text)
        length = len(node.text or "")
        rows.append(f"{{{text}, {length}, {node.kind}, {first}, {len(children)}, {op}}}")
        index += 1
    return rows, roots


# ---- what is said about operations ----


def body_kind(op: Operation) -> str:
    body = op.raw.get("requestBody", {})
    kinds = list(body.get("content", {}))
    if not kinds:
        return "API_BODY_NONE"
    if body.get("x-raw"):
        return "API_BODY_RAW"
    if kinds == [JSON_TYPE]:
        return "API_BODY_JSON"
    return "API_BODY_MULTIPART" if kinds == ["multipart/form-data"] else "API_BODY_RAW"


def op_row(tables: Tables, op: Operation) -> str:
    body = op.raw.get("requestBody", {})
    kind = body_kind(op)
    schema = "NULL"
    if kind == "API_BODY_JSON":
        schema = "&" + tables.schema(body["content"][JSON_TYPE]["schema"])
    members = {
        "id": c_string(op.id),
        "dialect": f"API_{op.dialect.upper()}",
        "body": kind,
        "body_required": str(bool(body.get("required"))).lower(),
        "open_query": str(op.open_query).lower(),
        "body_max": f"UINT64_C({body.get('x-max-bytes', 0)})",
        "body_schema": schema,
        "path": tables.parameters(op, "path"),
        "query": tables.parameters(op, "query"),
        "headers": tables.parameters(op, "header"),
        "n_path": str(len(op.placed("path"))),
        "n_query": str(len(op.placed("query"))),
        "n_headers": str(len(op.placed("header"))),
    }
    text = ",\n     ".join(f".{name} = {value}" for name, value in members.items())
    return f"[{constant(op)}] = {{{text}}}"


def write_ops(contract: Contract) -> str:
    out = [HEAD + "#pragma once\n", "struct api_call;\n", "enum api_op {"]
    out += [f"    {constant(op)}," for op in contract.own()]
    out += ["    API_OPS", "};\n"]
    out.append(
        "/* One function per operation. It must exist, and no other may be called api_<id>. */"
    )
    out += [f"void api_{op.id}(struct api_call *call);" for op in contract.own()]
    out.append("\nextern void (*const api_handlers[API_OPS])(struct api_call *call);\n")
    return "\n".join(out)


def write_handlers(contract: Contract) -> str:
    rows = [f"    [{constant(op)}] = api_{op.id}," for op in contract.own()]
    table = "void (*const api_handlers[API_OPS])(struct api_call *call) = {\n"
    return HEAD + '#include "api_ops.h"\n\n' + table + "\n".join(rows) + "\n};\n"


def write_tables(contract: Contract) -> str:
    tables = Tables(contract)
    ops = [op_row(tables, op) for op in contract.own()]
    nodes, roots = node_rows(contract)
    out = [HEAD + '#include "api/contract/tables.h"\n', *tables.lines]
    out.append("\nconst struct api_op_info api_op_infos[API_OPS] = {\n    ")
    out[-1] += ",\n    ".join(ops) + "};"
    out.append("\nconst struct api_node api_nodes[] = {\n    " + ",\n    ".join(nodes) + "};")
    rows = [f"[API_{m.upper()}] = {r}" for m, r in zip(METHODS, roots)]
    out.append("\nconst uint16_t api_roots[API_METHODS] = {" + ", ".join(rows) + "};\n")
    return "\n".join(out)


def write_examples(contract: Contract) -> str:
    rows = []
    for op in contract.operations:
        method, path = c_string(op.method.upper()), c_string(op.example_path)
        request = op.raw.get("requestBody", {})
        body = request.get("content", {}).get(JSON_TYPE)
        is_checked = body and not request.get("x-raw")
        text = c_string(json.dumps(body["example"])) if is_checked else "NULL"
        rows.append(f"    {{{constant(op)}, {method}, {path}, {text}}},")
    head = HEAD + "/* For tests: a request for every route of the contract. */\n#pragma once\n\n"
    head += "static const struct {\n    enum api_op op;\n    const char *method;\n"
    head += "    const char *path;\n    const char *body;\n} api_examples[] = {\n"
    return head + "\n".join(rows) + "\n};\n"


# ---- documents ----


def part_of(contract: Contract, whole: Json, dialect: str) -> Json:
    """The document with the paths of one dialect and the components that they use."""
    paths = {op.path for op in contract.operations if op.dialect == dialect}
    doc = {k: v for k, v in whole.items() if k not in ("paths", "components")}
    doc["paths"] = {p: item for p, item in whole["paths"].items() if p in paths}
    components: Json = {}
    text = json.dumps(doc["paths"])
    size = -1
    while size != len(text):
        size = len(text)
        for kind, items in whole["components"].items():
            used = {n: v for n, v in items.items() if f'"#/components/{kind}/{n}"' in text}
            if used:
                components[kind] = used
        text = json.dumps([doc["paths"], components])
    doc["components"] = components
    return doc


def byte_array(name: str, data: bytes) -> str:
    lines = []
    for at in range(0, len(data), BYTES_PER_LINE):
        lines.append(",".join(str(b) for b in data[at : at + BYTES_PER_LINE]))
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def write_assets(contract: Contract) -> str:
    def compact(doc: Any) -> bytes:
        return json.dumps(doc, separators=(",", ":"), ensure_ascii=False).encode()

    doc = openapi_limits.declared(contract)
    assets = [
        ("OPENAPI", "application/json", compact(doc)),
        ("SE", "application/json", compact(part_of(contract, doc, "workspace_se"))),
        ("DOCS_HTML", "text/html; charset=utf-8", openapi_docs.page(contract).encode()),
    ]
    out = [HEAD + '#include "api/contract/tables.h"\n']
    rows = []
    for name, content_type, data in assets:
        packed = gzip.compress(data, 9, mtime=0)
        etag = c_string('"' + hashlib.sha256(data).hexdigest()[:16] + '"')
        plain, zipped = f"{name.lower()}_data", f"{name.lower()}_gzip"
        out += [byte_array(plain, data), byte_array(zipped, packed)]
        rows.append(
            f"    [API_ASSET_{name}] = {{{c_string(content_type)}, {etag}, {plain}, sizeof({plain}),"
            f" {zipped}, sizeof({zipped})}},"
        )
    out.append("const struct api_asset api_assets[API_ASSETS] = {\n" + "\n".join(rows) + "\n};\n")
    return "\n".join(out)


WRITERS = {
    "api_ops.h": write_ops,
    "api_tables.c": write_tables,
    "api_assets.c": write_assets,
    "api_handlers.c": write_handlers,
    "api_examples.h": write_examples,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Compiles the contract of huskd.")
    parser.add_argument("--source", type=Path, default=ROOT / "api")
    parser.add_argument("--doc-file", type=Path, default=ROOT / "docs" / "api.md")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path)
    what.add_argument("--docs", action="store_true")
    what.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    try:
        contract = load(given.source)
    except ContractError as error:
        print(f"openapic.py: {error}", file=sys.stderr)
        return 1
    if given.out is not None:
        for name, write in WRITERS.items():
            (given.out / name).write_text(write(contract), encoding="utf-8")
        return 0
    text = openapi_docs.markdown(contract)
    if given.docs:
        given.doc_file.write_text(text, encoding="utf-8")
        return 0
    if not given.doc_file.exists() or given.doc_file.read_text(encoding="utf-8") != text:
        print(f"{given.doc_file}: not current; run tools/openapic.py --docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
