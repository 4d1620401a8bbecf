#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quick half of make lint, one result per check. HUSK_BUILD is the build folder.
set -eu
exec "$(dirname "$0")/../../tools/static-checks" --tap
