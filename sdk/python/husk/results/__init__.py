# SPDX-License-Identifier: Apache-2.0
"""The values that calls return: results of runs, events of streams, and records of the server."""
