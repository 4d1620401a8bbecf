# SPDX-License-Identifier: Apache-2.0
"""Files of a session over /api/v1 against a real huskd: every route, success and failure."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from file_samples import MIB, form, pattern
from husk_server import server
from v1_client import Answer, Api, check_error
from v1_files import RAW, api, folder, get, names, put, raw_get, sid, url

__all__ = ["api", "folder", "server", "sid"]


# ---- plain use ----


def test_write_read_describe_delete(api: Api, sid: str, folder: str) -> None:
    path = f"{folder}/a/b.txt"
    first = put(api, sid, path, b"hello")
    assert first.status == 201
    assert (first["session_id"], first["file_path"], first["size"]) == (sid, path, 5)
    again = put(api, sid, path, b"hello again")
    assert again.status == 200 and again["size"] == 11

    got = get(api, sid, path)
    assert (got.status, got.raw) == (200, b"hello again")
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-disposition"].startswith('attachment; filename="b.txt"')

    entry = api.get(f"/sessions/{sid}/file-stat/{quote(path)}").body
    assert entry["etag"] == got.headers["etag"] == again["etag"] != first["etag"]
    assert (entry["name"], entry["path"], entry["type"]) == ("b.txt", path, "file")
    assert (entry["size"], entry["mode"]) == (11, "0644")
    assert entry["container_path"] == f"/workspace/{path}"

    assert api.run(sid, f"print(open({path!r}).read())")["stdout"] == "hello again\n"
    assert api.call("DELETE", url(sid, path)).status == 204
    check_error(get(api, sid, path), 404, "FileNotFound", path)


def test_slashes_may_be_encoded(api: Api, sid: str, folder: str) -> None:
    """As clients do that are made from the contract: the path is one parameter to them."""
    below = f"/sessions/{sid}"
    path = quote(f"{folder}/a/b%2Fc.txt", safe="")  # a name that only looks encoded stays one
    put = {"Content-Type": "application/octet-stream"}
    made = api.call("PUT", f"{below}/files/{path}", headers=put, raw=b"hello")
    assert made.status == 201 and made["file_path"] == f"{folder}/a/b%2Fc.txt"
    assert api.get(f"{below}/files/{path}").raw == b"hello"
    assert api.get(f"{below}/files/{folder}/a%2F{quote('b%2Fc.txt')}").raw == b"hello"
    assert api.get(f"{below}/file-stat/{path}")["name"] == "b%2Fc.txt"
    assert names(api, sid, f"{folder}/a") == [f"{folder}/a/b%2Fc.txt"]
    assert api.call("DELETE", f"{below}/files/{path}").status == 204
    # It separates no segments of a route, and no id has one.
    for target in (f"/sessions%2F{sid}", f"/sessions/{sid}%2Ffiles", f"/sessions/a%2F{sid}"):
        assert api.call("GET", target, is_known=False).status in (404, 422)


def test_what_code_writes_is_there(api: Api, sid: str, folder: str) -> None:
    api.run(sid, f"import os; os.mkdir({folder!r}); open({folder + '/x.csv'!r}, 'w').write('1,2')")
    got = get(api, sid, f"{folder}/x.csv")
    assert got.raw == b"1,2" and got.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize(
    "seconds,shown",
    [(0, "1970-01-01T00:00:00"), (-5, "1969-12-31T23:59:55"), (2**34, "2262-04-11T23:47:16")],
)
def test_times_that_code_sets(api: Api, sid: str, folder: str, seconds: int, shown: str) -> None:
    """What nanoseconds in 64 bits cannot say is shown as the last time that they can."""
    api.run(sid, f"import os; open({folder!r}, 'w'); os.utime({folder!r}, ({seconds}, {seconds}))")
    entry = api.get(f"/sessions/{sid}/file-stat/{quote(folder)}").body
    assert entry["modified_time"].startswith(shown)


def test_empty_file(api: Api, sid: str, folder: str) -> None:
    path = f"{folder}/empty"
    assert put(api, sid, path, b"")["size"] == 0
    got = get(api, sid, path)
    assert (got.status, got.raw, got.headers["content-length"]) == (200, b"", "0")
    assert get(api, sid, path, Range="bytes=0-0").status == 416


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_upload_as_form(api: Api, sid: str, folder: str, chunked: bool) -> None:
    data = pattern(3 * MIB)
    body, kind = form([("file", "from client.bin", data)])
    target = f"/api/v1/sessions/{sid}/files/upload?path={quote(folder)}/up.bin"
    connection = api.connect()
    pieces: Any = iter([body[: 1 << 20], body[1 << 20 :]]) if chunked else body
    connection.request("POST", target, pieces, {"Content-Type": kind}, encode_chunked=chunked)
    got = connection.getresponse()
    assert got.status == 201, got.read()
    connection.close()
    assert get(api, sid, f"{folder}/up.bin").raw == data


def test_upload_takes_the_name_of_the_part(api: Api, sid: str) -> None:
    body, kind = form([("file", "näme 1.txt", b"abc")])
    answer = api.call(
        "POST", f"/sessions/{sid}/files/upload", raw=body, headers={"Content-Type": kind}
    )
    assert answer.status == 201 and answer["file_path"] == "näme 1.txt"
    assert get(api, sid, "näme 1.txt").raw == b"abc"


BAD_FORMS: list[tuple[str, list[tuple[str, str | None, bytes]], str, int]] = [
    ("no part", [], "", 422),
    ("another part", [("data", "a", b"x")], "", 422),
    ("a part too many", [("file", "a", b"x"), ("more", None, b"y")], "", 422),
    ("two files", [("file", "a", b"x"), ("file", "b", b"y")], "", 422),
    ("no name", [("file", None, b"x")], "", 422),
    ("a path as name", [("file", "a/b", b"x")], "", 422),
    ("dots as name", [("file", "..", b"x")], "", 422),
    ("an absolute name", [("file", "/etc/passwd", b"x")], "", 422),
    ("path leads out", [("file", "a", b"x")], "?path=../a", 422),
]


@pytest.mark.parametrize("what, parts, query, status", BAD_FORMS, ids=[row[0] for row in BAD_FORMS])
def test_bad_forms_write_nothing(
    api: Api, what: str, parts: list[tuple[str, str | None, bytes]], query: str, status: int
) -> None:
    sid = api.session()
    body, kind = form(parts)
    target = f"/sessions/{sid}/files/upload{query}"
    answer = api.call("POST", target, raw=body, headers={"Content-Type": kind})
    check_error(answer, status, "InvalidParameter")
    assert names(api, sid) == []


def test_form_that_stops_early_writes_nothing(api: Api, sid: str, folder: str) -> None:
    body, kind = form([("file", "a", b"0123456789")])
    target = f"/sessions/{sid}/files/upload?path={quote(folder)}/cut"
    answer = api.call("POST", target, raw=body[:-8], headers={"Content-Type": kind})
    check_error(answer, 400, "InvalidParameter")
    assert get(api, sid, f"{folder}/cut").status == 404


def test_wrong_types_and_addresses_are_in_the_contract(api: Api, sid: str) -> None:
    plain = {"Content-Type": "text/plain"}
    for method, path in (
        ("POST", f"/sessions/{sid}/files/mkdir"),
        ("POST", f"/sessions/{sid}/files/upload"),
        ("POST", f"/sessions/{sid}/terminate"),
        ("DELETE", url(sid, "no")),
    ):
        check_error(api.call(method, path, raw=b"x", headers=plain), 415, "InvalidParameter")
    packed = {"Content-Encoding": "gzip"}
    check_error(api.call("PUT", url(sid, "x"), raw=b"x", headers=packed), 415, "InvalidParameter")
    for method in ("GET", "PUT", "DELETE"):
        answer = api.call(method, f"/sessions/{sid}/files/%ff", headers={})
        check_error(answer, 400, "InvalidParameter", "malformed target")
    check_error(api.get("/sessions?limit=%ff"), 400, "InvalidParameter", "malformed target")


# ---- directories ----


def test_make_directories(api: Api, sid: str, folder: str) -> None:
    def mkdir(path: str, **fields: Any) -> Answer:
        return api.post(f"/sessions/{sid}/files/mkdir", {"path": path, **fields})

    made = mkdir(f"{folder}/x/y")
    assert made.status == 201 and made["type"] == "directory" and made["etag"] is None
    assert mkdir(f"{folder}/x/y").status == 201
    check_error(mkdir(f"{folder}/x/y", parents=False), 409, "Conflict")
    check_error(mkdir(f"{folder}/no/z", parents=False), 404, "FileNotFound")
    put(api, sid, f"{folder}/file")
    check_error(mkdir(f"{folder}/file/z"), 409, "Conflict")
    assert api.post(f"/sessions/{sid}/files/mkdir", {"path": ""}).status == 422
    assert api.post(f"/sessions/{sid}/files/mkdir", {"path": "a", "x": 1}).status == 422


def test_move(api: Api, sid: str, folder: str) -> None:
    def move(source: str, target: str, **fields: Any) -> Answer:
        body = {"from": f"{folder}/{source}", "to": f"{folder}/{target}", **fields}
        return api.post(f"/sessions/{sid}/files/move", body)

    put(api, sid, f"{folder}/a", b"a")
    put(api, sid, f"{folder}/d/b", b"b")
    moved = move("a", "c")
    assert moved.status == 200 and moved["path"] == f"{folder}/c"
    check_error(move("a", "c"), 404, "FileNotFound", f"{folder}/a to {folder}/c: No such")
    check_error(move("c", "no/c"), 404, "FileNotFound", f"{folder}/c to {folder}/no/c: No such")
    check_error(move("c", "d/b"), 409, "Conflict", f"{folder}/c to {folder}/d/b: File exists")
    onto = move("c", "d", overwrite=True)
    check_error(onto, 409, "Conflict", f"{folder}/c to {folder}/d: Is a directory")
    long = "n" * 250
    check_error(move(long, f"no/{long}"), 404, "FileNotFound", f"n to {folder}/no/n")
    assert get(api, sid, f"{folder}/d/b").raw == b"b"
    assert move("c", "d/b", overwrite=True).status == 200
    assert get(api, sid, f"{folder}/d/b").raw == b"a"
    assert move("d", "e").status == 200
    assert names(api, sid, folder, "&recursive=true") == [f"{folder}/e", f"{folder}/e/b"]
    assert move("e", "e/inside").status in (409, 422)


def test_delete_directories(api: Api, sid: str, folder: str) -> None:
    put(api, sid, f"{folder}/a/b")
    check_error(api.call("DELETE", url(sid, folder)), 409, "Conflict")
    assert api.call("DELETE", url(sid, folder) + "?recursive=true").status == 204
    check_error(api.call("DELETE", url(sid, folder)), 404, "FileNotFound")


def test_list_is_sorted_and_paged(api: Api, sid: str, folder: str) -> None:
    api.run(
        sid,
        f"import os\nos.makedirs({folder!r})\nfor i in range(250): open(f'{folder}/{{i:03}}','w')",
    )
    want = [f"{folder}/{i:03}" for i in range(250)]
    assert names(api, sid, folder) == want
    assert names(api, sid, folder, "&limit=10&offset=245") == want[245:]
    assert names(api, sid, folder, "&offset=250") == []
    page = api.get(f"/sessions/{sid}/files?path={folder}&limit=100&offset=100").body
    assert page["count"] == 100 and page["has_more"] is True and page["path"] == folder
    page = api.get(f"/sessions/{sid}/files?path={folder}&limit=100&offset=150").body
    assert page["has_more"] is False and page["files"][-1]["name"] == "249"


def test_links_say_where_they_lead(api: Api, sid: str, folder: str) -> None:
    targets = {"byte": b"b\xff", "in": b"file", "long": b"x" * 4095, "out": b"/etc/passwd"}
    made = api.run(
        sid,
        f"import os\nos.mkdir({folder!r}); open({folder + '/file'!r}, 'w')\n"
        f"for name, to in {targets!r}.items(): os.symlink(to, f'{folder}/{{name}}'.encode())",
    )
    assert made["status"] == "completed", made
    want: dict[str, str | None] = {n: t.decode(errors="replace") for n, t in targets.items()}
    want["file"] = None
    listed = api.get(f"/sessions/{sid}/files?path={folder}").body["files"]
    assert {entry["name"]: entry["target"] for entry in listed} == want
    for name, target in want.items():
        entry = api.get(f"/sessions/{sid}/file-stat/{folder}/{name}").body
        assert (entry["target"], entry["size"]) == (target, 0)
    moved = api.post(
        f"/sessions/{sid}/files/move", {"from": f"{folder}/in", "to": f"{folder}/moved"}
    )
    assert moved["target"] == "file"


def test_list_what_is_no_directory(api: Api, sid: str, folder: str) -> None:
    put(api, sid, f"{folder}/file")
    check_error(api.get(f"/sessions/{sid}/files?path={folder}/no"), 404, "FileNotFound")
    check_error(api.get(f"/sessions/{sid}/files?path={folder}/file"), 409, "Conflict")
    check_error(api.get(f"/sessions/{sid}/files?limit=0"), 422, "InvalidParameter", "limit")


def test_directories_are_no_files(api: Api, sid: str, folder: str) -> None:
    put(api, sid, f"{folder}/d/x")
    check_error(get(api, sid, f"{folder}/d"), 409, "Conflict")
    check_error(put(api, sid, f"{folder}/d"), 409, "Conflict")
    check_error(put(api, sid, f"{folder}/d/x/y"), 409, "Conflict")
    assert get(api, sid, f"{folder}/d/x/y").status in (404, 409)


def test_deep_directories(api: Api, sid: str, folder: str) -> None:
    path = folder[:20] + "/d" * 50 + "/leaf"
    assert put(api, sid, path, b"deep").status == 201
    assert get(api, sid, path).raw == b"deep"
    assert path in names(api, sid, folder[:20], "&recursive=true")
    top = folder[:20]
    api.run(
        sid,
        "import os\n"
        f"fd = os.open({top!r}, os.O_RDONLY)\n"
        "for i in range(300):\n"
        "    os.mkdir('e', dir_fd=fd); n = os.open('e', os.O_RDONLY, dir_fd=fd)\n"
        "    os.close(fd); fd = n\n",
    )
    assert api.get(f"/sessions/{sid}/files?path={top}&recursive=true").status == 200
    assert api.call("DELETE", url(sid, top) + "?recursive=true").status in (204, 413)


# ---- ranges and conditions ----

RANGES: list[tuple[str, int, bytes]] = [
    ("bytes=0-0", 206, b"0"),
    ("bytes=2-5", 206, b"2345"),
    ("bytes=95-", 206, b"56789"),
    ("bytes=-3", 206, b"789"),
    ("bytes=-500", 206, b"0123456789" * 10),
    ("bytes=90-1000", 206, b"0123456789"),
    ("bytes=100-", 416, b""),
    ("bytes=-0", 416, b""),
    ("bytes=5-2", 200, b"0123456789" * 10),
    ("bytes=0-1,3-4", 200, b"0123456789" * 10),
    ("bytes=x", 200, b"0123456789" * 10),
    ("lines=1-2", 200, b"0123456789" * 10),
    ("bytes=99999999999999999999-", 416, b""),
]


@pytest.mark.parametrize("value, status, data", RANGES, ids=[row[0] for row in RANGES])
def test_ranges(api: Api, sid: str, folder: str, value: str, status: int, data: bytes) -> None:
    path = "ranges.bin"
    put(api, sid, path, b"0123456789" * 10)
    got = get(api, sid, path, Range=value)
    assert got.status == status
    assert got.headers["accept-ranges"] == "bytes"
    if status == 416:
        check_error(got, 416, "RangeNotSatisfiable", "100")
        assert got.headers["content-range"] == "bytes */100"
        return
    assert got.raw == data
    if status == 206:
        first = (b"0123456789" * 10).index(data) if value != "bytes=95-" else 95
        first = {"bytes=-3": 97, "bytes=90-1000": 90, "bytes=-500": 0}.get(value, first)
        assert got.headers["content-range"] == f"bytes {first}-{first + len(data) - 1}/100"
    else:
        assert "content-range" not in got.headers


def test_conditions(api: Api, sid: str, folder: str) -> None:
    path = f"{folder}.txt"
    old = put(api, sid, path, b"first version")["etag"]
    same = get(api, sid, path, If_None_Match=old)
    assert (same.status, same.raw, same.headers["etag"]) == (304, b"", old)
    assert get(api, sid, path, If_None_Match=f'"other", W/{old}').status == 304
    assert get(api, sid, path, If_None_Match="*").status == 304
    assert get(api, sid, path, If_None_Match='"other"').status == 200
    assert get(api, sid, path, If_Match=old).status == 200
    assert get(api, sid, path, Range="bytes=0-4", If_Range=old).raw == b"first"
    put(api, sid, path, b"another version")
    assert get(api, sid, path, If_None_Match=old).status == 200
    assert get(api, sid, path, If_Match=old).status == 412
    whole = get(api, sid, path, Range="bytes=0-4", If_Range=old)
    assert (whole.status, whole.raw) == (200, b"another version")


def test_conditions_by_time(api: Api, sid: str, folder: str) -> None:
    put(api, sid, folder, b"0123456789")
    api.run(sid, f"import os; os.utime({folder!r}, (784111777, 784111777))")
    before, at = "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"
    rows = [
        ({"If_Modified_Since": at}, 304),
        ({"If_Modified_Since": before}, 200),
        ({"If_Unmodified_Since": at}, 200),
        ({"If_Unmodified_Since": before}, 412),
        ({"If_Range": at, "Range": "bytes=0-0"}, 206),
        ({"If_Range": before, "Range": "bytes=0-0"}, 200),
    ]
    for fields, status in rows:
        got = get(api, sid, folder, **fields)
        assert got.status == status, fields
        assert status == 412 or got.headers["last-modified"] == at


@pytest.mark.parametrize("how", ["replaced", "in place"])
def test_other_content_of_the_same_size_and_time_has_another_etag(
    api: Api, sid: str, folder: str, how: str
) -> None:
    """As two writes within a tick of the kernel's clock have."""
    stamp = f"import os; os.utime({folder!r}, ns=(1, 10**18))"
    put(api, sid, folder, b"old")
    api.run(sid, stamp)
    old = get(api, sid, folder).headers["etag"]
    if how == "replaced":
        put(api, sid, folder, b"new")
    else:
        api.run(sid, f"open({folder!r}, 'r+').write('new')")
    api.run(sid, stamp)
    got = get(api, sid, folder, If_None_Match=old)
    assert (got.status, got.raw) == (200, b"new")
    part = get(api, sid, folder, Range="bytes=0-0", If_Range=old)
    assert (part.status, part.raw) == (200, b"new")


