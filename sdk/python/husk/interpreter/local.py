# SPDX-License-Identifier: Apache-2.0
"""The sessions of the sandbox functions without Ray: they belong to this process and end with it."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from typing import Any, Optional

from husk.interpreter import policy
from husk.interpreter.session import CodeInterpreter, Executor

__all__ = ["LOCAL", "LocalDirectory"]


class _LocalSession(CodeInterpreter):
    def _on_box(self) -> None:
        _close_at_exit()


class LocalDirectory:
    """The sessions of this process, by name; they end with it."""

    def __init__(self) -> None:
        self._sessions: dict[str, CodeInterpreter] = {}
        self._lock = threading.Lock()

    def find(self, name: str, session_id: str) -> Optional[Executor]:
        """Returns a session, or None."""
        self._end_idle()
        with self._lock:
            return self._sessions.get(name)

    def open(self, name: str, session_id: str, **options: Any) -> tuple[Executor, bool]:
        """Returns a session, and whether this call created it."""
        self._end_idle()
        with self._lock:
            found = self._sessions.get(name)
            if found is not None:
                return found, False
            made = self._sessions[name] = _LocalSession(session_id, **options)
            return made, True

    def remove(self, name: str) -> None:
        """Removes a session whose box has ended."""
        with self._lock:
            self._sessions.pop(name, None)

    def close(self) -> None:
        """Ends all sessions."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.cleanup_session()

    def forget(self) -> None:
        """Forgets the sessions after a fork, because they belong to the parent."""
        self._sessions = {}
        self._lock = threading.Lock()

    def _end_idle(self) -> None:
        with self._lock:
            idle = [
                n for n, s in self._sessions.items() if s.idle_seconds() > policy.SESSION_TIMEOUT
            ]
            ended = [self._sessions.pop(name) for name in idle]
        for session in ended:
            session.cleanup_session()


LOCAL = LocalDirectory()


@functools.cache
def _close_at_exit() -> None:
    # Registered after the first box exists: exit handlers run in reverse order, and a server that
    # this process started must outlive the boxes.
    atexit.register(LOCAL.close)


os.register_at_fork(after_in_child=LOCAL.forget)
