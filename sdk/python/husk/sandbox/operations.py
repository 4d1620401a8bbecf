# SPDX-License-Identifier: Apache-2.0
"""The operations of a sandbox that is held, written once: Sandbox and AsyncSandbox make their
methods from them.

Each takes what is held as its first argument and returns a Call, or a Flow of several.
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
    """Make the session now, instead of at the first use."""
    if held.session is not None:
        return held.session
    if held.wanted is None:
        found: Session = yield ses.get_session(held.id)
        held.begin(found, is_owner=False)
        held.check(found)
        return found
    call = ses.create_session(**held.wanted)
    # An agent that comes back gets its old session with 200: that belongs to whoever made it.
    asked = Call(call.request, lambda a: (call.value(a), a.status == 201), call.can_repeat)
    made: Session
    made, is_new = yield asked
    held.begin(made, is_owner=is_new)
    return made


def terminate(held: Held) -> Flow[None]:
    """End the session: every process of it is dead when this returns. Doing it twice is fine.

    Only the object that made the session may: others get NotOwnerError.
    """
    if not held.is_mine:
        raise NotOwnerError(
            f"This object did not make the session {held.session_id}.",
            solution="Let its maker end it, or use Client.terminate_session().",
        )
    if not held.is_over:
        try:
            yield ses.terminate_session(held.session_id)
        except SessionNotFoundError:
            pass  # it is gone, which was asked for
        held.is_over = True  # only now: what failed can be tried again


def extend(held: Held, timeout: int) -> Flow[Session]:
    """Give the session a new idle time, counted from now, in seconds."""
    return explained(held, ses.extend_session(held.id, timeout))


def info(held: Held) -> Call[Session]:
    """The session as the server sees it now."""
    return ses.get_session(held.id)


def stats(held: Held) -> Call[SessionStats]:
    """What the sandbox uses now and has used so far."""
    return ses.session_stats(held.id)


def receipt(held: Held) -> Flow[Receipt]:
    """What is actually enforced around the sandbox."""
    return explained(held, ses.session_receipt(held.id))


def executions(
    held: Held, *, status: str | None = None, limit: int = 50, offset: int = 0
) -> Call[Page[ExecutionState]]:
    """List what was executed, newest first, without output.

    Args:
        status: only those in this state.
        limit: at most that many, 200 at most.
        offset: skip that many.
    """
    return ses.list_executions(held.id, status=status, limit=limit, offset=offset)


# ---- contexts ----


def interrupt(held: Held, context: int = 0) -> Flow[Interrupted]:
    """Interrupt what a context runs now, as Ctrl-C does; variables stay."""
    return explained(held, ses.interrupt(held.id, context))


def reset(held: Held, context: int = 0) -> Flow[Context]:
    """Give a context a fresh interpreter: variables are gone, files stay."""
    return explained(held, ses.reset(held.id, context))


def contexts(held: Held) -> Flow[Contexts]:
    """List contexts and checkpoints."""
    return explained(held, ses.list_contexts(held.id))


def checkpoint(held: Held, context: int = 0) -> Flow[Checkpoint]:
    """Park a copy of a context with all its variables; files are not part of it."""
    yield from _look(held)
    return (yield from explained(held, ses.checkpoint(held.id, context)))


def restore(held: Held, checkpoint: int | Checkpoint, context: int = 0) -> Flow[Context]:
    """Take a context back to a checkpoint, any number of times.

    Args:
        checkpoint: what `checkpoint` returned, or its number.
        context: the context that becomes a copy of it.
    """
    yield from _look(held)
    return (yield from explained(held, ses.restore(held.id, checkpoint, context)))


def branch(held: Held, context: int = 0) -> Flow[Context]:
    """Make a new context with a copy of all variables; give its `context_id` to `run`."""
    yield from _look(held)
    return (yield from explained(held, ses.branch(held.id, context)))


# ---- running ----


def _look(held: Held) -> Flow[None]:
    """Before work that needs the interpreter: has it been lost?"""
    if held.is_suspect():
        held.check((yield ses.get_session(held.id)))


def _guard(held: Held) -> Guard:
    return Guard(ses.get_session(held.id), held.check)


def explain(held: Held, error: Exception) -> Flow[None]:
    """The server refused: if that is because the session is over, say that instead."""
    try:
        session = yield ses.get_session(held.id)
    except SessionNotFoundError:
        raise held.unknown() from error
    if session.is_over:
        held.check(session)
    raise error


def explained(held: Held, operation: Call[T] | Flow[T]) -> Flow[T]:
    """An operation, with the reason when the server refuses it because the session is over."""
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
    except BaseException:  # Ctrl-C, a cancelled task, what on_stdout raised
        with contextlib.suppress(HuskError):  # the caller's own exception says more
            # What was asked for does not go on for a caller who has left, and does not begin
            # either.
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
    # Without a key only an interrupt of the context can stop it: not a command, which has none, nor
    # what waits there.
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
    """Run code as a notebook cell and wait for its result: variables stay for the next run.

    What the code did, also an exception, is in the result; `result.check()` raises it.

    Args:
        code: source in the language of the template.
        timeout: seconds; the cell is interrupted then, and variables stay. 30 by default.
        env: environment variables of this run.
        args: `sys.argv[1:]`.
        stdin: standard input as a whole.
        context: which context, when there are branches.
        language: `python`, `javascript` or `shell`, as the template has it.
        on_stdout: called with each piece of standard output as it comes.
        on_stderr: likewise for standard error.
        on_output: called with each Output as it is displayed.
        key: an Idempotency-Key of your own; one is made otherwise.
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
    """Run a shell command in the workspace: it sees the files, not the variables.

    Args:
        command: for bash.
        timeout: seconds; 30 by default.
        env: environment variables of this command.
        args: `$1` and so on.
        stdin: standard input as a whole.
        on_stdout: called with each piece of standard output as it comes.
        on_stderr: likewise for standard error.
        key: an Idempotency-Key of your own; one is made otherwise.
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
    """Call a Lambda handler; what it returns is the value of the result.

    Args:
        code: source that defines `handler(event)` or `handler(event, context)`.
        event: what the handler gets; `__timeout` in it is its time limit.
        handler_context: fields of the handler's context object.
        timeout: seconds, unless the event has `__timeout`; 300 by default.
        env: environment variables of this call.
        context: which context, when there are branches.
        key: an Idempotency-Key of your own; one is made otherwise.
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
    """The watch of an execution whose events are wanted one by one."""
    yield from _look(held)
    return Watch(_streamed(held, body, key))
