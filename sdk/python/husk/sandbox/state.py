# SPDX-License-Identifier: Apache-2.0
"""What a Sandbox object knows about its session, and how the loss of it, or of its interpreter, is
noticed and said.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from husk.errors import (
    InterpreterLostError,
    SandboxClosedError,
    SandboxLostError,
    SessionEndedError,
)
from husk.results.models import Session
from husk.results.result import Result


class Link(Protocol):
    """The connections that a sandbox uses."""

    breaks: int

    def drop_stale(self) -> None:
        """Notice connections that the server has closed."""


@dataclass
class Held:
    """A session in the hands of a Sandbox object.

    Attributes:
        wanted: arguments of create_session; None when the session exists already.
        session: as last seen; None before it was made.
        is_owner: this object made it, so it may end it.
        is_durable: runs carry a key and are recorded before they start.
        cells: how many runs of ours a context has, under None those of commands.
    """

    link: Link
    wanted: dict[str, Any] | None
    is_durable: bool = True
    session_id: str = ""
    session: Session | None = None
    is_owner: bool = False
    is_over: bool = False
    pid: int = field(default_factory=os.getpid)
    breaks: int = 0
    block: int = 0
    cells: Counter[int | None] = field(default_factory=Counter)

    def begin(self, session: Session, is_owner: bool) -> None:
        """The session is there."""
        self.session, self.session_id, self.is_owner = session, session.id, is_owner
        self.breaks = self.link.breaks

    @property
    def id(self) -> str:
        """Its id; raises when there is none."""
        if self.is_over:
            raise SandboxClosedError(f"The sandbox {self.session_id} was terminated.")
        return self.session_id

    @property
    def is_mine(self) -> bool:
        """This object, in this process, made the session."""
        return self.is_owner and self.pid == os.getpid()

    # ---- noticing a loss ----

    def is_suspect(self) -> bool:
        """A connection broke since the last look: the server may have lost the interpreter."""
        self.link.drop_stale()
        return self.breaks != self.link.breaks

    def is_other_box(self, result: Result) -> bool:
        """The run was in another box than those before it; ids tell, without asking again."""
        receipt = result.data.get("receipt") or {}
        block, self.block = self.block, receipt.get("id_block_start") or self.block
        return block not in (0, self.block)

    def check(self, session: Session) -> None:
        """Raise when the session is over, or has another box than the one we know."""
        known, self.session = self.session, session
        self.breaks = self.link.breaks
        if session.is_over:
            raise self._lost(
                SessionEndedError,
                f"The session {session.id} has ended ({session.status}).",
                f"{session.reason or 'no reason given'}; variables and files are gone",
                "Make a new Sandbox.",
            )
        if known is not None and known.container_id and known.container_id != session.container_id:
            self.block = 0
            raise self.interpreter_lost("the server, or a part of it, was restarted")

    def interpreter_lost(self, why: str) -> InterpreterLostError:
        """The exception that says what is gone and what is not."""
        error = self._lost(
            InterpreterLostError,
            f"The interpreter of session {self.session_id} is gone.",
            f"{why}: all variables are lost, files are there as they were last saved",
            "Run again what made the variables; the session takes work.",
        )
        assert isinstance(error, InterpreterLostError)
        return error

    def unknown(self) -> SandboxLostError:
        """The exception for a session that the server does not have."""
        return self._lost(
            SessionEndedError,
            f"The server does not know the session {self.session_id}.",
            "variables and files are gone",
            "Make a new Sandbox.",
        )

    def _lost(
        self, kind: type[SandboxLostError], message: str, detail: str, solution: str
    ) -> SandboxLostError:
        error = kind(message, detail=detail, solution=solution)
        error.session_id = self.session_id
        return error
