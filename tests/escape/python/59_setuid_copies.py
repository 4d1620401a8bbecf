# SPDX-License-Identifier: Apache-2.0
# technique: E16
# held: set-uid bits, made inside or found in the root, give nobody another id
# expect: status=completed exit=0 stdout~HELD
import os
import shutil
import stat
import subprocess
import sys

strange = []
shutil.copy(shutil.which("id"), "/tmp/id")
try:
    os.chmod("/tmp/id", 0o6755)
except PermissionError:
    os.chmod("/tmp/id", 0o755)
if b"uid=1000" not in subprocess.run(["/tmp/id"], capture_output=True).stdout:
    strange.append("copy of id")
for folder, folders, files in os.walk("/"):
    folders[:] = [
        f for f in folders if folder != "/" or f not in ("proc", "sys", "tmp", "workspace")
    ]
    for name in files:
        path = os.path.join(folder, name)
        info = os.lstat(path)
        if stat.S_ISREG(info.st_mode) and info.st_mode & 0o6000:
            flags = os.statvfs(path).f_flag
            if not flags & os.ST_NOSUID:
                strange.append(path)
print("ESCAPED: %s" % strange[:10] if strange else "HELD")
sys.exit(bool(strange))
