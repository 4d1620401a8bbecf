# SPDX-License-Identifier: Apache-2.0
# technique: 46 56
# held: an interpreter that overwrites its own objects ends as a crash, and husk says so
# expect: status=crashed exit=139|134|135|132|136
# cause: signal
import ctypes

for kind in (dict, str, tuple, type):
    ctypes.memset(id(kind) + 16, 0x41, 300)
print({}, "", ())
