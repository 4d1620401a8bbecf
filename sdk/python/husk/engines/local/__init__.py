# SPDX-License-Identifier: Apache-2.0
"""Tools in worker processes on this machine, each with limits that `husk limited` enforces."""
