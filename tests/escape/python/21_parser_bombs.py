# SPDX-License-Identifier: Apache-2.0
# technique: 32
# held: deeply nested and huge sources hurt only the child that compiles them
# expect: status=completed exit=0 stdout~HELD
import os

bombs = [
    "(" * 100000 + ")" * 100000,
    "-" * 200000 + "1",
    "x" + ".a" * 200000,
    "[" * 90 + "1" + "]" * 90,
    "x = " + "1+" * 50000 + "1",
    "lambda: " * 20000 + "1",
    "f'" + "{1}" * 5000 + "'",
]
ends = []
for bomb in bombs:
    pid = os.fork()
    if pid == 0:
        try:
            compile(bomb, "bomb", "exec")
        except (SyntaxError, MemoryError, RecursionError, OverflowError):
            pass
        os._exit(0)
    ends.append(os.waitpid(pid, 0)[1])
print("HELD", ends)
