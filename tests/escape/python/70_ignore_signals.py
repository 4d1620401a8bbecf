# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: a program that ignores or handles every signal is stopped at its time limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
try:
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
finally:
    while True:
        pass
