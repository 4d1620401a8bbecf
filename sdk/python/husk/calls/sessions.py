# SPDX-License-Identifier: Apache-2.0
"""Operations on sessions, their contexts and executions; see call.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from husk.calls.call import (
    BASE,
    Call,
    get,
    given,
    new_key,
    nothing,
    page,
    record,
    result,
    send,
    target_of,
)
from husk.errors import InvalidParameterError
from husk.http.wire import Answer
from husk.results.models import (
    Checkpoint,
    Context,
    Contexts,
    ExecutionState,
    Interrupted,
    Page,
    Receipt,
    Session,
    SessionStats,
    Withdrawn,
)
from husk.results.result import Result

Mode = Literal["persistent", "ephemeral"]
Isolation = Literal["full", "userns"]
OnIdle = Literal["end", "park", "freeze"]
Size = str | int

QUEUE_SECONDS = 60  # a run may wait in the queue before its own time begins


# ---- sessions ----


def create_session(
    template: str | None = None,
    *,
    language: str | None = None,
    mode: Mode = "persistent",
    timeout: int | None = None,
    on_idle: OnIdle | None = None,
    memory: Size | None = None,
    cpus: float | None = None,
    disk: Size | None = None,
    pids: int | None = None,
    env: Mapping[str, str] | None = None,
    agent_id: str | None = None,
    min_isolation: Isolation | None = None,
    id: str | None = None,
) -> Call[Session]:
    """Create a session, or get the live session of the same agent.

    Args:
        template: the template of the sandbox; `python` by default, or that of the language.
        language: `python`, `javascript` or `shell`, for runs that name none; by default that of the
            template.
        mode: `persistent` keeps interpreter and files for many executions, `ephemeral` ends after
            one.
        timeout: idle seconds after which the session ends.
        on_idle: `end`, or after these seconds `park` (files stay) or `freeze` (variables stay, too).
        memory: memory limit, such as "512Mi", or bytes.
        cpus: CPU cores; fractions are allowed.
        disk: limit for all writable files, such as "256Mi", or bytes.
        pids: maximum number of processes and threads.
        env: environment variables of every execution.
        agent_id: if this agent has a live session with all that is asked for, return that one.
        min_isolation: `full` (every layer, or fail) or `userns`.
        id: a custom id for the session.
    """
    resources = given(cpu=cpus, memory=memory, disk=disk, max_processes=pids)
    body = given(
        template_id=template,
        language=language,
        mode=mode,
        timeout=timeout,
        on_idle=on_idle,
        resources=resources or None,
        env_vars=dict(env) if env is not None else None,
        agent_id=agent_id,
        min_isolation=min_isolation,
        id=id,
    )
    return send(
        "POST", target_of("sessions"), body, record(Session), can_repeat=False, key=new_key()
    )


def get_session(session_id: str) -> Call[Session]:
    """Get a session; an ended one as long as its record is kept."""
    return get(target_of("sessions", session_id), record(Session))


def list_sessions(
    *,
    status: str | None = None,
    template: str | None = None,
    agent_id: str | None = None,
    mode: Mode | None = None,
    limit: int = 50,
    offset: int = 0,
    cursor: str | None = None,
) -> Call[Page[Session]]:
    """List sessions, newest first.

    Args:
        status: only sessions in this state.
        template: only sessions of this template.
        agent_id: only sessions of this agent.
        mode: only sessions of this mode.
        limit: number of sessions, up to 200.
        offset: number of sessions to skip.
        cursor: next_cursor of the page before; instead of offset.
    """
    target = target_of(
        "sessions",
        status=status,
        template_id=template,
        agent_id=agent_id,
        mode=mode,
        limit=limit,
        offset=offset,
        cursor=cursor,
    )
    return get(target, page(Session))


def terminate_session(session_id: str) -> Call[Session]:
    """End a session: all its processes are dead when this returns. Ending it twice is harmless."""
    target = target_of("sessions", session_id, "terminate")
    return send("POST", target, None, record(Session), can_repeat=True)


def purge_session(session_id: str) -> Call[None]:
    """End a session and remove its record, executions and files."""
    target = target_of("sessions", session_id, purge=True)
    return send("DELETE", target, None, nothing, can_repeat=False)


def extend_session(session_id: str, timeout: int, on_idle: OnIdle | None = None) -> Call[Session]:
    """Set the idle timeout of a live session to this many seconds from now, and perhaps `on_idle`."""
    target = target_of("sessions", session_id, "extend")
    body = given(timeout=timeout, on_idle=on_idle)
    return send("POST", target, body, record(Session), can_repeat=True)


def session_stats(session_id: str) -> Call[SessionStats]:
    """Get the current and total resource usage of a session."""
    return get(target_of("sessions", session_id, "stats"), record(SessionStats))


def session_receipt(session_id: str) -> Call[Receipt]:
    """Get the isolation and limits that are in force for a session."""
    return get(target_of("sessions", session_id, "receipt"), record(Receipt))


# ---- contexts ----


def interrupt(session_id: str, context: int = 0) -> Call[Interrupted]:
    """Interrupt the running code of a context, as Ctrl-C does; variables stay."""
    target = target_of("sessions", session_id, "interrupt")
    return send("POST", target, {"context_id": context}, record(Interrupted), can_repeat=True)


def reset(session_id: str, context: int = 0) -> Call[Context]:
    """Replace the interpreter of a context: variables are lost, files stay."""
    target = target_of("sessions", session_id, "reset")
    return send("POST", target, {"context_id": context}, record(Context), can_repeat=True)


def list_contexts(session_id: str) -> Call[Contexts]:
    """List the contexts and checkpoints of a session."""

    def read(answer: Answer) -> Contexts:
        data = json.loads(answer.body)
        parked = [Checkpoint.parse(c) for c in data.get("checkpoints", [])]
        return Contexts([Context.parse(c) for c in data["items"]], parked)

    return get(target_of("sessions", session_id, "contexts"), read)


def create_context(session_id: str, language: str | None = None) -> Call[Context]:
    """Add a context with nothing in it; language: python, javascript or shell, else the session's."""
    body = {} if language is None else {"language": language}
    target = target_of("sessions", session_id, "contexts")
    return send("POST", target, body, record(Context), can_repeat=False)


