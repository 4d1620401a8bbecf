# SPDX-License-Identifier: Apache-2.0
"""The operations of /api/v1, each described once: the request, the parser of its answer, and whether
it can be retried. Clients and sandboxes generate their methods from these descriptions.
"""
