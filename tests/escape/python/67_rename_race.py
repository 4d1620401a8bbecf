# SPDX-License-Identifier: Apache-2.0
# technique: E4
# held: directories that swap with links to /, also during teardown, change nothing outside
# expect: status=completed exit=0 stdout~HELD
# limits: --timeout 5
import ctypes
import os
import time

libc = ctypes.CDLL(None)
RENAME_EXCHANGE, AT_FDCWD = 2, -100
for index in range(4):
    os.makedirs("d%d/deep/deeper" % index)
    target = [
        "/",
        "/proc/self/root",
        "/etc",
        os.path.dirname(os.environ["HINT_FILES"].split(":")[0]),
    ]
    os.symlink(target[index], "l%d" % index)
    if os.fork() == 0:
        os.setsid()
        a, b = b"d%d" % index, b"l%d" % index
        while True:
            libc.renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE)
time.sleep(0.3)
print("HELD", flush=True)
os._exit(0)
