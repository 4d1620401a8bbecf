# SPDX-License-Identifier: Apache-2.0
# technique: 45
# held: hand-made bytecode that reads outside its frame harms only the process that runs it
# expect: status=completed exit=0 stdout~HELD
import dis
import os


def victim():
    pass


ends = []
for index in (50, 200, 255):
    pid = os.fork()
    if pid == 0:
        load = bytes([dis.opmap["RESUME"], 0, dis.opmap["LOAD_FAST"], index])
        body = load + bytes([dis.opmap["RETURN_VALUE"], 0])
        victim.__code__ = victim.__code__.replace(co_code=body, co_stacksize=10)
        try:
            repr(victim())
        finally:
            os._exit(0)
    ends.append(os.waitpid(pid, 0)[1])
print("HELD", ends)
