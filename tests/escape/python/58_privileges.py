# SPDX-License-Identifier: Apache-2.0
# technique: E16
# held: no capability in any set, no_new_privs on, secure bits and limits locked, no way back to id 0
# expect: status=completed exit=0 stdout~HELD
import ctypes
import os
import resource
import sys

strange = []
status = dict(
    line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line
)
strange += [n for n in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status[n], 16)]
if (
    status["NoNewPrivs"] != "1"
    or status["Seccomp"] != "2"
    or status["Groups"].strip() not in ("", "1000")
):
    strange.append((status["NoNewPrivs"], status["Seccomp"], status["Groups"]))
if os.getresuid() != (1000,) * 3 or os.getresgid() != (1000,) * 3:
    strange.append((os.getresuid(), os.getresgid()))
attempts = {
    "setuid": lambda: os.setuid(0),
    "setgid": lambda: os.setgid(0),
    "setresuid": lambda: os.setresuid(-1, 0, -1),
    "setgroups": lambda: os.setgroups([0]),
    "chown": lambda: os.chown("/workspace", 0, 0),
    "chroot": lambda: os.chroot("/tmp"),
    "core": lambda: resource.setrlimit(resource.RLIMIT_CORE, (2, 2)),
    "nofile": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
}
for name, action in attempts.items():
    try:
        action()
        strange.append(name)
    except (OSError, ValueError):
        pass
PR_GET_SECUREBITS, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 27, 28, 47, 2
NOROOT, NO_AMBIENT_RAISE, ALL_LOCKS = 1 << 0, 1 << 6, 0b10101010
libc = ctypes.CDLL(None)
if libc.prctl(PR_GET_SECUREBITS) != NOROOT | NO_AMBIENT_RAISE | ALL_LOCKS:
    strange.append(("secure bits", libc.prctl(PR_GET_SECUREBITS)))
if (
    libc.prctl(PR_SET_SECUREBITS, 0) == 0
    or libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0) == 0
):
    strange.append("prctl")
if resource.getrlimit(resource.RLIMIT_CORE) != (1, 1):
    strange.append(resource.getrlimit(resource.RLIMIT_CORE))
print("ESCAPED: %s" % strange if strange else "HELD")
sys.exit(bool(strange))
