# SPDX-License-Identifier: Apache-2.0
"""Lets the examples run from a checkout: finds husk and its dependencies in the build folder.

Your own programs do not need this if husk is installed.
"""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("HUSK_BIN") or ROOT / "build" / "bin").parent

# husk itself, and a copy of httpx and cloudpickle if they are not installed
FOLDERS = {
    "husk": ROOT / "sdk" / "python",
    "httpx": BUILD / "lib" / "husk" / "python-deps",
}

for package, folder in FOLDERS.items():
    if importlib.util.find_spec(package) is None:
        sys.path.append(str(folder))
        # for child processes of the examples
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [os.environ.get("PYTHONPATH"), str(folder)])
        )

if importlib.util.find_spec("httpx") is None:
    sys.exit("httpx is not installed. `tools/python-env build --run` or `make up` fetches it.")
