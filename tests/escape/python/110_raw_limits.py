# SPDX-License-Identifier: Apache-2.0
# technique: R4 R2
# held: resource limits are set, finite, and cannot be raised
# expect: status=completed exit=0 stdout~HELD
import resource
import sys

wrong = []
finite = {
    "NOFILE": 65536,
    "NPROC": 65536,
    "MEMLOCK": 16 << 20,
    "MSGQUEUE": 1 << 20,
    "SIGPENDING": 65536,
}
for name, most in finite.items():
    soft, hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name))
    if hard == resource.RLIM_INFINITY or hard > most:
        wrong.append((name, hard))
for name in ("RTPRIO", "NICE"):
    if resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1] > 0:
        wrong.append(name)
for name in [*finite, "CORE", "RTPRIO", "FSIZE", "STACK"]:
    number = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY:
        continue
    try:
        resource.setrlimit(number, (hard + 1, hard + 1))
        wrong.append(("raised", name))
    except (OSError, ValueError):
        pass
print("ESCAPED: %s" % wrong if wrong else "HELD")
sys.exit(bool(wrong))
