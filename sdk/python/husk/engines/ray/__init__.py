# SPDX-License-Identifier: Apache-2.0
"""Tools as Ray tasks, and how Ray is found and started."""
