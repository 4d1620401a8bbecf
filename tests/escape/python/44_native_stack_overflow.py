# SPDX-License-Identifier: Apache-2.0
# technique: 56 R2
# held: recursion without the interpreter's limit overflows the stack: a crash, reported as one
# expect: status=crashed exit=139
# cause: signal
import sys


class Node:
    def __getattr__(self, name):
        return getattr(self, name + "x"[:0])


sys.setrecursionlimit(2**31 - 1)
repr(getattr(Node(), "a"))
