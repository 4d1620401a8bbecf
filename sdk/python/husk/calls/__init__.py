# SPDX-License-Identifier: Apache-2.0
"""The operations of /api/v1, each described once: the request, how its answer is read, and whether it
can be repeated. Clients and sandboxes make their methods from these descriptions.
"""