def test_many_ranges_are_the_whole_file(api: Api, sid: str, folder: str) -> None:
    put(api, sid, folder, b"x" * 1000)
    many = "bytes=" + ",".join(f"{n}-{n}" for n in range(0, 900, 9))
    got = get(api, sid, folder, Range=many)
    assert (got.status, len(got.raw)) == (200, 1000)


def test_head(api: Api, sid: str, folder: str) -> None:
    put(api, sid, folder, b"x" * 1000)
    got = api.call("HEAD", url(sid, folder))
    assert (got.status, got.raw, got.headers["content-length"]) == (200, b"", "1000")
    assert got.headers["etag"] == get(api, sid, folder).headers["etag"]
    part = api.call("HEAD", url(sid, folder), headers={"Range": "bytes=0-9"})
    assert (part.status, part.headers["content-length"]) == (200, "1000")
    assert api.call("HEAD", url(sid, "no")).status == 404


@pytest.mark.parametrize("size", [0, 5])
def test_head_of_what_cannot_be_read(api: Api, sid: str, folder: str, size: int) -> None:
    put(api, sid, folder, b"x" * size)
    assert api.call("HEAD", url(sid, folder)).headers["content-length"] == str(size)
    api.run(sid, f"import os; os.chmod({folder!r}, 0)")
    check_error(get(api, sid, folder), 409, "Conflict", folder)
    assert api.call("HEAD", url(sid, folder), is_known=False).status == 409


