# SPDX-License-Identifier: Apache-2.0
"""Result types of the sandbox functions."""

from __future__ import annotations

from husk.interpreter.types import (
    CleanupError,
    CleanupResult,
    ExecutionError,
    ExecutionResult,
    InstallError,
    InstallResult,
    SessionStats,
    UploadError,
    UploadResult,
    VolumeSpec,
)

__all__ = [
    "CleanupError",
    "CleanupResult",
    "ExecutionError",
    "ExecutionResult",
    "InstallError",
    "InstallResult",
    "SessionStats",
    "UploadError",
    "UploadResult",
    "VolumeSpec",
]
