# SPDX-License-Identifier: Apache-2.0
"""The state of a Sandbox object, and how it detects the loss of its session or interpreter."""

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
        """Drop and count connections that the server has closed."""


@dataclass
class Held:
    """A session that a Sandbox object holds.

    Attributes:
        wanted: arguments of create_session; None if the session exists already.
        session: as last received; None before it is created.
        is_owner: this object created the session, so it may end it.
        is_durable: runs have a key and are recorded before they start.
        cells: number of our active runs per context; None counts commands.
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
        """Note that the session exists."""
        self.session, self.session_id, self.is_owner = session, session.id, is_owner
        self.breaks = self.link.breaks

    @property
    def id(self) -> str:
        """Id of the session; raises if the session was terminated."""
        if self.is_over:
            raise SandboxClosedError(f"The sandbox {self.session_id} was terminated.")
        return self.session_id

    @property
    def is_mine(self) -> bool:
        """Whether this object created the session, in this process."""
        return self.is_owner and self.pid == os.getpid()

    # ---- detecting a loss ----

    @property
    def is_parked_when_idle(self) -> bool:
        """Whether it may get another box at any time without a loss."""
        return self.session is not None and self.session.on_idle == "park"

    def is_suspect(self) -> bool:
        """Return whether a connection broke since the last check: the interpreter may be lost."""
        self.link.drop_stale()
        return self.breaks != self.link.breaks

    def is_other_box(self, result: Result) -> bool:
        """Return whether the run was in another box than the last one, judged by its user ids.

        A sandbox that is parked when it is idle gets another one as asked: only a lost box counts.
        """
        receipt = result.data.get("receipt") or {}
        block, self.block = self.block, receipt.get("id_block_start") or self.block
        if self.is_parked_when_idle:
            return result.restart_reason == "box_lost"
        return block not in (0, self.block)

    def check(self, session: Session) -> None:
        """Raise if the session is over or its box was replaced."""
        known, self.session = self.session, session
        self.breaks = self.link.breaks
        if session.is_over:
            raise self._lost(
                SessionEndedError,
                f"The session {session.id} has ended ({session.status}).",
                f"{session.reason or 'no reason given'}; variables and files are lost",
                "Create a new Sandbox.",
            )
        if self.is_parked_when_idle:
            return  # the next result tells what happened to the variables
        if known is not None and known.container_id and known.container_id != session.container_id:
            self.block = 0
            raise self.interpreter_lost("the server or a part of it was restarted")

    def interpreter_lost(self, why: str) -> InterpreterLostError:
        """Return the exception for a lost interpreter."""
        error = self._lost(
            InterpreterLostError,
            f"The interpreter of session {self.session_id} is gone.",
            f"{why}: all variables are lost, files are as last saved",
            "Run the code that set the variables again; the session accepts work.",
        )
        assert isinstance(error, InterpreterLostError)
        return error

    def unknown(self) -> SandboxLostError:
        """Return the exception for a session that the server does not have."""
        return self._lost(
            SessionEndedError,
            f"The server does not know the session {self.session_id}.",
            "variables and files are lost",
            "Create a new Sandbox.",
        )

    def _lost(
        self, kind: type[SandboxLostError], message: str, detail: str, solution: str
    ) -> SandboxLostError:
        error = kind(message, detail=detail, solution=solution)
        error.session_id = self.session_id
        return error
