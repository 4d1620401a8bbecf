# SPDX-License-Identifier: Apache-2.0
"""The contract of huskd for people: docs/api.md and the page behind /docs, from one list of blocks.
"""
from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from typing import Any

from openapi_model import JSON_TYPE, Contract, Operation
from openapi_schema import Json, rules_of, types_of

SERVER = "http://127.0.0.1:8000"


@dataclass
class Block:
    """A heading (level 1 to 4), a paragraph (0), code (-1) or a table (-2)."""

    level: int
    text: str = ""
    rows: list[list[str]] | None = None  # the first is the head


HEADING_WORDS = re.compile(r"[^a-z0-9 _-]")


def anchor(text: str) -> str:
    return HEADING_WORDS.sub("", text.lower()).replace(" ", "-")


def paragraphs(text: str) -> list[Block]:
    """Markdown of the contract: paragraphs and tables."""
    blocks = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = part.split("\n")
        if part.startswith("|"):
            rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in lines]
            blocks.append(Block(-2, rows=[rows[0]] + rows[2:]))
        elif part:
            blocks.append(Block(0, " ".join(line.strip() for line in lines)))
    return blocks


def type_text(contract: Contract, schema: Json) -> str:
    schema = contract.get(schema)
    if "anyOf" in schema:
        return " or ".join(type_text(contract, part) for part in schema["anyOf"])
    types = types_of(schema)
    if types == ["array"]:
        return f"array of {type_text(contract, schema.get('items', {}))}"
    return " or ".join(types) or "any"


def bounds_text(contract: Contract, schema: Json) -> str:
    """What a value must be, in words."""
    schema = contract.get(schema)
    parts = []
    if "enum" in schema:
        parts.append("one of " + ", ".join(f"`{v}`" for v in schema["enum"]))
    if "minimum" in schema:
        parts.append(f"{schema['minimum']} to {schema['maximum']}")
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if high is not None and "enum" not in schema:
        parts.append(f"{low} to {high} characters")
    if "x-max-bytes" in schema:
        parts.append(f"at most {schema['x-max-bytes']} bytes")
    if "maxItems" in schema:
        parts.append(f"{schema.get('minItems', 0)} to {schema['maxItems']} items")
    if "maxProperties" in schema:
        parts.append(f"at most {schema['maxProperties']} members")
    if "pattern" in schema:
        parts.append(f"`{schema['pattern']}`")
    return "; ".join(parts)


def field_row(contract: Contract, name: str, schema: Json, is_required: bool) -> list[str]:
    full = contract.get(schema)
    if is_required:
        presence = "required"
    elif "default" in full:
        presence = f"`{json.dumps(full['default'])}`"
    else:
        presence = "-"
    meaning = full.get("description", "").strip()
    bounds = bounds_text(contract, full)
    text = " ".join(t for t in (meaning, f"({bounds})" if bounds else "") if t)
    return [f"`{name}`", type_text(contract, full), presence, text or "-"]


def fields(contract: Contract, schema: Json, prefix: str = "") -> list[list[str]]:
    schema = contract.get(schema)
    rows = []
    for name, member in schema.get("properties", {}).items():
        is_required = name in schema.get("required", [])
        rows.append(field_row(contract, prefix + name, member, is_required))
        full = contract.get(member)
        if "properties" in full:
            rows += fields(contract, full, f"{prefix}{name}.")
        elif "properties" in contract.get(full.get("items", {})):
            rows += fields(contract, full["items"], f"{prefix}{name}[].")
    return rows


RULE_TEXT = {
    "API_EXACTLY_ONE": "Exactly one of {} must be there.",
    "API_AT_MOST_ONE": "{} cannot be combined.",
    "API_NEEDS": "{} belong together: the first needs the others.",
}


def body_blocks(contract: Contract, op: Operation) -> list[Block]:
    body = op.raw["requestBody"]
    presence = "required" if body["required"] else "may be left out"
    blocks = []
    for kind, media in body["content"].items():
        text = f"**Body** `{kind}`, {presence}, at most {body['x-max-bytes']} bytes"
        schema = contract.get(media["schema"])
        more = schema.get("additionalProperties")
        if body.get("x-raw"):
            text += "; it passes as it is"
        elif kind == JSON_TYPE:
            text += "; unknown fields are " + ("refused" if more is False else "ignored")
        blocks.append(Block(0, text + "."))
        if rows := fields(contract, schema):
            blocks.append(Block(-2, rows=[["field", "type", "default", "meaning"]] + rows))
        for rule, names in rules_of(schema, op.id):
            shown = ", ".join(f"`{n}`" for n in names)
            blocks.append(Block(0, RULE_TEXT[rule].format(shown)))
    return blocks


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def curl(contract: Contract, op: Operation) -> str:
    words = ["curl", "-s"]
    if op.method != "get":
        words += ["-X", op.method.upper()]
    body: Json = op.raw.get("requestBody", {})
    content: Json = body.get("content", {})
    kinds = list(content)
    if body.get("x-raw"):  # what it passes on may depend on it
        accepted = contract.get(op.raw["responses"]["200"])["content"]
        words += ["-H", quoted("Accept: " + ", ".join(accepted))]
    if JSON_TYPE in kinds:
        example = json.dumps(content[JSON_TYPE]["example"])
        words += ["-H", quoted(f"Content-Type: {JSON_TYPE}"), "-d", quoted(example)]
    elif "multipart/form-data" in kinds:
        words += ["-F", "file=@in.csv"]
    elif kinds:
        words += ["-H", quoted(f"Content-Type: {kinds[0]}"), "--data-binary", "@in.bin"]
    query = [p for p in op.placed("query") if p.get("required")]
    suffix = "?" + "&".join(f"{p['name']}={p['example']}" for p in query) if query else ""
    return " ".join([*words, SERVER + op.example_path + suffix])


