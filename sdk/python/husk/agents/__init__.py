# SPDX-License-Identifier: Apache-2.0
"""Served agents without Ray: discovery, the kinds of agents, and the worker process of huskd."""
