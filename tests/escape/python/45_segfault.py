# SPDX-License-Identifier: Apache-2.0
# technique: 56 E17
# held: a segmentation fault is reported as a crash with its signal
# expect: status=crashed exit=139
# cause: signal
import ctypes

ctypes.string_at(0)
