# SPDX-License-Identifier: Apache-2.0
"""Result types of the sandbox functions."""

from __future__ import annotations

from husk.interpreter.types import *
from husk.interpreter.types import __all__ as __all__
