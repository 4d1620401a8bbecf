# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: a process that replaces itself again and again is still the one that is ended
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import os
import sys

again = "import os, sys; e, a = sys.executable, sys.argv[1]; os.execv(e, [e, '-S', '-c', a, a])"
os.execv(sys.executable, [sys.executable, "-S", "-E", "-c", again, again])