def checkpoint(session_id: str, context: int = 0) -> Call[Checkpoint]:
    """Save a copy of a context with all its variables, but not its files."""
    target = target_of("sessions", session_id, "contexts", context, "checkpoint")
    return send("POST", target, None, record(Checkpoint), can_repeat=False)


def restore(session_id: str, checkpoint: int | Checkpoint, context: int = 0) -> Call[Context]:
    """Restore a context from a checkpoint; a checkpoint can be restored any number of times.

    Args:
        session_id: the session.
        checkpoint: a result of `checkpoint`, or its number.
        context: the context to replace.
    """
    number = checkpoint.checkpoint_id if isinstance(checkpoint, Checkpoint) else checkpoint
    target = target_of("sessions", session_id, "contexts", context, "restore")
    return send("POST", target, {"checkpoint_id": number}, record(Context), can_repeat=True)


def branch(session_id: str, context: int = 0) -> Call[Context]:
    """Create a new context with a copy of all variables; both continue independently."""
    target = target_of("sessions", session_id, "contexts", context, "branch")
    return send("POST", target, None, record(Context), can_repeat=False)


# ---- executions ----


def work(
    *,
    code: str | None = None,
    command: str | None = None,
    handler: str | None = None,
    event: Mapping[str, Any] | None = None,
    handler_context: Mapping[str, Any] | None = None,
    language: str | None = None,
    timeout: int | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] | None = None,
    stdin: str | None = None,
    context: int | None = None,
) -> dict[str, Any]:
    """Return the body of an execution request; give exactly one of code, command and handler."""
    if [code, command, handler].count(None) != 2:
        raise InvalidParameterError("Give either code or command.")
    return given(
        code=code,
        command=command,
        handler_code=handler,
        event=event,
        context=handler_context,
        language=language,
        timeout=timeout,
        env_vars=dict(env) if env is not None else None,
        args=list(args) if args is not None else None,
        stdin=stdin,
        context_id=context,
    )


