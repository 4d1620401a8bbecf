# SPDX-License-Identifier: Apache-2.0
# technique: 44
# held: machine code written to a writable and executable page makes calls that fail like any other
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import ctypes
import mmap
import os

# rax=rdi, rdi=rsi, rsi=rdx, rdx=rcx, syscall, ret
code = bytes.fromhex("4889f8" "4889f7" "4889d6" "4889ca" "0f05" "c3")
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
kind = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_long)
call = kind(entry)
number = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long)

SYS_OPEN, SYS_GETPID, SYS_UNSHARE, SYS_SETUID = 2, 39, 272, 105
assert number(entry)(SYS_GETPID, 0, 0, 0) == os.getpid(), "the code did not run"
for path in os.environ["HINT_FILES"].split(":"):
    if call(SYS_OPEN, path.encode(), 0, 0) >= 0:
        print("ESCAPED: opened", path)
        raise SystemExit(1)
if number(entry)(SYS_UNSHARE, 0x10000000, 0, 0) == 0 or number(entry)(SYS_SETUID, 0, 0, 0) == 0:
    print("ESCAPED: more rights")
    raise SystemExit(1)
print("HELD")
