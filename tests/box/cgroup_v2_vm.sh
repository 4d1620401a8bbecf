#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the cgroup tests on a host that has cgroup v2 and nothing else: an emulated machine whose
# initramfs holds the static test program. Prints its TAP. What husk itself does on such a host is
# tested in tests/integration/cli/husk_v2_vm.sh.
#
#   cgroup_v2_vm.sh [BUILD_DIR]     keeps what it makes in BUILD_DIR/cgroup_v2_vm; else $HUSK_BUILD
#   cgroup_v2_vm.sh BUILD_DIR v1    on a host with v1 only, cpu and cpuacct in one hierarchy
set -eu

build=${1:-${HUSK_BUILD:-}}
layout=${2:-v2}
if [ -z "$build" ] || { [ "$layout" != v1 ] && [ "$layout" != v2 ]; }; then
    echo "usage: $0 [BUILD_DIR [v1]]" >&2
    exit 2
fi
source_root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck disable=SC1091
. "$source_root/tests/harness/vm.sh"
vm_prepare "$build" cgroup_v2_vm

${CC:-cc} -static -O2 -std=gnu17 -D_GNU_SOURCE '-DHUSK_VERSION="vm"' '-DTAP_SUITE="box"' \
    '-DTAP_EXPECTED_SKIPS="/expected-skips"' -I"$source_root/src" -I"$source_root/include" \
    -I"$source_root/tests/harness" "$source_root"/src/base/*.c "$source_root"/src/box/cgroup*.c \
    "$source_root/tests/harness/tap.c" "$source_root"/tests/box/*cgroup*.c -o root/test_cgroup

# A disk in memory, so that there is block I/O to count.
find ../vm_kernel/lib/modules -name 'brd.ko*' -exec cp {} root/ \;
if [ -f root/brd.ko.xz ]; then
    xz -d root/brd.ko.xz
fi
cat >root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
if [ "$layout" = v2 ]; then
    /bin/busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
    /bin/busybox mount -t tmpfs tmpfs /sys/fs/cgroup
    for list in memory cpu,cpuacct pids blkio; do
        /bin/busybox mkdir "/sys/fs/cgroup/$list"
        /bin/busybox mount -t cgroup -o "$list" cgroup "/sys/fs/cgroup/$list"
    done
fi
/bin/busybox insmod /brd.ko rd_nr=1 rd_size=16384
/bin/busybox mke2fs /dev/ram0 >/dev/null
/bin/busybox mount -t ext2 /dev/ram0 /var/tmp
/test_cgroup
echo "# exit status $?"
/bin/busybox poweroff -f
INIT
chmod +x root/init
vm_run 80 512 "layout=$layout"
