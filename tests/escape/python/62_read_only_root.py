# SPDX-License-Identifier: Apache-2.0
# technique: E7 E2
# held: no file of the root file system can be changed, replaced, linked away or remounted
# expect: status=completed exit=0 stdout~HELD
import os
import sys

changed = []
targets = [sys.executable, os.__file__, "/etc/passwd", "/etc/hosts", "/bin/sh", "/usr/bin/env"]
for path in targets:
    real = os.path.realpath(path)
    attempts = {
        "write": lambda: os.open(real, os.O_RDWR),
        "append": lambda: os.open(real, os.O_WRONLY | os.O_APPEND),
        "truncate": lambda: os.truncate(real, 0),
        "unlink": lambda: os.unlink(real),
        "rename": lambda: os.rename(real, real + ".old"),
        "link": lambda: os.link(real, "/tmp/linked"),
        "chmod": lambda: os.chmod(real, 0o777),
        "utime": lambda: os.utime(real),
        "xattr": lambda: os.setxattr(real, "user.x", b"x"),
        "sibling": lambda: os.mkdir(os.path.join(os.path.dirname(real), "planted")),
        "cover": lambda: os.symlink("/tmp", os.path.dirname(real) + "/cover"),
    }
    for name, action in attempts.items():
        try:
            action()
            changed.append((name, real))
        except OSError:
            pass
for folder in (
    "/",
    "/dev",
    "/etc",
    "/usr",
    "/proc",
    "/opt",
    "/var",
    "/run",
    "/run/box",
    "/run/empty",
    "/husk",
    "/dev/pts",
    "/mnt",
):
    try:
        os.close(os.open(folder + "/planted", os.O_WRONLY | os.O_CREAT))
        changed.append(folder)
    except OSError:
        pass
print("ESCAPED: %s" % changed if changed else "HELD")
sys.exit(bool(changed))
