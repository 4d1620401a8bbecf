# SPDX-License-Identifier: Apache-2.0
"""The breach suite assumes that one part of husk is hostile already, and shows that the walls around
it hold. It shares the server of the integration tests.
"""
from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "integration" / "lib"), str(ROOT / "tests" / "breach")]
