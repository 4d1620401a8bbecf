# SPDX-License-Identifier: Apache-2.0
# technique: 42
# held: modules planted beside the program are not what the runner imports to report the error
# expect: status=failed exit=1 error=ValueError stdout!~FORGED
import os
import sys

for name in ("json", "traceback", "linecache", "io", "struct", "base64", "tokenize", "signal"):
    with open(name + ".py", "w") as stream:
        stream.write("import os\nos.write(1, b'FORGED')\nos._exit(0)\n")
    sys.modules.pop(name, None)
sys.path.insert(0, os.getcwd())
raise ValueError("the true end")
