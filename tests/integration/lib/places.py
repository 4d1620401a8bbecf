# SPDX-License-Identifier: Apache-2.0
"""Where the source, the build and its programs are. HUSK_BUILD and HUSK_BIN_DIR name other places
than build/ and build/bin.
"""
from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("HUSK_BUILD", ROOT / "build"))
BIN = Path(os.environ.get("HUSK_BIN_DIR", ROOT / "build" / "bin"))
