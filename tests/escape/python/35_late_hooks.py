# SPDX-License-Identifier: Apache-2.0
# technique: 50 S7
# held: atexit, finalisers and threads that keep running after the end are stopped by the time limit
# expect: status=timeout stdout~HELD
# cause: timeout
# limits: --timeout 1
import atexit
import threading
import time


class Sticky:
    def __del__(self, sleep=time.sleep):
        sleep(60)


def linger():
    while True:
        time.sleep(0.1)


sticky = Sticky()
atexit.register(time.sleep, 60)
threading.Thread(target=linger).start()
threading._register_atexit(time.sleep, 60)
print("HELD", flush=True)
