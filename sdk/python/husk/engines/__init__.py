# SPDX-License-Identifier: Apache-2.0
"""Engines that run tools: worker processes (`local`), Ray tasks (`ray`), and boxes (`sandbox`)."""
