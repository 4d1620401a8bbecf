# SPDX-License-Identifier: Apache-2.0
# technique: 31
# held: a file that is text, zip and program at once reads nothing outside when run
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os
import runpy
import sys
import zipfile

inner = (
    "for p in %r:\n    try: seen.append(open(p).read())\n    except OSError: pass\nran.append(1)"
)
with open("note.txt", "wb") as stream:
    stream.write(b"an innocent note\n" * 10)
with zipfile.ZipFile("note.txt", "a") as archive:
    archive.writestr("__main__.py", inner % os.environ["HINT_FILES"].split(":"))

seen, ran = [], []
runpy.run_path("note.txt", {"seen": seen, "ran": ran})
assert ran, "the polyglot did not run"
print("ESCAPED: %s" % seen if seen else "HELD")
sys.exit(bool(seen))
