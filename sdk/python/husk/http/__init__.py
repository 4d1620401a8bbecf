# SPDX-License-Identifier: Apache-2.0
"""Connections to a server: what is sent, what comes back, and the blocking and async transports."""
