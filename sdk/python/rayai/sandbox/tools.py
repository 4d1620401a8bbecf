# SPDX-License-Identifier: Apache-2.0
"""The sandbox functions; each can also be called as a Ray task, with `.remote(...)`."""

from __future__ import annotations

from husk.interpreter import (
    cleanup_session,
    create_execute_python_tool,
    execute_code,
    execute_shell,
    get_session_stats,
    upload_file,
)

__all__ = [
    "cleanup_session",
    "create_execute_python_tool",
    "execute_code",
    "execute_shell",
    "get_session_stats",
    "upload_file",
]
