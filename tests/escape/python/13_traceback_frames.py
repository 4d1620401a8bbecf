# SPDX-License-Identifier: Apache-2.0
# technique: 19 21
# held: the frames below the program, up to the runner, hold no secret and no outside object
# expect: status=completed exit=0 stdout~HELD
import os
import re
import sys

mark = re.compile(os.environ["HINT_MARK"] + "[0-9a-f]{32}")
frames = []
try:
    raise ValueError
except ValueError as error:
    frame = error.__traceback__.tb_frame
    while frame:
        frames.append(frame)
        frame = frame.f_back
frames += [sys._getframe(), *sys._current_frames().values()]

for frame in frames:
    for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
        try:
            text = repr(value)
        except Exception:
            continue
        if mark.search(text):
            print("ESCAPED:", frame.f_code.co_filename, name, text)
            sys.exit(1)
print("HELD", len(frames))
