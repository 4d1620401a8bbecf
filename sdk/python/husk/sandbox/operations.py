# SPDX-License-Identifier: Apache-2.0
"""The operations of a sandbox. Sandbox and AsyncSandbox generate their methods from them.

Each takes the Held as its first argument and returns a Call, or a Flow of several.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from husk.calls import sessions as ses
from husk.calls.call import Call, Guard, new_key
from husk.client.drive import Flow, Watch
from husk.errors import (
    ConflictError,
    HuskError,
    NotOwnerError,
    SessionNotFoundError,
)
from husk.results.events import Event
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
)
from husk.results.result import Output, Result
from husk.sandbox.state import Held

T = TypeVar("T")

OnText = Callable[[str], Awaitable[None] | None]
OnOutput = Callable[[Output], Awaitable[None] | None]


# ---- life ----


def start(held: Held) -> Flow[Session]:
    """Create the session now instead of on first use."""
    if held.session is not None:
        return held.session
    if held.wanted is None:
        found: Session = yield ses.get_session(held.id)
        held.begin(found, is_owner=False)
        held.check(found)
        return found
    call = ses.create_session(**held.wanted)
    # 200 instead of 201: the agent's live session, which another object owns.
    asked = Call(call.request, lambda a: (call.value(a), a.status == 201), call.can_repeat)
    made: Session
    made, is_new = yield asked
    held.begin(made, is_owner=is_new)
    return made


def terminate(held: Held) -> Flow[None]:
    """End the session: all its processes are dead when this returns. Ending it twice is harmless.

    Only the object that created the session can end it; others raise NotOwnerError.
    """
    if not held.is_mine:
        raise NotOwnerError(
            f"This object did not create the session {held.session_id}.",
            solution="End it with the object that created it, or with Client.terminate_session().",
        )
    if not held.is_over:
        try:
            yield ses.terminate_session(held.session_id)
        except SessionNotFoundError:
            pass  # already gone
        held.is_over = True  # set last, so that a failed call can be retried


def extend(held: Held, timeout: int, on_idle: ses.OnIdle | None = None) -> Flow[Session]:
    """Set the idle timeout of the session to this many seconds from now, and perhaps `on_idle`."""
    return explained(held, ses.extend_session(held.id, timeout, on_idle))


def info(held: Held) -> Call[Session]:
    """Get the session as the server has it now."""
    return ses.get_session(held.id)


def stats(held: Held) -> Call[SessionStats]:
    """Get the current and total resource usage of the sandbox."""
    return ses.session_stats(held.id)


def receipt(held: Held) -> Flow[Receipt]:
    """Get the isolation and limits that are in force for the sandbox."""
    return explained(held, ses.session_receipt(held.id))


def executions(
    held: Held,
    *,
    status: str | None = None,
    limit: int = 50,
    offset: int = 0,
    cursor: str | None = None,
) -> Call[Page[ExecutionState]]:
    """List the executions, newest first, without output.

    Args:
        status: only executions in this state.
        limit: number of executions, up to 200.
        offset: number of executions to skip.
        cursor: next_cursor of the page before; instead of offset.
    """
    return ses.list_executions(held.id, status=status, limit=limit, offset=offset, cursor=cursor)


# ---- contexts ----


def interrupt(held: Held, context: int = 0) -> Flow[Interrupted]:
    """Interrupt the running code of a context, as Ctrl-C does; variables stay."""
    return explained(held, ses.interrupt(held.id, context))


def reset(held: Held, context: int = 0) -> Flow[Context]:
    """Replace the interpreter of a context: variables are lost, files stay."""
    return explained(held, ses.reset(held.id, context))


def contexts(held: Held) -> Flow[Contexts]:
    """List contexts and checkpoints."""
    return explained(held, ses.list_contexts(held.id))


def checkpoint(held: Held, context: int = 0) -> Flow[Checkpoint]:
    """Save a copy of a context with all its variables, but not its files."""
    yield from _look(held)
    return (yield from explained(held, ses.checkpoint(held.id, context)))


def restore(held: Held, checkpoint: int | Checkpoint, context: int = 0) -> Flow[Context]:
    """Restore a context from a checkpoint; a checkpoint can be restored any number of times.

    Args:
        checkpoint: a result of `checkpoint`, or its number.
        context: the context to replace.
    """
    yield from _look(held)
    return (yield from explained(held, ses.restore(held.id, checkpoint, context)))


def branch(held: Held, context: int = 0) -> Flow[Context]:
    """Create a new context with a copy of all variables; pass its `context_id` to `run`."""
    yield from _look(held)
    return (yield from explained(held, ses.branch(held.id, context)))


# ---- running ----


def _look(held: Held) -> Flow[None]:
    """Check that the interpreter still exists, if a connection broke since the last check."""
    if held.is_suspect():
        held.check((yield ses.get_session(held.id)))


def _guard(held: Held) -> Guard:
    return Guard(ses.get_session(held.id), held.check)


def explain(held: Held, error: Exception) -> Flow[None]:
    """Raise the reason if the session is over, else the error of the server."""
    try:
        session = yield ses.get_session(held.id)
    except SessionNotFoundError:
        raise held.unknown() from error
    if session.is_over:
        held.check(session)
    raise error


def explained(held: Held, operation: Call[T] | Flow[T]) -> Flow[T]:
    """Wrap an operation: if it fails because the session is over, raise the reason."""
    try:
        if isinstance(operation, Call):
            value: T = yield operation
            return value
        return (yield from operation)
    except (SessionNotFoundError, ConflictError) as e:
        yield from explain(held, e)
        raise


def _execute(
    held: Held, step: Call[Result] | Watch, context: int | None, key: str | None
) -> Flow[Result]:
    held.cells[context] += 1
    try:
        result: Result = yield step
    except (SessionNotFoundError, ConflictError) as e:
        yield from explain(held, e)
        raise
    except (HuskError, GeneratorExit):
        raise
    except BaseException:  # Ctrl-C, a cancelled task, an exception of on_stdout
        with contextlib.suppress(HuskError):  # the caller's own exception matters more
            # Stop the run, or keep it from starting: the caller no longer waits for it.
            yield ses.withdraw(held.id, key) if key else ses.interrupt(held.id, context or 0)
        raise
    finally:
        held.cells[context] -= 1
    if held.is_other_box(result):
        error = held.interpreter_lost("its box was replaced before this run")
        error.result = result
        held.session = yield ses.get_session(held.id)
        raise error
    return result


def _work(
    held: Held,
    body: dict[str, Any],
    key: str | None,
    on_stdout: OnText | None,
    on_stderr: OnText | None,
    on_output: OnOutput | None,
) -> Flow[Result]:
    yield from _look(held)
    context = None if "command" in body else body.get("context_id") or 0
    is_watched = any((on_stdout, on_stderr, on_output))
    # Without a key, only interrupting its context stops a run. That stops neither a command, which
    # has no context, nor a queued run.
    if held.is_durable or is_watched or context is None or held.cells[context]:
        key = key or new_key()
    if not is_watched:
        call = ses.execute_sync(held.id, body, key)
        call.guard = _guard(held)
        return (yield from _execute(held, call, context, key))

    def on_event(event: Event) -> Awaitable[None] | None:
        if event.kind == "stdout" and on_stdout is not None:
            return on_stdout(event.text)
        if event.kind == "stderr" and on_stderr is not None:
            return on_stderr(event.text)
        if event.kind == "output" and on_output is not None:
            return on_output(Output(event.data))
        return None

    watched = Watch(_streamed(held, body, key), on_event)
    return (yield from _execute(held, watched, context, key))


def _streamed(held: Held, body: dict[str, Any], key: str | None) -> Call[None]:
    call = ses.execute_stream(held.id, body, key)
    call.guard = _guard(held)
    return call


def run(
    held: Held,
    code: str,
    *,
    timeout: int | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] | None = None,
    stdin: str | None = None,
    context: int | None = None,
    language: str | None = None,
    on_stdout: OnText | None = None,
    on_stderr: OnText | None = None,
    on_output: OnOutput | None = None,
    key: str | None = None,
) -> Flow[Result]:
    """Run code as a notebook cell and wait for its result. Variables stay for the next run.

    An exception of the code is in the result; `result.check()` raises it.

    Args:
        code: source in `language`, or in that of the context.
        timeout: seconds after which the cell is interrupted; variables stay. 30 by default.
        env: environment variables of this run.
        args: `sys.argv[1:]`.
        stdin: the whole standard input.
        context: the context to use, if there are branches.
        language: `python`, `javascript` or `shell`: the first context of it, made on first use.
            Each keeps its own variables.
        on_stdout: called with each piece of standard output as it arrives.
        on_stderr: the same for standard error.
        on_output: called with each Output as it is displayed.
        key: a custom Idempotency-Key; generated by default.
    """
    body = ses.work(
        code=code,
        timeout=timeout,
        env=env,
        args=args,
        stdin=stdin,
        context=context,
        language=language,
    )
    return _work(held, body, key, on_stdout, on_stderr, on_output)


def shell(
    held: Held,
    command: str,
    *,
    timeout: int | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] | None = None,
    stdin: str | None = None,
    on_stdout: OnText | None = None,
    on_stderr: OnText | None = None,
    key: str | None = None,
) -> Flow[Result]:
    """Run a shell command in the workspace: it sees the files, but not the variables.

    Args:
        command: the command line, for bash.
        timeout: time limit in seconds; 30 by default.
        env: environment variables of this command.
        args: `$1` and so on.
        stdin: the whole standard input.
        on_stdout: called with each piece of standard output as it arrives.
        on_stderr: the same for standard error.
        key: a custom Idempotency-Key; generated by default.
    """
    body = ses.work(command=command, timeout=timeout, env=env, args=args, stdin=stdin)
    return _work(held, body, key, on_stdout, on_stderr, None)


def handler(
    held: Held,
    code: str,
    event: Mapping[str, Any] | None = None,
    *,
    handler_context: Mapping[str, Any] | None = None,
    timeout: int | None = None,
    env: Mapping[str, str] | None = None,
    context: int | None = None,
    key: str | None = None,
) -> Flow[Result]:
    """Call a Lambda handler; its return value is the value of the result.

    Args:
        code: source that defines `handler(event)` or `handler(event, context)`.
        event: the event for the handler; `__timeout` in it is the time limit.
        handler_context: fields of the handler's context object.
        timeout: time limit in seconds, unless the event has `__timeout`; 300 by default.
        env: environment variables of this call.
        context: the context to use, if there are branches.
        key: a custom Idempotency-Key; generated by default.
    """
    body = ses.work(
        handler=code,
        event=event or {},
        handler_context=handler_context,
        timeout=timeout,
        env=env,
        context=context,
    )
    return _work(held, body, key, None, None, None)


def watch(held: Held, body: dict[str, Any], key: str | None) -> Flow[Watch]:
    """Return the watch of an execution whose events are read one by one."""
    yield from _look(held)
    return Watch(_streamed(held, body, key))
