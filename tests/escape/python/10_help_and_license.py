# SPDX-License-Identifier: Apache-2.0
# technique: 15
# held: the printers behind license() and the pydoc pager show no outside file
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import _sitebuiltins
import os
import pydoc
import subprocess

for path in os.environ["HINT_FILES"].split(":"):
    folder, name = os.path.split(path)
    printer = _sitebuiltins._Printer("license", "", [name], [folder])
    text = repr(printer)
    pager = "cat %s - > paged 2>/dev/null; true" % path
    pydoc.pipepager("text\n", pager)
    paged = open("paged").read().replace("text\n", "")
    if os.environ["HINT_MARK"] in text + paged:
        print("ESCAPED:", text, paged)
        raise SystemExit(1)
assert subprocess.run(["true"]).returncode == 0
print("HELD")
