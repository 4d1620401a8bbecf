# SPDX-License-Identifier: Apache-2.0
# technique: E2
# held: no program, library or foreign memory of any visible process opens for writing
# expect: status=completed exit=0 stdout~HELD
import os
import stat
import sys

own = (os.stat("/workspace").st_dev, os.stat("/tmp").st_dev)
opened = []


def attempt(path):
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    info = os.fstat(fd)
    if stat.S_ISREG(info.st_mode) and info.st_dev not in own:
        opened.append((path, os.readlink("/proc/self/fd/%d" % fd)))
    os.close(fd)


for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    attempt("/proc/%s/exe" % pid)
    if int(pid) != os.getpid():
        attempt("/proc/%s/mem" % pid)
    for folder in ("fd", "map_files", "task/%s/fd" % pid):
        try:
            names = os.listdir("/proc/%s/%s" % (pid, folder))
        except OSError:
            continue
        for name in names:
            attempt("/proc/%s/%s/%s" % (pid, folder, name))
for line in open("/proc/self/maps"):
    if "/" in line:
        attempt(line.split(None, 5)[5].strip())
print("ESCAPED: %s" % opened if opened else "HELD")
sys.exit(bool(opened))
