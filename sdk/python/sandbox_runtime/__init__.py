# SPDX-License-Identifier: Apache-2.0
"""sandbox_runtime: the names of the Sandbox Runtime's client, implemented by husk.

`sandbox_runtime.sdk` has the client; its server is huskd. `husk.Sandbox` does more.
"""

from __future__ import annotations

from husk import __version__ as __version__

__all__ = ["__version__"]
