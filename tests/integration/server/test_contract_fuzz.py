# SPDX-License-Identifier: Apache-2.0
"""A contract fuzzer against the server: what /openapi.json allows is accepted, what it forbids is
refused, every answer is one that it describes, and none is a 500.

`make test` gives it a minute with a fixed seed, `make soak` half an hour with a new one.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from husk_server import Server
from places import BIN, ROOT
from v1_client import Api

SECONDS = int(os.environ.get("HUSK_SOAK_SECONDS", "60"))
SEED = "1" if "HUSK_SOAK_SECONDS" not in os.environ else str(int(time.time()))
FUZZER = BIN.parent / "venv-fuzz" / "bin" / "schemathesis"


def test_the_server_keeps_its_contract(tmp_path: Path) -> None:
    assert FUZZER.exists(), f"tools/python-env {BIN.parent} --fuzz installs it"
    report = tmp_path / "report.json"
    with Server.run("--max-sessions", "2000") as server:
        Api(server.port).session(id="my-session")  # what the examples of the contract call it
        command = [str(FUZZER), "--no-color"]
        command += ["--config-file", str(ROOT / "tests" / "fuzz" / "contract.toml")]
        command += ["run", f"http://127.0.0.1:{server.port}/openapi.json", "--workers", "2"]
        command += ["--seed", SEED, "--max-time", str(SECONDS), "--report-json-path", str(report)]
        command += ["--phases", "examples,coverage,fuzzing"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS + 240,
            check=False,
        )
        found = json.loads(report.read_text())
        print(f"seed {SEED}: {found['test_cases']['generated']} requests")
        assert found["failures"] == [], done.stdout[-20000:]
        assert found["test_cases"]["generated"] > 100
        assert server.get("/health").status == 200 and "daemon_ended" not in server.output
