# SPDX-License-Identifier: Apache-2.0
"""`rayai up` with HUSK_ENGINE=ray: the project is served by Ray Serve, with the same routes."""

from __future__ import annotations

import json
import sys

from served_project import Project

PYTHON = ["up", "--python", sys.executable]
CALLABLE = """
import ray
from rayai import serve

def answer(query: str) -> str:
    return query + (' on Ray' if ray.is_initialized() else '')

serve(answer, name='{name}', memory='256MB')
"""


def test_a_project_on_ray_serve() -> None:
    with Project.made("rayai") as project:
        for name in ("a", "b"):
            project.write(f"agents/{name}/agent.py", CALLABLE.format(name=name))
        project.write("agents/broken/agent.py", "1 / 0\n")
        with project.up("--agents", "a,broken", HUSK_ENGINE="ray") as served:
            assert served.ask("a", "hello")["response"] == "hello on Ray"
            assert list(served.agents()) == ["a"]
            status, text = served.request("GET", "/agents/a/health")
            assert (status, json.loads(text)["status"]) == (200, "healthy")
            assert "ZeroDivisionError" in served.output
            assert not (project.folder / ".husk").exists(), "there is no huskd"
            assert served.end() == 0


def test_what_ray_serve_does_not_have_is_refused() -> None:
    with Project.made("rayai") as project:
        project.write("agents/a/agent.py", CALLABLE.format(name="a"))
        project.env = {"HUSK_ENGINE": "ray"}
        assert "--detach" in project.run("up", "--detach", code=1)
        assert "--data is a setting of huskd" in project.run("up", "--data", "x", code=1)
        assert "not loopback" in project.run(*PYTHON, "--host", "0.0.0.0", code=1)
