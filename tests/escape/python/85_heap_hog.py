# SPDX-License-Identifier: Apache-2.0
# technique: R2
# held: heap beyond the limit ends the run as memory_exceeded, peak at the limit
# expect: status=memory_exceeded exit=137 peak_mb<=65
# cause: oom
# limits: --memory 64M --timeout 8
kept = []
while True:
    kept.append(bytearray(b"x") * (1 << 20))
