# SPDX-License-Identifier: Apache-2.0
"""`python -m rayai.cli`."""

from __future__ import annotations

import sys

from rayai.cli import main

sys.exit(main())
