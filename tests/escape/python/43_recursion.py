# SPDX-License-Identifier: Apache-2.0
# technique: 56
# held: endless recursion is an ordinary exception
# expect: status=failed exit=1 error=RecursionError
def deeper(depth):
    return deeper(depth + 1) + 1


deeper(0)
