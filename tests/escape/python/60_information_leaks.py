# SPDX-License-Identifier: Apache-2.0
# technique: E18
# held: files that tell about the host are absent, unreadable or empty
# expect: status=completed exit=0 stdout~HELD
import os
import socket
import sys

leaks = []
masked = (
    "kcore keys timer_list sched_debug kallsyms modules cmdline kmsg slabinfo interrupts".split()
)
masked += (
    "vmallocinfo pagetypeinfo kpageflags kpagecount key-users latency_stats mtrr config.gz".split()
)
masked += "locks buddyinfo zoneinfo cgroups diskstats partitions swaps bootconfig mdstat".split()
paths = ["/proc/" + name for name in masked]
for folder in ("/sys/firmware", "/sys/class/dmi", "/sys/devices/virtual/dmi", "/sys/block"):
    paths += [os.path.join(top, name) for top, _, files in os.walk(folder) for name in files]
folders = "acpi scsi bus irq fs driver pressure dynamic_debug".split()
for folder in ["/proc/" + name for name in folders]:
    paths += [os.path.join(top, name) for top, _, files in os.walk(folder) for name in files]
for path in paths:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        if os.read(fd, 64):
            leaks.append(path)
        os.close(fd)
    except OSError:
        pass
for path in ("/proc/iomem", "/proc/ioports"):
    if os.path.exists(path) and any(
        c in "123456789abcdef" for c in open(path).readline().split(" :")[0]
    ):
        leaks.append(path + " with addresses")
if socket.gethostname() != "husk":
    leaks.append("host name")
for path in (
    "/etc/shadow",
    "/etc/gshadow",
    "/root",
    "/home",
    "/var/lib",
    "/boot",
):
    try:
        if os.listdir(path) if os.path.isdir(path) else open(path).read():
            leaks.append(path)
    except OSError:
        pass
print("ESCAPED: %s" % leaks if leaks else "HELD")
sys.exit(bool(leaks))
