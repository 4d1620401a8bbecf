# SPDX-License-Identifier: Apache-2.0
"""HTTP to a server: the wire format, and the blocking and async transports."""
