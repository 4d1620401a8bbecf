# SPDX-License-Identifier: Apache-2.0
"""HTML for notebooks. Everything from a sandbox is hostile: nothing of it may run in the page.

Plain markup, such as the table of a data frame, is parsed and written again from a short list of
elements and attributes, so that it has the look of the notebook and grows with its content.
Everything else is shown in a frame that runs no scripts and loads nothing.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

# The notebook's own fonts, where it has them: it shows preformatted text of a page proportionally.
MONOSPACE = (
    "font-family:var(--jp-code-font-family,monospace);"
    "font-size:var(--jp-code-font-size,13px);line-height:var(--jp-code-line-height,1.3);"
)
ERROR_COLOR = "color:var(--jp-error-color1,#b00020);"
# Dollars in the text of a sandbox are not formulas.
NO_MATH = "tex2jax_ignore mathjax_ignore"

_ELEMENTS = set(
    "a b blockquote br caption code col colgroup dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins"
    " kbd li mark ol p pre s samp small span strong sub sup table tbody td tfoot th thead tr u ul"
    " var".split()
)
_EMPTY = {"br", "col", "hr", "img"}
_DOCUMENT = {"html", "head", "body"}  # around a whole page; not needed within another
_ATTRIBUTES = {"align", "colspan", "rowspan", "span", "start", "title", "valign", "alt"}
_PROPERTIES = set(
    "background-color border border-collapse color font-style font-weight max-width min-width"
    " padding text-align text-decoration vertical-align white-space width".split()
)
_VALUE = re.compile(r"[\w#%.,\s-]*(?:rgba?\([\d.,%\s]*\))?", re.ASCII)
_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_LINES = re.compile(r"<(?:tr|p|div|li|br|h[1-6]|pre)\b|\n", re.IGNORECASE)

_FRAME_HEAD = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'\">"
    "<style>body{margin:0;font:13px/1.4 system-ui,sans-serif;color:#212121;background:#fff}"
    "table{border-collapse:collapse}td,th{padding:3px 8px;text-align:right}"
    "pre,code{font-family:monospace}</style>"
)


class _NeedsFrame(Exception):
    """The markup has something that cannot stand in the page itself."""


class _Copier(HTMLParser):
    """Writes allowed markup again; raises _NeedsFrame for anything else."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.open: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "style" and any(name == "scoped" for name, _ in attrs):
            self.in_style = True  # of a data frame: the notebook has its own style for tables
        elif tag not in _DOCUMENT:
            if tag not in _ELEMENTS:
                raise _NeedsFrame(tag)
            self.out.append(f"<{tag}{''.join(_attributes(tag, attrs))}>")
            if tag not in _EMPTY:
                self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self.in_style = False
        elif tag in self.open:
            # Close what is still open within it: the markup around ours must stay whole.
            while True:
                last = self.open.pop()
                self.out.append(f"</{last}>")
                if last == tag:
                    break

    def handle_data(self, data: str) -> None:
        if not self.in_style:
            self.out.append(html.escape(data))

    def handle_pi(self, data: str) -> None:
        raise _NeedsFrame("?")

    def unknown_decl(self, data: str) -> None:
        raise _NeedsFrame("!")


def _attributes(tag: str, attrs: list[tuple[str, str | None]]) -> list[str]:
    kept: dict[str, str] = {}
    for name, given in attrs:
        value = given or ""
        if name == "style":
            value = _style(value)
        elif name == "src" and not (tag == "img" and _PICTURE.fullmatch(value)):
            raise _NeedsFrame("src")
        elif name == "href" and not (tag == "a" and _LINK.match(value)):
            continue
        elif name == "class":
            value = "dataframe" if "dataframe" in value.split() else ""
        elif name not in _ATTRIBUTES and name not in ("src", "href"):
            continue
        if value:
            kept.setdefault(name, value)
    if "href" in kept:
        kept |= {"target": "_blank", "rel": "noopener noreferrer"}
    return [f' {name}="{html.escape(value, quote=True)}"' for name, value in kept.items()]


def _style(text: str) -> str:
    pairs = (part.partition(":") for part in text.split(";"))
    named = ((name.strip().lower(), value.strip()) for name, _, value in pairs)
    return ";".join(f"{n}:{v}" for n, v in named if n in _PROPERTIES and _VALUE.fullmatch(v))


def shown(page: str) -> str:
    """Return HTML of a sandbox as HTML that is safe in a notebook."""
    copier = _Copier()
    try:
        copier.feed(page)
        copier.close()
    except _NeedsFrame:
        return _frame(page)
    closing = "".join(f"</{tag}>" for tag in reversed(copier.open))
    return f'<div class="{NO_MATH}" style="overflow-x:auto">{"".join(copier.out)}{closing}</div>'


def _frame(page: str) -> str:
    # Nothing outside can measure the frame, and nothing within may run: its lines are counted.
    lines = min(max(len(_LINES.findall(page)) + 2, 6), 30)
    inside = html.escape(_FRAME_HEAD + page, quote=True)
    return (
        f'<iframe sandbox srcdoc="{inside}" '
        f'style="width:100%;height:{lines * 1.6:.1f}em;border:0;resize:vertical"></iframe>'
    )


def pre(text: str, style: str = "") -> str:
    """Return text as it is, in the font of code."""
    return (
        f'<pre class="{NO_MATH}" style="white-space:pre-wrap;margin:0;{MONOSPACE}{style}">'
        f"{html.escape(text)}</pre>"
    )


def formula(latex: str) -> str:
    """Return a formula for the notebook to typeset; it treats those of a page as untrusted."""
    bare = latex.strip()
    has_delimiters = bare.startswith(("$", r"\(", r"\[", r"\begin"))
    return f"<div>{html.escape(bare if has_delimiters else f'$${bare}$$')}</div>"
