# SPDX-License-Identifier: Apache-2.0
"""Sandbox functions: run code, commands and files in sessions that have names."""

from __future__ import annotations

from husk.interpreter.functions import (
    CodeInterpreterExecutor,
    cleanup_session,
    create_execute_python_tool,
    execute_code,
    execute_shell,
    get_session_stats,
    upload_file,
)

__all__ = [
    "CodeInterpreterExecutor",
    "cleanup_session",
    "create_execute_python_tool",
    "execute_code",
    "execute_shell",
    "get_session_stats",
    "upload_file",
]
