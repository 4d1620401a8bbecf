# SPDX-License-Identifier: Apache-2.0
"""Data analysis in a sandbox: a file goes in, a table and a chart come out.

    python sdk/python/examples/data_analysis.py

The code below could come from a model; in the sandbox it has no access to the network or to your
files. In the template python-datascience, numpy, pandas and matplotlib are already imported, so they
cost no time.
"""

from pathlib import Path

import _checkout  # noqa: F401  (from a checkout; not needed where husk is installed)

from husk import Sandbox

SALES = """month,north,south
1,120,80
2,135,95
3,110,140
4,160,150
5,175,155
6,190,185
"""

SUMMARY = """
import numpy as np
import pandas as pd

sales = pd.read_csv("sales.csv", index_col="month")
growth = sales.apply(lambda s: np.polyfit(s.index, s, 1)[0]).round(1)
print(pd.DataFrame({"total": sales.sum(), "growth": growth}).to_string())
"""

CHART = """
import matplotlib.pyplot as plt

sales.plot(marker="o", title="Sales")
plt.show()
"""

with Sandbox("python-datascience") as s:
    s.files.write("sales.csv", SALES)
    print(s.run(SUMMARY).check().text)
    chart = s.run(CHART).check()  # `sales` is still set: it is the same interpreter

picture = Path("sales.png")
picture.write_bytes(chart.png or b"")
print(f"chart: {picture} ({picture.stat().st_size} bytes)")
print(f"cost: {chart.cost}")
