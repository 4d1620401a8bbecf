# SPDX-License-Identifier: Apache-2.0
# technique: E1
# held: no file below /proc (except of processes) or /sys opens for writing
# expect: status=completed exit=0 stdout~HELD
import os
import sys

opened, tried = [], 0
for top in ("/proc", "/sys"):
    for folder, folders, files in os.walk(top):
        if folder == "/proc":
            folders[:] = [
                f for f in folders if not f.isdigit() and f not in ("self", "thread-self")
            ]
        for name in files:
            path = os.path.join(folder, name)
            tried += 1
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                if not os.path.samefile(path, "/dev/null"):
                    opened.append(path)
            except OSError:
                pass
assert tried > 70, "hardly anything to try: %d" % tried
print("ESCAPED: %s" % opened[:20] if opened else "HELD", tried)
sys.exit(bool(opened))
