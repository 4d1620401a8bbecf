# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: a program that ignores or handles every signal is stopped at its time limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import signal

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True:
    pass
