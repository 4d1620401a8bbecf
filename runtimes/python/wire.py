# SPDX-License-Identifier: Apache-2.0
"""Frame types, keys and values of src/wire/frame.h, and how fields are filled."""

RUN, BRANCH = 1, 3
CODE, NAME, KIND, ARG, ENV, GET = 1, 2, 3, 4, 5, 7
EVENT, CONTEXT, TIMEOUT_MS = 8, 9, 10
EXIT, VALUE, VALUE_JSON, ERROR_TYPE, ERROR_MESSAGE, TRACEBACK = 13, 14, 15, 16, 17, 18
HANDLER_NAME = 31
DROPPED, RICH, PRINT, POLICY, VARIABLE, VARIABLES, ARTIFACTS = 22, 23, 24, 25, 26, 27, 28
SCRIPT, CELL, HANDLER = 0, 1, 2
PYRUNNER = b"\x01"

VALUE_MAX = 1 << 20
MESSAGE_MAX = 64 << 10

Fields = list[tuple[int, bytes]]


def u32(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


encode = str.encode  # a program may have replaced str, and may have a kind of text of its own


def text(value: str, limit: int) -> bytes:
    return encode(value, "utf-8", "backslashreplace")[:limit]
