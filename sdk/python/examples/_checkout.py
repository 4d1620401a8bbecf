# SPDX-License-Identifier: Apache-2.0
"""Lets the examples run from a checkout: finds husk and what it needs where the build has put it.

Programs of your own need none of this: they run where husk is installed.
"""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("HUSK_BIN") or ROOT / "build" / "bin").parent

# husk itself, and a copy of httpx and cloudpickle for whoever has none
FOLDERS = {
    "husk": ROOT / "sdk" / "python",
    "httpx": BUILD / "lib" / "husk" / "python-deps",
}

for package, folder in FOLDERS.items():
    if importlib.util.find_spec(package) is None:
        sys.path.append(str(folder))
        # for the processes that examples start
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [os.environ.get("PYTHONPATH"), str(folder)])
        )

if importlib.util.find_spec("httpx") is None:
    sys.exit(
        "There is no httpx here. `tools/python-env build --run` fetches it, and `make up` does so, too."
    )
