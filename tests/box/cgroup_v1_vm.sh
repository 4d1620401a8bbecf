#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The cgroup tests on a host that has v1 only; see cgroup_v2_vm.sh.
#
#   cgroup_v1_vm.sh [BUILD_DIR]
set -eu

exec "$(dirname "$0")/cgroup_v2_vm.sh" "${1:-${HUSK_BUILD:?}}" v1
