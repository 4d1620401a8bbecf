# SPDX-License-Identifier: Apache-2.0
# technique: E12 Z6
# held: the host's keys cannot be listed, searched or read
# expect: status=completed exit=0 stdout~HELD
import ctypes
import sys

libc = ctypes.CDLL(None, use_errno=True)
SYS_ADD_KEY, SYS_REQUEST_KEY, SYS_KEYCTL = 248, 249, 250
calls = {
    "search session": (SYS_KEYCTL, 10, -3, b"user", b"husk-canary", 0),
    "search user": (SYS_KEYCTL, 10, -4, b"user", b"husk-canary", 0),
    "request": (SYS_REQUEST_KEY, b"user", b"husk-canary", None, 0),
    "keyring id": (SYS_KEYCTL, 0, -3, 0),
    "join": (SYS_KEYCTL, 1, None),
    "add": (SYS_ADD_KEY, b"user", b"mine", b"x", 1, -3),
}
reached = [name for name, call in calls.items() if libc.syscall(*call) >= 0]
try:
    if "husk-canary" in open("/proc/keys").read():
        reached.append("/proc/keys")
except OSError:
    pass
print("ESCAPED: %s" % reached if reached else "HELD")
sys.exit(bool(reached))
