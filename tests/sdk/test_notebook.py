# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows: text, pictures, tables; nothing from the sandbox can run a script in the
page.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator

import pytest
from conftest import SdkServer

from husk import Output, Sandbox
from husk.results import markup

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def box(server: SdkServer) -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def shows(method: str, value: str) -> str:
    return f"class It:\n    def {method}(self): return {value}\nIt()"


def test_a_plain_value(box: Sandbox) -> None:
    result = box.run("print('<b>'); 1 + 1")
    bundle = result._repr_mimebundle_()
    assert bundle["text/plain"] == "<b>\n2"
    assert "&lt;b&gt;" in bundle["text/html"] and "<b>" not in bundle["text/html"]
    assert "image/png" not in bundle and result._repr_png_() is None
    assert "completed in" in result._repr_html_()


def test_a_picture(box: Sandbox) -> None:
    result = box.run(
        f"import base64\n{shows('_repr_png_', f'base64.b64decode({base64.b64encode(DOT)!r})')}"
    )
    assert result.png == DOT and result._repr_png_() == DOT
    assert len(result.charts) == 1 and result.charts[0].png == DOT
    bundle = result._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == DOT
    assert "data:image/png;base64," in bundle["text/html"]
    assert zlib.crc32(DOT) == zlib.crc32(result.results[-1]._repr_png_() or b"")


def test_several_outputs_in_order(box: Sandbox) -> None:
    result = box.run("display(1)\ndisplay('two')\n3")
    assert [o.text for o in result.results] == ["1", "'two'", "3"]
    assert result.charts == []


def test_html_cannot_run_scripts(box: Sandbox) -> None:
    result = box.run(
        shows("_repr_html_", "'<script>alert(1)</script><table><tr><td>\"x\"</td></tr></table>'")
    )
    assert result.results[-1].html is not None and "<script>" in result.results[-1].html
    page = result._repr_html_()
    assert "<script" not in page
    assert (
        '<iframe sandbox srcdoc="' in page and "&lt;script&gt;" in page and "&quot;x&quot;" in page
    )
    assert "default-src &#x27;none&#x27;" in page, "the frame loads nothing"


def test_a_table_has_the_look_of_the_notebook(box: Sandbox) -> None:
    """As pandas writes one: in the page itself, as high as its rows."""
    table = (
        "<div><style scoped>.dataframe th { vertical-align: top; }</style>"
        '<table border="1" class="dataframe mine"><thead><tr style="text-align: right;"><th></th>'
        "<th>price</th></tr></thead><tbody><tr><th>0</th><td>$1 &amp; $2</td></tr></tbody></table></div>"
    )
    page = box.run(shows("_repr_html_", repr(table)))._repr_html_()
    assert "<iframe" not in page and "<style" not in page
    assert '<table class="dataframe"><thead><tr style="text-align:right"><th></th>' in page
    assert "<td>$1 &amp; $2</td>" in page and "mathjax_ignore" in page, "prices are no formulas"


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mtext></table></math>",
    "<style>@import url(//evil)</style><p>x</p>",
    "<iframe src=//evil></iframe>",
    "<form action=//evil><button>go</button></form>",
    "<img src='https://evil/track.gif'>",
    "<?php echo 1 ?>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
]
HARMLESS = {
    "<p onclick=alert(1)>x</p>": "<p>x</p>",
    "<a href='javascript:alert(1)'>x</a>": "<a>x</a>",
    "<a href=' javascript:alert(1)'>x</a>": "<a>x</a>",
    "<a href='https://h/?a=1&b=2'>x</a>": (
        '<a href="https://h/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">x</a>'
    ),
    "<p style='position:fixed;color:red;background-color:url(//evil)'>x</p>": (
        '<p style="color:red">x</p>'
    ),
    "<div id=site class='btn jp-mod'>x</div>": "<div>x</div>",
    "</div></div><p>x": "<p>x</p>",
    "<p title='\"><script>'>x</p>": '<p title="&quot;&gt;&lt;script&gt;">x</p>',
    "&lt;script&gt;alert(1)&lt;/script&gt;": "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<!-- <p>--><b>x</b>": "<b>x</b>",
    "<b><i>x</b></i>": "<b><i>x</i></b>",
    "<html><head></head><body><b>x</b></body></html>": "<b>x</b>",
    '<img src="data:image/png;base64,AA==" onload=x>': '<img src="data:image/png;base64,AA==">',
}


@pytest.mark.parametrize("page", HOSTILE)
def test_markup_that_needs_more_stays_in_a_frame(page: str) -> None:
    shown = markup.shown(page)
    assert shown.startswith('<iframe sandbox srcdoc="') and shown.count("<") == 2
    assert shown.endswith("></iframe>")


