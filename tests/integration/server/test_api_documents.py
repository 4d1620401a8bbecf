# SPDX-License-Identifier: Apache-2.0
"""The contract as the server shows it: for machines and for people."""
from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from husk_server import Server, server  # noqa: F401


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inside in value.items():
            if name == "$ref":
                yield inside
            else:
                yield from references(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from references(inside)


def test_openapi_follows_the_rules(server: Server) -> None:
    answer = server.get("/openapi.json")
    assert answer.headers["Content-Type"].startswith("application/json")
    doc = answer.json
    assert doc["openapi"].startswith("3.1.")
    assert {"title", "version"} <= set(doc["info"])
    ids = []
    for path, item in doc["paths"].items():
        assert path.startswith("/")
        names = re.findall(r"\{(\w+)\}", path)
        assert len(names) == len(set(names))
        for method in set(item) & {"get", "post", "put", "delete", "patch", "head", "options"}:
            operation = item[method]
            ids.append(operation["operationId"])
            assert operation["responses"]
            given = []
            for parameter in item.get("parameters", []) + operation.get("parameters", []):
                if "$ref" in parameter:
                    parameter = doc["components"]["parameters"][parameter["$ref"].rsplit("/", 1)[1]]
                assert parameter["in"] in ("path", "query", "header")
                assert "schema" in parameter
                if parameter["in"] == "path":
                    assert parameter["required"] is True
                    given.append(parameter["name"])
            assert sorted(given) == sorted(names), path
            for status, response in operation["responses"].items():
                assert re.fullmatch(r"[1-5]\d\d", status)
                assert "$ref" in response or "description" in response
    assert len(ids) == len(set(ids)) and len(ids) > 60
    for reference in references(doc):
        at = doc
        assert reference.startswith("#/")
        for step in reference[2:].split("/"):
            at = at[step.replace("~1", "/").replace("~0", "~")]


def test_no_answer_is_promised_that_nothing_sends(server: Server) -> None:
    """There are no tokens."""
    doc = server.get("/openapi.json").json
    promised = [
        (path, method)
        for path, item in doc["paths"].items()
        for method in set(item) & {"get", "post", "put", "delete"}
        if "401" in item[method]["responses"]
    ]
    assert promised == []
    codes = doc["components"]["schemas"]["Error"]["properties"]["error_code"]["enum"]
    assert "Sandbox.Unauthorized" not in codes


def test_every_documented_path_is_served(server: Server) -> None:
    """A method that no path has is answered with 405, and 404 would mean that there is no such
    path.
    """
    for path in server.get("/openapi.json").json["paths"]:
        filled = re.sub(r"\{\w+\}", "x1", path)
        answer = server.request("PATCH", filled)
        assert answer.status == 405, path
        assert answer.headers["Allow"]


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_documents_are_cached_by_etag_and_compressed(server: Server, path: str) -> None:
    plain = server.get(path)
    etag = plain.headers["ETag"]
    assert plain.status == 200 and re.fullmatch(r'"[^"]+"', etag)
    assert plain.headers["Content-Encoding"] is None
    zipped = server.get(path, {"Accept-Encoding": "br, gzip"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert zipped.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(zipped.body) == plain.body
    assert len(zipped.body) < len(plain.body) / 2
    assert server.get(path, {"Accept-Encoding": "gzip;q=0"}).headers["Content-Encoding"] is None
    for seen in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        unchanged = server.get(path, {"If-None-Match": seen})
        assert (unchanged.status, unchanged.body) == (304, b""), seen
        assert unchanged.headers["ETag"] == etag
    assert server.get(path, {"If-None-Match": '"other"'}).status == 200


class Resources(HTMLParser):
    """What a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "link", "base", "form"):
            self.found.append(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "poster", "background") or name.startswith("on"):
                self.found.append(f"{tag} {name}={value}")


def test_docs_load_nothing_from_elsewhere(server: Server) -> None:
    answer = server.get("/docs")
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    parser = Resources()
    parser.feed(answer.text)
    assert parser.found == []
    assert "@import" not in answer.text and "url(" not in answer.text
    for path in ("/api/v1/sessions", "/run", "/workspace/se"):
        assert path in answer.text


def test_documents_can_be_switched_off() -> None:
    with Server.run("--docs", "false") as server:
        for path in ("/docs", "/openapi.json"):
            answer = server.get(path)
            assert (answer.status, answer.json["error_code"]) == (404, "Sandbox.NotFound")
        assert server.get("/api/v1/health").status == 200