def execute_sync(session_id: str, body: Mapping[str, Any], key: str | None = None) -> Call[Result]:
    """Run and wait for the result.

    Args:
        session_id: the session.
        body: what to execute, as described in docs/api.md.
        key: an Idempotency-Key; with one, the request survives a restart of the server.
    """
    event = body.get("event") or {}
    limit = event.get("__timeout") if isinstance(event, Mapping) else None
    limit = limit or body.get("timeout") or (300 if "handler_code" in body else 30)
    wait = (
        int(min(3600, max(10, limit + QUEUE_SECONDS))) if isinstance(limit, (int, float)) else 300
    )
    target = f"{BASE}/sessions/{quote(session_id, safe='')}/execute-sync?sync_timeout={wait}"
    return send("POST", target, body, result, can_repeat=False, key=key, timeout=wait + 10.0)


def execute(
    session_id: str, body: Mapping[str, Any], key: str | None = None
) -> Call[ExecutionState]:
    """Start an execution and return immediately; follow it with `events` or `get_execution`.

    Args:
        session_id: the session.
        body: what to execute, as described in docs/api.md.
        key: an Idempotency-Key; generated by default.
    """

    target = target_of("sessions", session_id, "execute")
    return send(
        "POST", target, body, record(ExecutionState), can_repeat=False, key=key or new_key()
    )


def execute_stream(session_id: str, body: Mapping[str, Any], key: str | None = None) -> Call[None]:
    """Run and stream the events."""
    target = target_of("sessions", session_id, "execute-stream")
    return send("POST", target, body, nothing, can_repeat=False, key=key or new_key())


def execution_events(execution_id: str, after: str | None = None) -> Call[None]:
    """Follow an execution from the beginning, or after an event."""
    call = get(target_of("executions", execution_id, "events"), nothing)
    if after:
        call.request.headers = {"Last-Event-ID": after}
    return call


def get_execution(execution_id: str) -> Call[Result]:
    """Get an execution with its result so far."""
    return get(target_of("executions", execution_id), result)


def execution_status(execution_id: str) -> Call[ExecutionState]:
    """Get the state of an execution without its output."""
    return get(target_of("executions", execution_id, "status"), record(ExecutionState))


def execution_result(execution_id: str) -> Call[Result]:
    """Get the result of an execution; it does not change once the execution has ended."""
    return get(target_of("executions", execution_id, "result"), result)


def cancel_execution(execution_id: str) -> Call[Result]:
    """Cancel an execution: its processes are dead when this returns."""
    target = target_of("executions", execution_id, "cancel")
    return send("POST", target, None, result, can_repeat=True)


def withdraw(session_id: str, key: str) -> Call[Withdrawn]:
    """Withdraw a request for an execution: if it is queued it never starts, if it runs it is
    interrupted.

    Args:
        session_id: the session.
        key: the Idempotency-Key of the request.
    """
    target = target_of("sessions", session_id, "withdraw")
    return send("POST", target, None, record(Withdrawn), can_repeat=True, key=key)


def list_executions(
    session_id: str,
    *,
    status: str | None = None,
    limit: int = 50,
    offset: int = 0,
    cursor: str | None = None,
) -> Call[Page[ExecutionState]]:
    """List the executions of a session, newest first, without output.

    Args:
        session_id: the session.
        status: only executions in this state.
        limit: number of executions, up to 200.
        offset: number of executions to skip.
        cursor: next_cursor of the page before; instead of offset.
    """
    target = target_of(
        "sessions",
        session_id,
        "executions",
        status=status,
        limit=limit,
        offset=offset,
        cursor=cursor,
    )
    return get(target, page(ExecutionState))


def latest_status(session_id: str, execution_id: str | None = None) -> Call[ExecutionState]:
    """Get the state of the latest execution of a session, or of the given one."""
    target = target_of("sessions", session_id, "status", execution_id=execution_id)
    return get(target, record(ExecutionState))


def latest_result(session_id: str, execution_id: str | None = None) -> Call[Result]:
    """Get the result of the latest execution of a session, or of the given one."""
    return get(target_of("sessions", session_id, "result", execution_id=execution_id), result)
