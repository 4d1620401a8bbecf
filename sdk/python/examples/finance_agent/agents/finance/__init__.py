# SPDX-License-Identifier: Apache-2.0
"""The agent of the example."""
