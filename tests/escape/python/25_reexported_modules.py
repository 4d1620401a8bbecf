# SPDX-License-Identifier: Apache-2.0
# technique: 39 40
# held: file access through modules that re-export os or open files themselves stays inside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import csv
import fileinput
import linecache
import mmap
import os
import pathlib
import shutil
import sqlite3
import tarfile
import tokenize

seen = []
for path in os.environ["HINT_FILES"].split(":"):
    ways = [
        lambda: pathlib.os.read(pathlib.os.open(path, 0), 100),
        lambda: shutil.os.popen("cat %s 2>/dev/null" % path).read(),
        lambda: shutil.copy(path, "copy"),
        lambda: linecache.getline(path, 1),
        lambda: list(fileinput.input(path)),
        lambda: tokenize.open(path).read(),
        lambda: list(csv.reader(open(path))),
        lambda: tarfile.open("t.tar", "w").add(path) or path,
        lambda: sqlite3.connect("file:%s?mode=ro" % path, uri=True) and "",
        lambda: bytes(mmap.mmap(os.open(path, 0), 0, access=mmap.ACCESS_READ)),
    ]
    for way in ways:
        try:
            seen.append(way())
        except (OSError, sqlite3.Error):
            pass
leaks = [found for found in seen if found]
print("ESCAPED: %s" % leaks if leaks else "HELD")
raise SystemExit(bool(leaks))
