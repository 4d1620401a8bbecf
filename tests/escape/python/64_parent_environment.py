# SPDX-License-Identifier: Apache-2.0
# technique: Z3 E18
# held: environment and command lines inside hold nothing of the process that started husk
# expect: status=completed exit=0 stdout~HELD
import os
import re
import sys

mark = re.compile(os.environ["HINT_MARK"] + "[0-9a-f]{32}")
texts = [repr(dict(os.environ)), " ".join(sys.argv), " ".join(sys.orig_argv)]
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ("environ", "cmdline", "mountinfo", "cgroup", "status", "maps", "auxv"):
        try:
            texts.append(open("/proc/%s/%s" % (pid, name), "rb").read().decode("latin-1"))
        except OSError:
            pass
leaks = [text for text in texts if mark.search(text)]
names = set(os.environ) - {"_", "SHLVL", "PWD", "OLDPWD"}
foreign = [
    n
    for n in names
    if n in ("SUDO_USER", "SSH_CONNECTION", "HUSK_CANARY", "VIRTUAL_ENV", "LS_COLORS")
]
foreign += [n for n in names if n.startswith(("PYTEST", "GIT_", "AWS_", "XDG_"))]
print("ESCAPED: %s %s" % (leaks, foreign) if leaks or foreign else "HELD", sorted(names))
sys.exit(bool(leaks or foreign))