def example_of(contract: Contract, answer: Json) -> Any:
    media = answer.get("content", {}).get(JSON_TYPE)
    if media is None:
        return None
    return media.get("example", contract.get(media["schema"]).get("example"))


def operation_blocks(contract: Contract, op: Operation) -> list[Block]:
    blocks = [Block(3, f"{op.method.upper()} {op.path}")]
    blocks.append(Block(0, f"**{op.raw['summary']}.** Operation `{op.id}`."))
    if also := [o.path for o in contract.aliases(op)]:
        blocks.append(Block(0, "Also at " + ", ".join(f"`{p}`" for p in also) + "."))
    blocks += paragraphs(op.raw["description"])
    rows = []
    for parameter in op.parameters:
        required = bool(parameter.get("required"))
        schema = {**contract.get(parameter["schema"]), "description": parameter["description"]}
        row = field_row(contract, parameter["name"], schema, required)
        rows.append([row[0], parameter["in"], *row[1:]])
    if rows:
        blocks.append(Block(-2, rows=[["parameter", "in", "type", "default", "meaning"]] + rows))
    if "requestBody" in op.raw:
        blocks += body_blocks(contract, op)
    blocks.append(Block(-1, curl(contract, op)))
    answers = [["answer", "meaning"]]
    is_only_refused = not any(str(code)[0] == "2" for code in op.raw["responses"])
    first_example = None
    for code, answer in op.raw["responses"].items():
        full = contract.get(answer)
        kinds = ", ".join(f"`{k}`" for k in full.get("content", {}) if k != JSON_TYPE)
        description = " ".join(full["description"].split())
        answers.append([str(code), description + (f" ({kinds})" if kinds else "")])
        if first_example is None and str(code)[0] == ("5" if is_only_refused else "2"):
            first_example = example_of(contract, full)
    blocks.append(Block(-2, rows=answers))
    if first_example is not None:
        blocks.append(Block(-1, json.dumps(first_example, indent=2, ensure_ascii=False)))
    return blocks


def all_blocks(contract: Contract) -> list[Block]:
    blocks = [Block(1, "The HTTP API of huskd")]
    blocks += paragraphs(contract.doc["info"]["description"])
    rows = [["method", "path", "what it does"]]
    for op in contract.own():
        heading = f"{op.method.upper()} {op.path}"
        link = f"[`{op.path}`](#{anchor(heading)})"
        rows.append([op.method.upper(), link, op.raw["summary"]])
    blocks.append(Block(-2, rows=rows))
    order = sorted(contract.dialects, key=lambda d: d.name == "common")
    for dialect in order:
        blocks.append(Block(2, dialect.title))
        blocks += paragraphs(dialect.intro)
        for op in contract.own():
            if op.dialect == dialect.name:
                blocks += operation_blocks(contract, op)
    return blocks


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def markdown(contract: Contract) -> str:
    out = [
        "<!-- Made by tools/openapic.py from api/. Change the contract, then run tools/openapic.py --docs -->"
    ]
    for block in all_blocks(contract):
        if block.level > 0:
            out.append("#" * block.level + " " + block.text)
        elif block.level == 0:
            out.append(block.text)
        elif block.level == -1:
            language = "sh" if block.text.startswith("curl") else "json"
            out.append(f"```{language}\n{block.text}\n```")
        else:
            rows = block.rows or []
            lines = ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows]
            lines.insert(1, "|" + " --- |" * len(rows[0]))
            out.append("\n".join(lines))
    return "\n\n".join(out) + "\n"


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code,pre{font:14px/1.4 ui-monospace,monospace;background:#f3f3f3;border-radius:3px}
code{padding:0 .2em}pre{padding:.8em;overflow-x:auto}pre code{padding:0}
table{border-collapse:collapse;width:100%;margin:1rem 0;font-size:15px}
td,th{border-bottom:1px solid #ddd;padding:.3em .5em;text-align:left;vertical-align:top}
h3{margin-top:3rem;font:600 18px/1.4 ui-monospace,monospace}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}code,pre{background:#262626}
td,th{border-color:#444}a{color:#8ab4f8}}
"""


def inline(text: str) -> str:
    """Backticks, ** and links within a line."""
    text = html.escape(text, quote=False)
    text = re.sub(r"\[`([^`]*)`\]\((#[^)]*)\)", r'<a href="\2"><code>\1</code></a>', text)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


def table_html(rows: list[list[str]]) -> str:
    out = []
    for index, row in enumerate(rows):
        tag = "th" if index == 0 else "td"
        out.append("<tr>" + "".join(f"<{tag}>{inline(c)}</{tag}>" for c in row) + "</tr>")
    return "<table>" + "".join(out) + "</table>"


def page(contract: Contract) -> str:
    """One HTML page: no script, nothing from elsewhere."""
    out = ['<!doctype html><html lang="en"><meta charset="utf-8"><title>husk API</title>']
    out.append('<meta name="viewport" content="width=device-width,initial-scale=1">')
    out.append(f"<style>{STYLE}</style>")
    for block in all_blocks(contract):
        if block.level > 0:
            tag, name = f"h{block.level}", anchor(block.text)
            out.append(f'<{tag} id="{name}">{html.escape(block.text)}</{tag}>')
        elif block.level == 0:
            out.append(f"<p>{inline(block.text)}</p>")
        elif block.level == -1:
            out.append(f"<pre><code>{html.escape(block.text)}</code></pre>")
        else:
            out.append(table_html(block.rows or []))
    return "\n".join(out) + "</html>\n"
