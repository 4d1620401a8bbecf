# SPDX-License-Identifier: Apache-2.0
# technique: 52 54 S6
# held: patching everything a runner may call does not hide the true end of the program
# expect: status=failed exit=1 error=ValueError value=None
import builtins
import json
import sys
import time

lie = lambda *args, **kw: '{"status": "completed", "exit_code": 0, "value": "FORGED"}'
json.dumps = json.JSONEncoder.encode = lie
time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0
builtins.print = builtins.repr = builtins.str = lie


class Quiet:
    write = flush = close = lambda *args: None
    closed, encoding, errors, buffer = False, "utf-8", "strict", None

    def fileno(self):
        return 2


sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = Quiet()
sys.excepthook = lambda *args: None
raise ValueError("the true end")
