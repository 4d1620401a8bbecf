# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows: text, pictures, tables; nothing from the sandbox can run a script in the
page.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator

import pytest
from conftest import SdkServer

from husk import Output, Sandbox

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
    assert '<iframe sandbox srcdoc="&lt;script&gt;' in page and "&quot;x&quot;" in page


def test_svg_is_an_image(box: Sandbox) -> None:
    result = box.run(shows("_repr_svg_", "'<svg onload=\"alert(1)\"></svg>'"))
    assert result.charts and result.charts[0].svg is not None
    page = result._repr_html_()
    assert "<svg" not in page and "data:image/svg+xml;base64," in page


def test_an_exception_is_shown(box: Sandbox) -> None:
    page = box.run("print('before'); 1/0")._repr_html_()
    assert "before" in page and "ZeroDivisionError" in page and "failed in" in page


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
    assert "# x" in output._repr_html_()
    assert output._repr_mimebundle_()["text/plain"] == repr(output)
