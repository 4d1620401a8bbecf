# SPDX-License-Identifier: Apache-2.0
"""Serving agents without Ray: what finds them, what each kind of agent is, and the process that
runs one for huskd.
"""
