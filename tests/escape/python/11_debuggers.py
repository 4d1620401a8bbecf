# SPDX-License-Identifier: Apache-2.0
# technique: 16
# held: commands fed to pdb and code.interact run inside and read nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import code
import io
import os
import pdb

seen = []
paths = os.environ["HINT_FILES"].split(":")
reads = "\n".join("!seen.append(open(%r).read())" % path for path in paths)
debugger = pdb.Pdb(stdin=io.StringIO(reads + "\ncontinue\n"), stdout=io.StringIO(), nosigint=True)
debugger.set_trace()

lines = iter(["seen.append(open(%r).read())" % path for path in paths] + ["seen.append('')"])


def next_line(prompt):
    try:
        return next(lines)
    except StopIteration:
        raise EOFError from None


console = code.InteractiveConsole({"seen": seen})
console.write = lambda text: None
console.raw_input = next_line
console.interact(banner="", exitmsg="")
assert "" in seen, "the console ran nothing"
leaks = [text for text in seen if text]
print("ESCAPED: %s" % leaks if leaks else "HELD")
raise SystemExit(bool(leaks))