@pytest.mark.parametrize(("page", "expected"), HARMLESS.items())
def test_plain_markup_is_written_again(page: str, expected: str) -> None:
    shown = markup.shown(page)
    assert shown.startswith("<div ") and shown.endswith("</div>")
    assert shown[shown.index(">") + 1 : -len("</div>")] == expected


def test_a_frame_is_about_as_high_as_its_content() -> None:
    def height(rows: int) -> float:
        page = "<style>td {color: red}</style>" + "<tr><td>1</td></tr>" * rows
        found = re.search(r"height:([\d.]+)em", markup.shown(page))
        assert found is not None
        return float(found.group(1))

    assert height(1) < 12 < height(10) < height(20) < 40
    assert height(1000) <= 60, "more is scrolled"


def test_a_formula_is_left_to_the_notebook(box: Sandbox) -> None:
    """In the page, not as preformatted text, which is never typeset."""
    result = box.run(
        "class It:\n    def _repr_latex_(self): return r'$\\displaystyle \\frac{x}{2} < 1$'\nIt()"
    )
    page = result._repr_html_()
    assert r"<div>$\displaystyle \frac{x}{2} &lt; 1$</div>" in page
    assert r"<div>$$x^2$$</div>" == markup.formula("x^2")


def test_svg_is_an_image(box: Sandbox) -> None:
    result = box.run(shows("_repr_svg_", "'<svg onload=\"alert(1)\"></svg>'"))
    assert result.charts and result.charts[0].svg is not None
    page = result._repr_html_()
    assert "<svg" not in page and "data:image/svg+xml;base64," in page


def test_an_exception_is_shown(box: Sandbox) -> None:
    result = box.run("print('before'); 1/0")
    page = result._repr_html_()
    assert "before" in page and "ZeroDivisionError" in page and "failed in" in page
    assert page.count("ZeroDivisionError: division by zero") == 1
    assert all("monospace" in part for part in page.split("<pre")[1:])
    plain = result._repr_mimebundle_()["text/plain"]
    assert plain == result.text == str(result)
    assert plain.startswith("before\nTraceback") and plain.count("ZeroDivisionError") == 1


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import sys; print('a', end=''); sys.exit('sorry')", ["a\n", "sorry"]),
        ("def f(:", ["SyntaxError"]),
        ("raise SystemExit(3)", ["3"]),
        ("import os; os._exit(7)", ["7"]),
        ("import os; os.kill(os.getpid(), 11)", ["SIGSEGV"]),
    ],
)
def test_text_says_why_a_run_failed(server: SdkServer, code: str, parts: list[str]) -> None:
    with Sandbox() as s:
        result = s.run(code)
    assert not result.ok
    for part in parts:
        assert part in result.text, result.data
    assert str(result) == result.text


def test_text_of_a_command_and_of_a_timeout(server: SdkServer) -> None:
    with Sandbox() as s:
        failed = s.shell("echo out; echo wrong >&2; exit 4")
        assert failed.text.startswith("out\nwrong\n") and "4" in failed.text
        assert s.shell("echo wrong >&2").text == "", "only a failure shows stderr"
        late = s.run("print('so far', flush=True)\nwhile True: pass", timeout=1)
        assert late.text.startswith("so far\n") and "timeout" in late.text


def test_a_lost_interpreter_is_shown(box: Sandbox) -> None:
    result = box.run("import os; os._exit(3)")
    assert result.context_restarted and result.restart_reason == "exited"
    bundle = result._repr_mimebundle_()
    for form in ("text/plain", "text/html"):
        assert "restarted (exited): variables are gone" in bundle[form]
    after = box.run("1")
    assert not after.context_restarted and after.restart_reason is None
    assert after._repr_mimebundle_()["text/plain"] == "1"


def test_other_forms() -> None:
    output = Output(
        {
            "forms": [
                {"mime_type": "application/json", "encoding": "json", "data": {"a": 1}},
                {"mime_type": "text/latex", "encoding": "text", "data": "$x$"},
                {"mime_type": "text/markdown", "encoding": "text", "data": "# x"},
            ]
        }
    )
    assert output.json == {"a": 1} and output.latex == "$x$" and output.markdown == "# x"
    assert output.text is None and not output.is_chart
    assert "<div>$x$</div>" in output._repr_html_(), "a formula can be typeset, Markdown cannot"
    assert output._repr_mimebundle_()["text/plain"] == repr(output)
    del output.forms["text/latex"]
    assert "# x" in output._repr_html_()
    del output.forms["text/markdown"]
    assert "&quot;a&quot;: 1" in output._repr_html_()
