# SPDX-License-Identifier: Apache-2.0
# technique: 48
# held: code patched into libc through /proc/self/mem has the rights of the box, no more
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import ctypes
import os

libc = ctypes.CDLL(None)
target = ctypes.cast(libc.getppid, ctypes.c_void_p).value
code = bytes.fromhex("b8" "02000000" "0f05" "c3")  # mov eax, SYS_open; syscall; ret
try:
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(target)
        memory.write(code)
    patched = True
except OSError:
    patched = False
for path in os.environ["HINT_FILES"].split(":"):
    if patched and libc.getppid(path.encode(), 0) > 0:
        print("ESCAPED: patched code opened", path)
        raise SystemExit(1)
print("HELD patched" if patched else "HELD refused")
