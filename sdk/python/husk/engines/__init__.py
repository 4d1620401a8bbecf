# SPDX-License-Identifier: Apache-2.0
"""What runs a tool: worker processes (`local`), Ray tasks (`ray`), or boxes of a server (`sandbox`)."""
