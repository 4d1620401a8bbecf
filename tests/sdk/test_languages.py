# SPDX-License-Identifier: Apache-2.0
"""Sandboxes in JavaScript and shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SdkServer

from husk import Sandbox, errors

needs_node = pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="node is not installed")


def test_a_sandbox_of_shell(server: SdkServer) -> None:
    with Sandbox(language="shell") as s:
        s.run("x=1; cd /tmp")
        assert s.run("echo $x $PWD").stdout == "1 /tmp\n"
        other = s.branch().context_id
        s.run("x=2", context=other)
        assert s.run("echo $x").stdout == "1\n"
        assert s.contexts().items[0].language == "shell"


@needs_node
def test_languages_beside_python(server: SdkServer) -> None:
    with Sandbox() as s:
        s.run("x = 'python'")
        s.run("x=shell", language="shell")
        s.run("let x = 'js';", language="javascript")
        assert s.run("x").value == "python"
        assert s.run("echo $x", language="shell").stdout == "shell\n"
        assert s.run("await Promise.resolve(x)", language="javascript").value == "js"
        stream = s.stream("console.log(x)", language="javascript")
        assert len(list(stream)) > 0 and stream.result.stdout == "js\n"


@needs_node
def test_javascript_cannot_be_copied(server: SdkServer) -> None:
    with Sandbox(language="javascript") as s:
        with pytest.raises(errors.UnsupportedError, match="Node.js"):
            s.branch()
