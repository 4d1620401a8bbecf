#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a text file as a C header with one string.

    embed.py FILE HEADER NAME
"""
from __future__ import annotations

import sys
from pathlib import Path


def main(source: str, header: str, name: str) -> None:
    lines = Path(source).read_text(encoding="ascii").splitlines()
    texts = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    body = "\n".join(f'    "{text}\\n"' for text in texts)
    head = f"/* Made by tools/embed.py from {Path(source).name}. */\n#pragma once\n\n"
    Path(header).write_text(f"{head}static const char {name}[] =\n{body};\n", encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
