# SPDX-License-Identifier: Apache-2.0
# technique: S7 R5
# held: timers that fire all the time keep nothing alive beyond the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import signal
import threading
import time

signal.signal(signal.SIGALRM, lambda *args: signal.setitimer(signal.ITIMER_REAL, 0.00001))
signal.setitimer(signal.ITIMER_REAL, 0.00001, 0.00001)
signal.signal(signal.SIGPROF, lambda *args: None)
signal.setitimer(signal.ITIMER_PROF, 0.00001, 0.00001)
threading.Thread(target=lambda: [time.sleep(0) for _ in iter(int, 1)], daemon=True).start()
while True:
    try:
        time.sleep(1)
    except Exception:
        pass
