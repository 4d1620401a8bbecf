# SPDX-License-Identifier: Apache-2.0
# technique: 47
# held: a shared library from the workspace loads, also by LD_PRELOAD, and gains no right
# expect: status=completed exit=0 stdout~HELD
import ctypes
import glob
import os
import shutil
import subprocess
import sys

shutil.copy(glob.glob("/usr/lib/*-linux-gnu*/libc.so.6")[0], "./mine.so")
os.chmod("mine.so", 0o755)
mine = ctypes.CDLL(os.path.abspath("mine.so"), use_errno=True)
assert mine.getuid() == os.getuid() != 0
gained = [name for name in ("setuid", "setgid", "chroot") if getattr(mine, name)(0) == 0]

env = {"LD_PRELOAD": os.path.abspath("mine.so"), "PATH": os.environ["PATH"]}
for program in ("/bin/mount", "/bin/su", "/usr/bin/passwd", "/usr/bin/id"):
    if os.path.exists(program):
        text = subprocess.run([program], env=env, capture_output=True, stdin=-3, timeout=3).stdout
        gained += [program] if b"uid=0" in text else []
with open("/proc/self/status") as stream:
    gained += [line for line in stream if line.startswith("CapEff") and int(line.split()[1], 16)]
print("ESCAPED: %s" % gained if gained else "HELD")
sys.exit(bool(gained))
