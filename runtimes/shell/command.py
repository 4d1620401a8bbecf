# SPDX-License-Identifier: Apache-2.0
"""Runs the shell command that is the first argument, in a box of Python, and ends as it ends.

Built into huskd, which runs it as a script. A traceback would be of this code, which no client
wrote: a shell that cannot start is reported as a shell reports it.
"""
import sys

ARGUMENT_MAX = 30000  # bytes of a command that surely fits into bash's arguments

try:
    import subprocess, tempfile

    text, rest = sys.argv[1], sys.argv[2:]
    if len(text) < ARGUMENT_MAX:
        status = subprocess.call(["/bin/bash", "-c", text, "bash", *rest])
    else:
        with tempfile.NamedTemporaryFile("w", dir="/tmp", suffix=".sh") as script:
            script.write(text)
            script.flush()
            status = subprocess.call(["/bin/bash", script.name, *rest])
except KeyboardInterrupt:
    sys.exit(130)
except OSError as error:
    sys.stderr.write(f"bash: cannot start: {error.strerror}\n")
    sys.exit(126)
sys.exit(status if status >= 0 else 128 - status)
