# SPDX-License-Identifier: Apache-2.0
"""Compiles the modules below some folders that have no .pyc file, in a box that can only read them.

Each result goes to standard output: a line with its length and path, then its bytes. The far end
trusts neither (src/core/template_bytecode.c).
"""

import importlib
import importlib.util
import os
import shutil
import sys
import warnings
from typing import Any, BinaryIO, Iterator

# Private, but the same in every CPython from 3.9 on; there is no public way to these bytes.
external: Any = importlib.import_module("importlib._bootstrap_external")
SKIPPED = {"__pycache__", "test", "tests"}  # no program imports these
SIZE_MAX = 4 << 20


def find_sources(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for path, names, files in os.walk(folder):
            names[:] = sorted(set(names) - SKIPPED)
            yield from (f"{path}/{name}" for name in sorted(files) if name.endswith(".py"))


def is_compiled(cached: str, changed: int, size: int) -> bool:
    try:
        with open(cached, "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    kind, time, length = (int.from_bytes(head[i : i + 4], "little") for i in (4, 8, 12))
    if head[:4] != importlib.util.MAGIC_NUMBER:
        return False
    return kind != 0 or (time, length) == (changed & 0xFFFFFFFF, size & 0xFFFFFFFF)


def compile_one(path: str, to: BinaryIO) -> None:
    info = os.stat(path)
    cached = importlib.util.cache_from_source(path)
    changed = int(info.st_mtime)
    if info.st_size > SIZE_MAX or is_compiled(cached, changed, info.st_size):
        return
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    data = external._code_to_timestamp_pyc(code, changed, info.st_size)
    to.write(f"{len(data)} {cached}\n".encode() + data)


def work(paths: list[str], file: str) -> None:
    with open(file, "wb") as to:
        for path in paths:
            try:
                compile_one(path, to)
            except Exception:  # for another Python, or none of ours to read: it stays as it is
                pass


def main() -> None:
    warnings.simplefilter("ignore")
    paths = list(find_sources(sys.argv[1:]))
    count = os.cpu_count() or 1
    workers = {}
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            work(paths[i::count], f"/tmp/{i}")
            os._exit(0)
        workers[pid] = f"/tmp/{i}"
    while workers:
        pid, status = os.wait()
        file = workers.pop(pid, None)
        if file is not None and status == 0:  # a source that crashes its compiler costs its share
            with open(file, "rb") as done:
                shutil.copyfileobj(done, sys.stdout.buffer, 1 << 20)
            os.unlink(file)


main()
