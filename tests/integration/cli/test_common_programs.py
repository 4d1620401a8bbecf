# SPDX-License-Identifier: Apache-2.0
"""Programs that ask /proc about the machine work in a box, although much of it is masked there."""

from __future__ import annotations

import os

import pytest
from programs import Program

CPUS = os.cpu_count()

SHELL = [
    ("free", "free -m", "Mem:"),
    ("uptime", "uptime", "load average"),
    ("top", "top -bn1", "husk-in"),
    ("ps", "ps aux", "husk-init"),
    ("vmstat", "vmstat 1 1", "swpd"),
    ("pgrep", "pgrep -l husk", "husk-init"),
    ("df", "df /tmp", "tmpfs"),
    ("mount", "mount", "on /workspace type tmpfs"),
    ("nproc", "nproc --all", str(CPUS)),
    ("getconf", "getconf _NPROCESSORS_ONLN", str(CPUS)),
    ("uname", "uname -n", "husk"),
    ("gcc", "echo 'int main() { return 0; }' > a.c && gcc a.c -o a && ./a && echo built", "built"),
]

PYTHON = [
    ("cpu_count", "import os; print(os.cpu_count())", str(CPUS)),
    ("loadavg", "import os; print(len(os.getloadavg()))", "3"),
    ("sysconf", "import os; print(os.sysconf('SC_PHYS_PAGES') > 0)", "True"),
    ("threads", "import multiprocessing as m; print(m.cpu_count() > 0)", "True"),
    ("getpwuid", "import getpass; print(getpass.getuser())", "user"),
    ("psutil cpu", "import psutil; print(psutil.cpu_count())", str(CPUS)),
    ("psutil times", "import psutil; print(psutil.cpu_times().user >= 0)", "True"),
    ("psutil memory", "import psutil; print(psutil.virtual_memory().total > 0)", "True"),
    ("psutil swap", "import psutil; print(psutil.swap_memory().sin >= 0)", "True"),
    ("psutil boot", "import psutil; print(psutil.boot_time() > 0)", "True"),
    ("psutil self", "import psutil; print(psutil.Process().memory_info().rss > 0)", "True"),
    ("psutil all", "import psutil; print([p.pid for p in psutil.process_iter()])", "[1]"),
    ("psutil disk", "import psutil; print(psutil.disk_usage('/tmp').total > 0)", "True"),
    ("psutil i/o", "import psutil; print(psutil.disk_io_counters())", "None"),
    ("psutil net", "import psutil; print(list(psutil.net_io_counters(pernic=True)))", "['lo']"),
]

NODE = [
    ("cpus", "console.log(require('os').cpus().length)", str(CPUS)),
    (
        "memory",
        "const o = require('os'); console.log(o.totalmem() > 0, o.freemem() > 0)",
        "true true",
    ),
    (
        "uptime",
        "const o = require('os'); console.log(o.uptime() > 0, o.loadavg().length)",
        "true 3",
    ),
    ("hostname", "console.log(require('os').hostname())", "husk"),
    ("rss", "console.log(process.memoryUsage().rss > 0)", "true"),
]

CASES = [
    pytest.param(lang, code, want, id=f"{lang}: {name}")
    for lang, rows in (("shell", SHELL), ("python", PYTHON), ("javascript", NODE))
    for name, code, want in rows
]


@pytest.mark.parametrize(("lang", "code", "want"), CASES)
def test_program(husk: Program, lang: str, code: str, want: str) -> None:
    done = husk("run", "--lang", lang, code)
    assert done.code == 0, done.error
    assert want in done.text
