# SPDX-License-Identifier: Apache-2.0
# technique: 41 Z6
# held: start-up hooks can be planted only in the box's own workspace, not in the shared runtime
# expect: status=completed exit=0 stdout~HELD
import os
import site
import sys
import sysconfig

folders = set(sys.path) | set(site.getsitepackages()) | set(sysconfig.get_paths().values())
folders |= {os.path.dirname(sys.executable), "/etc", "/usr", "/usr/lib", "/lib", "/", "/bin"}
planted = []
for folder in sorted(folders):
    if not os.path.isabs(folder) or folder.startswith(("/workspace", "/tmp")):
        continue
    for name in ("sitecustomize.py", "husk.pth", "__pycache__/os.cpython-311.pyc", "pyvenv.cfg"):
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o644))
            planted.append(os.path.join(folder, name))
        except OSError:
            pass
print("ESCAPED: planted %s" % planted if planted else "HELD")
sys.exit(bool(planted))
