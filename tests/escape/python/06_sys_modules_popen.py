# SPDX-License-Identifier: Apache-2.0
# technique: 6 1
# held: a shell started through sys.modules of an innocent import reads nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import subprocess
import textwrap

modules = textwrap.re.functools.__builtins__["__import__"]("sys").modules
popen = modules["subprocess"].Popen
os = modules["os"]
assert popen is subprocess.Popen

for path in os.environ["HINT_FILES"].split(":"):
    shell = popen(["/bin/sh", "-c", 'cat "$0"', path], stdout=-1, stderr=-3)
    text = shell.communicate()[0]
    if text:
        print("ESCAPED:", text)
        raise SystemExit(1)
print("HELD")
