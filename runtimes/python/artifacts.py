# SPDX-License-Identifier: Apache-2.0
"""Which files of the workspace a cell has made or changed. A claim, like all that a box reports."""

import json
import os
import time
from collections.abc import Iterator

NAMES_MAX = 1000
BYTES_MAX = 256 << 10
LOOKED_AT_MAX = 20000  # a huge workspace costs a cell some milliseconds, not more

_WORKSPACE = "/workspace"
_CLOCK_REALTIME_COARSE = 5  # of Linux; Python has no name for it


def now() -> int:
    """The clock of files: it advances in steps, and is never ahead of the times that files get."""
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    """All that is not hidden, folder by folder, no link followed."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda e: e.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)


def since(start: int) -> bytes:
    """A JSON list of paths below the workspace whose files changed since then."""
    names: list[str] = []
    size = 2
    for number, entry in enumerate(_walk(_WORKSPACE)):
        if number >= LOOKED_AT_MAX or len(names) >= NAMES_MAX:
            break
        try:
            if not entry.is_file(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_ctime_ns < start:
                continue
            name = entry.path[len(_WORKSPACE) + 1 :]
            size += len(json.dumps(name)) + 1
        except OSError:
            continue
        if size > BYTES_MAX:
            break
        names.append(name)
    # Names that are not text do not fit into JSON: they are shown as file lists show them.
    return json.dumps([n.encode("utf-8", "replace").decode() for n in names]).encode()
