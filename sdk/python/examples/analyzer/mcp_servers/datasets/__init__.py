# SPDX-License-Identifier: Apache-2.0
"""The MCP server of the example."""
