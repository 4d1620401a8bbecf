# SPDX-License-Identifier: Apache-2.0
"""What PyRunner's policy refuses and allows, and what auto_print shows, over HTTP."""
from __future__ import annotations

import pytest

from husk_server import Server, server  # noqa: F401
from run_client import refusal, run, success

# ---- policy ----


@pytest.mark.parametrize(
    "code,why",
    [
        ("import os", "Import of 'os' is not allowed"),
        ("import subprocess", "Import of 'subprocess' is not allowed"),
        ("import sys", "Import of 'sys' is not allowed"),
        ("import socket", "Import of 'socket' is not allowed"),
        ("import urllib.request", "Import of 'urllib' is not allowed"),
        ("import pickle", "Import of 'pickle' is not allowed"),
        ("import importlib", "Import of 'importlib' is not allowed"),
        ("from os import path", "Import from 'os' is not allowed"),
        ("import requests", "Import of 'requests' is not in the allowed list"),
        ("import time", "Import of 'time' is not in the allowed list"),
        ("import threading", "Import of 'threading' is not in the allowed list"),
        ("import multiprocessing", "Import of 'multiprocessing' is not in the allowed list"),
        ("import os as harmless", "Import of 'os' is not allowed"),
        ("def f():\n    import os", "Import of 'os' is not allowed"),
        ("class A:\n    import os", "Import of 'os' is not allowed"),
        ("if True:\n    if True:\n        import os", "Import of 'os' is not allowed"),
        ("import math, os", "Import of 'os' is not allowed"),
        ("__import__('os')", "Call to '__import__' is not allowed"),
        ("eval('1')", "Call to 'eval' is not allowed"),
        ("exec('1')", "Call to 'exec' is not allowed"),
        ("compile('1', '', 'eval')", "Call to 'compile' is not allowed"),
        ("open('/etc/passwd')", "Call to 'open' is not allowed"),
        ("input()", "Call to 'input' is not allowed"),
        ("getattr(1, 'real')", "Call to 'getattr' is not allowed"),
        ("setattr(f, 'x', 1)", "Call to 'setattr' is not allowed"),
        ("delattr(f, 'x')", "Call to 'delattr' is not allowed"),
        ("().__class__", "Access to '__class__' attribute is not allowed"),
        ("f.__globals__", "Access to '__globals__' attribute is not allowed"),
        ("f.__code__", "Access to '__code__' attribute is not allowed"),
        ("int.__bases__", "Access to '__bases__' attribute is not allowed"),
        ("int.__subclasses__()", "Access to '__subclasses__' attribute is not allowed"),
    ],
)
def test_policy(server: Server, code: str, why: str) -> None:
    assert refusal(server, "print('ran')\n" + code) == why


@pytest.mark.parametrize(
    "code",
    [
        "f = eval\nf('1')",
        "import _io",
        "from . import x",
        "from .os import x",
        "().__getattribute__('x')",
        "vars()",
        "globals()",
        "import io",
        "from io import open",
        "from io import *",
    ],
)
def test_holes_of_the_original_are_closed(server: Server, code: str) -> None:
    assert refusal(server, code)


def test_syntax_errors_are_refusals(server: Server) -> None:
    assert refusal(server, "def f(:").startswith("Syntax error: ")


MODULES = (
    "math cmath decimal fractions random statistics itertools functools operator collections heapq bisect array "
    "datetime calendar copy pprint re string textwrap unicodedata json csv"
).split()


def test_allowed_modules_work(server: Server) -> None:
    code = "".join(f"import {name}\n" for name in MODULES) + "print('all')"
    assert success(server, code) == "all\n"
    assert success(server, "from io import StringIO\nprint(StringIO('x').read())") == "x\n"


@pytest.mark.parametrize(
    "code,want",
    [
        ("import numpy as np\nprint(np.arange(4).sum())", "6\n"),
        ("import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).a.mean())", "1.5\n"),
        ("from sympy import symbols, diff\nx = symbols('x')\nprint(diff(x**2, x))", "2*x\n"),
        (
            "from scipy import integrate\nprint(round(integrate.quad(lambda x: x, 0, 2)[0], 6))",
            "2.0\n",
        ),
        ("import matplotlib\nprint(matplotlib.get_backend().lower())", "agg\n"),
        (
            "from sklearn.linear_model import LinearRegression\n"
            "m = LinearRegression().fit([[0], [1], [2]], [0, 2, 4])\nprint(round(m.coef_[0], 6))",
            "2.0\n",
        ),
    ],
)
def test_scientific_stack(server: Server, code: str, want: str) -> None:
    module = code.split()[1].split(".")[0]
    result = run(server, code, timeout=60, memory_limit=1024)
    if "ModuleNotFoundError" in result["stderr"]:
        pytest.skip(f"{module} is not installed on this host")
    assert result["status"] == "success", result
    assert result["stdout"] == want


def test_policy_can_be_switched_off() -> None:
    with Server.run("--ast-policy", "false") as server:
        assert success(server, "import os\nprint(os.getpid() > 0)") == "True\n"
        result = run(server, "def f(:")
        assert result["status"] == "error" and "SyntaxError" in result["stderr"]
        # The box is the wall: what the policy names can be tried, and does not work.
        walled = run(server, "import socket\nsocket.create_connection(('1.1.1.1', 80), 2)")
        assert walled["status"] == "error" and "OSError" in walled["stderr"]
        code = f"import os\nos.kill({server.pid_of_huskd()}, 9)"
        assert "ProcessLookupError" in run(server, code)["stderr"]
        assert "shadow" not in success(server, "import os\nprint(os.path.exists('/etc/shadow'))")


# ---- auto_print ----


@pytest.mark.parametrize(
    "code,want",
    [
        ("1 + 1", "2\n"),
        ("x = 5\nx", "5\n"),
        ("'text'", "text\n"),
        ("[1, 2]", "[1, 2]\n"),
        ("{'a': 1}", "{'a': 1}\n"),
        ("None", ""),
        ("print('once')", "once\n"),
        ("x = 1", ""),
        ("def f(): return 7\nf()", "7\n"),
        ("def f(): pass\nf()", ""),
        ("for i in range(2): i", ""),
        ("if True:\n    5", ""),
        ("1\n2\n3", "3\n"),
        ("print('a')\n'b'", "a\nb\n"),
        ("# only a comment", ""),
        ("0", "0\n"),
        ("False", "False\n"),
        ("''", "\n"),
        ("5;", "5\n"),
        ("(lambda: 9)()", "9\n"),
        ("[i for i in range(3)]", "[0, 1, 2]\n"),
        ("x = [3, 1]\nx.sort()", ""),
        ("x = 4  # four\nx # shown", "4\n"),
        ("import math\nmath.sqrt(16)", "4.0\n"),
    ],
)
def test_auto_print(server: Server, code: str, want: str) -> None:
    assert success(server, code) == want
    without = success(server, code, auto_print=False)
    assert without == ("".join(x + "\n" for x in ("once", "a") if f"print('{x}')" in code))
