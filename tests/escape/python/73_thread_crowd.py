# SPDX-License-Identifier: Apache-2.0
# technique: S7 R1
# held: threads up to the limit, all spinning, are refused beyond it and end with the run
# expect: status=timeout processes<=48 'stdout~^4[0-7] can.t start'
# limits: --timeout 1 --pids 48
import threading
import time

go = threading.Event()


def spin():
    go.wait()
    while True:
        pass


started = 0
try:
    for _ in range(5000):
        threading.Thread(target=spin).start()
        started += 1
except RuntimeError as error:
    print(started, error, flush=True)
go.set()
time.sleep(60)
