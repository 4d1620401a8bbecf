# SPDX-License-Identifier: Apache-2.0
"""Templates that have the scientific packages imported, on every CPython from 3.9 to 3.13 of this machine."""
from __future__ import annotations

import subprocess

import pytest
from husk_server import Server
from places import BUILD, ROOT
from v1_client import Api, v1, v1_server  # noqa: F401

TOOL = ROOT / "tools" / "science-env"
MODULES = ["numpy", "pandas", "sklearn", "matplotlib", "polars"]
# Each module works with memory that the box copies from its zygote.
CODE = f"""
import sys
before = [name for name in {MODULES} if name in sys.modules]
import matplotlib, numpy, pandas, polars, sklearn.linear_model
line = sklearn.linear_model.LinearRegression().fit([[0], [1], [2]], [1, 3, 5])
table = pandas.DataFrame({{"a": [1, 2, 2], "b": [1.0, 2.0, 4.0]}}).groupby("a").b.mean()
matplotlib.use("svg")
import matplotlib.pyplot
matplotlib.pyplot.plot([1, 2])
matplotlib.pyplot.savefig("line.svg")
[sys.version_info[1], before, int(numpy.arange(10).sum()), round(float(line.coef_[0]), 6),
 table.tolist(), polars.DataFrame({{"x": [1, 2]}})["x"].sum()]
"""


def versions() -> list[str]:
    return subprocess.run(
        [TOOL, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize("version", versions())
def test_a_template_has_the_scientific_packages_imported(
    v1: Api, v1_server: Server, version: str
) -> None:
    made = subprocess.run([TOOL, BUILD, version], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    venv = BUILD / "science" / version
    python = (venv / "bin" / "python3").resolve()
    minor = int(version.split(".")[1])
    (v1_server.templates / f"py-{minor}.template").write_text(
        f"runtime = {venv}/bin/python3\nmount = {venv}\nmount = {python.parent.parent}\n"
        f"preload = {' '.join(MODULES)}\npreload_timeout = 10m\n"
    )
    session = v1.session(template_id=f"py-{minor}", mode="persistent")
    # Newer releases of polars start a thread when they are imported.
    left_out = v1.get(f"/templates/py-{minor}")["not_preloaded"]
    assert left_out in ([], ["polars: its import starts threads"])
    warm = MODULES[: len(MODULES) - len(left_out)]
    assert v1.run(session, CODE)["return_value"] == [minor, warm, 45, 2.0, [1.0, 3.0], 3]
    fresh = v1.session(template_id=f"py-{minor}", mode="ephemeral")
    assert v1.run(fresh, CODE)["return_value"][:2] == [minor, warm]