def send(api: Api, method: str, path: str, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    data = b"new" if method == "PUT" else None
    return api.call(method, path, raw=data, headers={**RAW, **sent} if data else sent)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_changes_only_what_the_client_has_seen(
    api: Api, sid: str, folder: str, method: str
) -> None:
    old = put(api, sid, folder, b"old")["etag"]
    now = put(api, sid, folder, b"current")["etag"]
    where = url(sid, folder)
    for condition in (
        {"If_Match": old},
        {"If_Match": f"W/{now}"},
        {"If_None_Match": "*"},
        {"If_None_Match": f'"x", {now}'},
        {"If_Unmodified_Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    ):
        check_error(send(api, method, where, **condition), 412, "Conflict")
        assert get(api, sid, folder).raw == b"current", condition
    assert send(api, method, where, If_Match=f"{old}, {now}").status in (200, 204)
    missing = url(sid, f"{folder}-missing")
    check_error(send(api, method, missing, If_Match="*"), 412, "Conflict")
    assert send(api, "PUT", missing, If_None_Match="*").status == 201


def test_upload_as_form_only_when_there_is_none(api: Api, sid: str, folder: str) -> None:
    body, kind = form([("file", folder, b"data")])
    sent = {"Content-Type": kind, "If-None-Match": "*"}
    where = f"/sessions/{sid}/files/upload"
    assert api.call("POST", where, raw=body, headers=sent).status == 201
    check_error(api.call("POST", where, raw=body, headers=sent), 412, "Conflict")


def test_a_part_of_a_file_does_not_replace_it(api: Api, sid: str, folder: str) -> None:
    put(api, sid, folder, b"whole")
    part = send(api, "PUT", url(sid, folder), Content_Range="bytes 0-2/5")
    check_error(part, 400, "InvalidParameter", "Content-Range")
    assert get(api, sid, folder).raw == b"whole"


# ---- names ----

ODD_NAMES = [
    'quote".txt',
    "semi;colon",
    "back\\slash",
    "..%2f..%2fetc",
    "...",
    "..hidden",
    "new\nline",
    "ünïcode-文件.txt",
    "-rf",
    " space ",
    "a" * 255,
    "filename*=UTF-8''x",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=[ascii(n)[:30] for n in ODD_NAMES])
def test_odd_names(api: Api, sid: str, name: str) -> None:
    made = api.run(sid, f"open({name!r}, 'w').write('odd')")
    assert made["status"] == "completed", made
    assert name in [entry["name"] for entry in api.get(f"/sessions/{sid}/files").body["files"]]
    if "\n" in name:  # no line ends in a path, however they are written
        assert raw_get(api, f"/api/v1{url(sid, name)}").status == 400
    else:
        got = get(api, sid, name)
        assert (got.status, got.raw) == (200, b"odd")
        shown = got.headers["content-disposition"]
        assert shown.isascii() and shown.count('"') == 2 and "\\" not in shown
        assert f"filename*=UTF-8''{quote(name, safe='._-')}".replace("~", "%7E") in shown
    api.run(sid, f"import os; os.unlink({name!r})")


def test_names_that_are_no_text(api: Api) -> None:
    sid = api.session()
    api.run(sid, "open(b'bad-\\xff\\xfe', 'w').write('x')")
    listed = api.get(f"/sessions/{sid}/files").body["files"]
    assert [entry["name"] for entry in listed] == ["bad-\ufffd\ufffd"]
    answer = raw_get(api, f"/api/v1/sessions/{sid}/files/bad-%FF%FE")
    assert answer.status in (400, 404, 422)


# ---- sessions that are not there ----

ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/files", None),
    ("POST", "/files/mkdir", {"path": "a"}),
    ("POST", "/files/move", {"from": "a", "to": "b"}),
    ("GET", "/files/a", None),
    ("PUT", "/files/a", b"x"),
    ("DELETE", "/files/a", None),
    ("GET", "/file-stat/a", None),
    ("GET", "/archive", None),
    ("PUT", "/archive", b"x"),
]


@pytest.mark.parametrize("method, path, body", ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES])
def test_without_a_session(api: Api, ended: str, method: str, path: str, body: Any) -> None:
    kind = "application/x-tar" if path == "/archive" else "application/octet-stream"
    sent: dict[str, Any] = {"body": body}
    if isinstance(body, bytes):
        sent = {"raw": body, "headers": {"Content-Type": kind}}
    check_error(api.call(method, f"/sessions/none{path}", **sent), 404, "SessionNotFound", "none")
    check_error(api.call(method, f"/sessions/{ended}{path}", **sent), 409, "Conflict", "terminated")
    assert api.call(method, f"/sessions/-x{path}", **sent).status == 422


@pytest.fixture(scope="module")
def ended(api: Api) -> str:
    sid = api.session()
    assert api.call("DELETE", f"/sessions/{sid}").status == 200
    return sid


# ---- slow downloads ----


def test_a_slow_download_leaves_the_workspace_to_others(api: Api, sid: str) -> None:
    """Its client has read the head and nothing else. What it gets is the file as it was opened."""
    size = 32 << 20
    old, new = b"o" * size, b"new"
    assert put(api, sid, "slow.bin", old).status in (200, 201)
    connection = api.connect()
    connection.request("GET", f"/api/v1{url(sid, 'slow.bin')}")
    slow = connection.getresponse()
    assert slow.status == 200

    assert "slow.bin" in names(api, sid)  # at once, though the download goes on
    assert put(api, sid, "slow.bin", new).status == 200
    assert get(api, sid, "slow.bin").raw == new
    assert api.run(sid, "open('slow.bin').read()")["return_value"] == "new"
    assert slow.read() == old
    connection.close()


def test_many_slow_downloads(api: Api, sid: str) -> None:
    """More than a box has file workers: the last ones wait for those before them, and all end."""
    data = b"d" * (16 << 20)
    assert put(api, sid, "many.bin", data).status in (200, 201)
    lines = []
    for _ in range(5):
        connection = api.connect()
        connection.request("GET", f"/api/v1{url(sid, 'many.bin')}")
        lines.append((connection, connection.getresponse()))
    assert "many.bin" in names(api, sid)
    for connection, slow in lines:
        assert slow.read() == data
        connection.close()
    assert get(api, sid, "many.bin").raw == data
