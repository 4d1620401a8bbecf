# SPDX-License-Identifier: Apache-2.0
"""The result of an execution, for programs and for notebooks."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from husk import errors
from husk.calls.errors import from_answer
from husk.results import markup
from husk.results.models import Cost, Receipt

VALUE_TEXT_LIMIT = 1 << 20  # bytes; the server truncates longer ones
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")


class Output:
    """One displayed object in all its forms.

    Attributes:
        forms: data by media type: text as str, JSON decoded, anything else as bytes.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.forms: dict[str, Any] = {}
        for form in data.get("forms", []):
            value = form["data"]
            self.forms[form["mime_type"]] = (
                base64.b64decode(value) if form["encoding"] == "base64" else value
            )

    def __repr__(self) -> str:
        return f"Output({', '.join(self.forms)})"

    @property
    def text(self) -> str | None:
        """The plain text form."""
        return self._words("text/plain")

    @property
    def html(self) -> str | None:
        """The HTML form as the code created it; trust it no more than the code."""
        return self._words("text/html")

    @property
    def svg(self) -> str | None:
        """The picture as SVG."""
        return self._words("image/svg+xml")

    @property
    def latex(self) -> str | None:
        """The formula as LaTeX."""
        return self._words("text/latex")

    @property
    def markdown(self) -> str | None:
        """The text as Markdown."""
        return self._words("text/markdown")

    @property
    def json(self) -> Any:
        """The JSON form, decoded."""
        return self.forms.get("application/json")

    @property
    def png(self) -> bytes | None:
        """The picture as PNG."""
        value = self.forms.get("image/png")
        return value if isinstance(value, bytes) else None

    @property
    def is_chart(self) -> bool:
        """Whether it has the form of a picture."""
        return any(kind in self.forms for kind in IMAGES)

    def _words(self, kind: str) -> str | None:
        value = self.forms.get(kind)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def _repr_png_(self) -> bytes | None:
        return self.png

    def _repr_html_(self) -> str:
        """HTML for a notebook; scripts from the sandbox do not run in the page."""
        for kind in IMAGES:
            if kind in self.forms:
                value = self.forms[kind]
                data = value if isinstance(value, bytes) else str(value).encode()
                # Scripts in an image do not run, even in SVG.
                return f'<img src="data:{kind};base64,{base64.b64encode(data).decode()}">'
        if self.html is not None:
            return markup.shown(self.html)
        if self.latex is not None:
            return markup.formula(self.latex)
        for words in (self.text, self.markdown):
            if words is not None:
                return markup.pre(words)
        return markup.pre(json.dumps(self.json, indent=2) if self.json is not None else repr(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return _bundle(self.text or repr(self), self._repr_html_(), self.png)


def _bundle(text: str, page: str, png: bytes | None) -> dict[str, Any]:
    bundle = {"text/plain": text, "text/html": page}
    if png is not None:
        bundle["image/png"] = base64.b64encode(png).decode()
    return bundle


def _lines(*parts: str | None) -> str:
    """Join the parts that are not empty, each on a line of its own."""
    text = ""
    for part in parts:
        if part:
            text += ("\n" if text and not text.endswith("\n") else "") + part
    return text


_ERRORS: dict[str, type[errors.RunError]] = {
    "timeout": errors.RunTimeoutError,
    "memory_exceeded": errors.RunMemoryError,
    "cancelled": errors.RunCancelledError,
    "crashed": errors.RunCrashedError,
    "lost": errors.RunLostError,
}


def _is_cut(words: str | None) -> bool:
    """Tells a truncated value from a whole value beside other truncated data."""
    return len((words or "").encode(errors="surrogatepass")) >= VALUE_TEXT_LIMIT


class Result:
    """The result of an execution, or its state so far.

    Attributes:
        data: the execution as the server returned it; docs/api.md describes its fields.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __repr__(self) -> str:
        return f"Result({self.id}, {self.status}, {self.text[:60]!r})"

    def __str__(self) -> str:
        return self.text

    # ---- what came out ----

    @property
    def text(self) -> str:
        """The output, followed by the value of the last expression or by the error."""
        return _lines(self.stdout, self.value_text, self._failure())

    @property
    def value(self) -> Any:
        """Value of the last expression or of the handler: decoded from JSON if possible, else text.

        The JSON form has at most 1 MiB (16 MiB for a handler) and 200,000 values; a larger value is
        returned as text. If the text exceeds 1 MiB, this is None, `is_truncated` is True, and
        `value_text` has the beginning.
        """
        found = self.data.get("return_value")
        if found is not None:
            return found
        words = self.value_text
        if words in ("None", "null", "undefined") or (self._outputs_dropped and _is_cut(words)):
            return None
        return words

    @property
    def value_text(self) -> str | None:
        """The `repr` of the value, truncated at 1 MiB; None if there is no value."""
        value: str | None = self.data.get("value")
        return value

    @property
    def stdout(self) -> str:
        """Standard output."""
        return str(self.data.get("stdout", ""))

    @property
    def stderr(self) -> str:
        """Standard error."""
        return str(self.data.get("stderr", ""))

    @property
    def is_truncated(self) -> bool:
        """Whether output, results or the value exceeded the limits and were truncated."""
        cut = self.data.get("stdout_truncated") or self.data.get("stderr_truncated")
        return bool(cut) or self._outputs_dropped

    @property
    def _outputs_dropped(self) -> bool:
        return bool(self.data.get("outputs_dropped"))

    @cached_property
    def results(self) -> list[Output]:
        """All displayed objects in order; the last value comes last."""
        return [Output(item) for item in self.data.get("outputs", [])]

    @property
    def charts(self) -> list[Output]:
        """The results that are pictures."""
        return [output for output in self.results if output.is_chart]

    @property
    def png(self) -> bytes | None:
        """The last picture as PNG."""
        return next((o.png for o in reversed(self.results) if o.png is not None), None)

    @property
    def artifacts(self) -> list[str]:
        """Files of the workspace that the run created or changed."""
        return list(self.data.get("artifacts", []))

    # ---- how it ended ----

    @property
    def id(self) -> str:
        """Id of the execution."""
        return str(self.data.get("execution_id", ""))

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return str(self.data.get("session_id", ""))

    @property
    def status(self) -> str:
        """`completed`, `failed`, `timeout`, `memory_exceeded`, `cancelled`, `crashed`, `lost`;
        before the end `pending` or `running`."""
        return str(self.data.get("status", ""))

    @property
    def ok(self) -> bool:
        """Whether the run ended with exit code 0."""
        return self.status == "completed"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status not in ("pending", "running")

    @property
    def exit_code(self) -> int | None:
        """The exit code as a shell reports it; None while the code runs."""
        code: int | None = self.data.get("exit_code")
        return code

    @property
    def error(self) -> dict[str, Any] | None:
        """Type, message and traceback of the exception that ended the run."""
        error: dict[str, Any] | None = self.data.get("error")
        return error

    @property
    def termination(self) -> dict[str, Any] | None:
        """Cause, detail, and the limit that ended the run."""
        termination: dict[str, Any] | None = self.data.get("termination")
        return termination

    @property
    def context_restarted(self) -> bool:
        """Whether another interpreter took the place of the context's, so that variables are gone."""
        return bool(self.data.get("context_restarted"))

    @property
    def restart_reason(self) -> str | None:
        """Why the interpreter was replaced: `timeout`, `memory_exceeded`, `crashed`, `cancelled`,
        `output_limit` or `exited` by this run, `parked` or `box_lost` before it; None if it was not.
        """
        reason: str | None = self.data.get("restart_reason")
        return reason

    @cached_property
    def fault(self) -> errors.HuskError | None:
        """The exception if the server failed to run it, or lost it; None if the run has a result."""
        fault = self.data.get("fault")
        if fault is None:
            return None
        waited = (self.data.get("metrics") or {}).get("queue_ms") or 0.0
        told = {**fault, "execution_id": self.id, "queue_ms": waited}
        error = from_answer(int(fault["status"]), told)
        if isinstance(error, errors.RunError):
            error.result = self
        return error

    @cached_property
    def cost(self) -> Cost:
        """Time, CPU time and memory that the run used."""
        return Cost.parse(self.data.get("metrics") or {})

    @cached_property
    def receipt(self) -> Receipt | None:
        """Isolation and limits of the run; None if it never had a sandbox."""
        receipt = self.data.get("receipt")
        return Receipt.parse(receipt) if receipt else None

    def check(self) -> Result:
        """Return this result if the run succeeded, else raise the matching RunError.

        If the server failed and not the run, raise `fault`.
        """
        if self.ok:
            return self
        if self.fault is not None:
            raise self.fault
        kind = _ERRORS.get(self.status, errors.RunFailedError)
        error = kind(self._why(), detail=str((self.error or {}).get("traceback") or ""))
        error.code = f"Run.{self.status}"
        error.result = self
        raise error

    def _why(self) -> str:
        if self.error is not None and self.status == "failed":
            return f"{self.error['type']}: {self.error['message']}"
        ended = self.termination or {}
        said = ended.get("limit") or ended.get("detail") or ""
        return f"The run ended as {self.status}" + (f" ({said})" if said else "")

    def _failure(self) -> str:
        """What a failed run says about its failure: stderr, the traceback, or the limit."""
        if self.ok or not self.is_over:
            return ""
        trace = str((self.error or {}).get("traceback") or "")
        trace = "" if trace.strip() in self.stderr else trace
        why = "" if self.error is not None and self.status == "failed" else self._why()
        return _lines(self.stderr, trace, why).rstrip("\n")

    # ---- notebooks ----

    def _repr_html_(self) -> str:
        parts = [markup.pre(self.stdout)] if self.stdout else []
        parts += [output._repr_html_() for output in self.results]
        if said := self._failure() or self.stderr:
            parts.append(markup.pre(said, markup.ERROR_COLOR))
        if self.context_restarted:
            parts.append(markup.pre(self._restart_note(), markup.ERROR_COLOR))
        cost = html.escape(f"{self.status} in {self.cost}")
        parts.append(f'<small style="color:gray">{cost}</small>')
        return "\n".join(parts)

    def _plain(self) -> str:
        lines = [self.text, self._restart_note() if self.context_restarted else ""]
        return "\n".join(line for line in lines if line)

    def _restart_note(self) -> str:
        return f"The interpreter was restarted ({self.restart_reason}): variables are gone, files stay."

    def _repr_png_(self) -> bytes | None:
        return self.png

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return _bundle(self._plain(), self._repr_html_(), self.png)
