#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the cgroup tests on a host that has cgroup v2 and nothing else: Debian's cloud kernel in an
# emulated machine (no KVM), with an initramfs that holds the static test program. Prints its TAP.
#
#   cgroup_v2_vm.sh [BUILD_DIR]     keeps what it makes in BUILD_DIR/cgroup_v2_vm; else $HUSK_BUILD
#   cgroup_v2_vm.sh BUILD_DIR v1    on a host with v1 only, cpu and cpuacct in one hierarchy
set -eu

skip() {
    echo "1..0 # SKIP $1"
    exit 0
}

build=${1:-${HUSK_BUILD:-}}
layout=${2:-v2}
if [ -z "$build" ] || { [ "$layout" != v1 ] && [ "$layout" != v2 ]; }; then
    echo "usage: $0 [BUILD_DIR [v1]]" >&2
    exit 2
fi
source_root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$build/cgroup_v2_vm"
cd "$build/cgroup_v2_vm"

for tool in qemu-system-x86_64 busybox cpio dpkg-deb apt-get; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
busybox_path=$(command -v busybox)
if ldd "$busybox_path" >/dev/null 2>&1; then
    skip "busybox is not the static one"
fi

if ! [ -d kernel ]; then
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$package" ] || skip "apt knows no linux-image-cloud-amd64"
    apt-get download "$package" >download.log 2>&1 || skip "$package cannot be downloaded"
    rm -rf kernel.new
    dpkg-deb -x "$package"_*.deb kernel.new
    mv kernel.new kernel
    rm -f "$package"_*.deb
fi

${CC:-cc} -static -O2 -std=gnu17 -D_GNU_SOURCE '-DHUSK_VERSION="vm"' '-DTAP_SUITE="box"' \
    '-DTAP_EXPECTED_SKIPS="/expected-skips"' -I"$source_root/src" -I"$source_root/include" \
    -I"$source_root/tests/harness" "$source_root"/src/base/*.c "$source_root"/src/box/cgroup*.c \
    "$source_root/tests/harness/tap.c" "$source_root"/tests/box/*cgroup*.c -o test_cgroup

rm -rf root
mkdir -p root/bin root/proc root/sys root/dev root/tmp root/var/tmp
cp "$busybox_path" root/bin/busybox
cp test_cgroup root/test_cgroup
# A disk in memory, so that there is block I/O to count.
find kernel/lib/modules -name 'brd.ko*' -exec cp {} root/ \;
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
(cd root && find . | cpio --quiet -o -H newc) >initramfs

# Without cmpxchg16b: the emulator of Debian 12 gets it wrong often enough to crash newer kernels.
status=0
timeout 80 qemu-system-x86_64 -accel tcg -cpu max,-cx16 -smp 2 -m 512 -nodefaults -no-user-config -no-reboot \
    -display none -monitor none -serial stdio -kernel kernel/boot/vmlinuz-* -initrd initramfs \
    -append "console=ttyS0 loglevel=1 panic=-1 layout=$layout" </dev/null >console.log 2>qemu.log || status=$?

tr -d '\r' <console.log | grep -E '^(1\.\.|ok |not ok |#)' || true
if ! grep -q '^# exit status 0' console.log; then
    echo "Bail out! tests failed in the machine or it did not finish (qemu: $status)"
    cat qemu.log >&2
    exit 1
fi
