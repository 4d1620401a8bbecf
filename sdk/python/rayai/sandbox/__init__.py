# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of the rayai API: functions with named sessions, and `Sandbox` for agents."""

from __future__ import annotations

from husk.interpreter.agent_sandbox import ExecResult, Sandbox
from rayai.sandbox.config import (
    CPU_PERIOD,
    CPU_QUOTA,
    DEFAULT_IMAGE,
    DEFAULT_TIMEOUT,
    MEMORY_LIMIT,
    NETWORK_MODE,
    RUNTIME,
    SESSION_TIMEOUT,
    STRICT_GVISOR,
)
from rayai.sandbox.executor import CodeInterpreterExecutor
from rayai.sandbox.tools import (
    cleanup_session,
    create_execute_python_tool,
    execute_code,
    execute_shell,
    get_session_stats,
    upload_file,
)
from rayai.sandbox.types import (
    CleanupError,
    CleanupResult,
    ExecutionError,
    ExecutionResult,
    InstallError,
    InstallResult,
    SessionStats,
    UploadError,
    UploadResult,
)

__all__ = [
    "CPU_PERIOD",
    "CPU_QUOTA",
    "CleanupError",
    "CleanupResult",
    "CodeInterpreterExecutor",
    "DEFAULT_IMAGE",
    "DEFAULT_TIMEOUT",
    "ExecResult",
    "ExecutionError",
    "ExecutionResult",
    "InstallError",
    "InstallResult",
    "MEMORY_LIMIT",
    "NETWORK_MODE",
    "RUNTIME",
    "SESSION_TIMEOUT",
    "STRICT_GVISOR",
    "Sandbox",
    "SessionStats",
    "UploadError",
    "UploadResult",
    "cleanup_session",
    "create_execute_python_tool",
    "execute_code",
    "execute_shell",
    "get_session_stats",
    "upload_file",
]
