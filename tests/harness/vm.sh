# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that run in an emulated machine (no KVM): Debian's cloud kernel, and an initramfs
# with what the test puts into root/. They print TAP and end with "# exit status N".

vm_skip() {
    echo "1..0 # SKIP $1"
    exit 0
}

# vm_prepare BUILD NAME: goes to BUILD/NAME, where root/ has busybox and the usual folders, and
# BUILD/vm_kernel has a kernel.
vm_prepare() {
    for tool in qemu-system-x86_64 busybox cpio dpkg-deb apt-get flock; do
        command -v "$tool" >/dev/null || vm_skip "$tool is not installed"
    done
    if ldd "$(command -v busybox)" >/dev/null 2>&1; then
        vm_skip "busybox is not the static one"
    fi
    mkdir -p "$1/$2" "$1/vm_kernel"
    cd "$1/$2"
    vm_kernel=$(cd ../vm_kernel && pwd)
    (
        flock 9 # another suite may want it right now
        [ -d "$vm_kernel/boot" ] || vm_fetch_kernel
    ) 9>"$vm_kernel/lock"
    [ -d "$vm_kernel/boot" ] || vm_skip "no linux-image-cloud-amd64 can be had"

    rm -rf root
    mkdir -p root/usr/bin root/proc root/sys root/dev root/tmp root/run root/etc root/root root/mnt root/var/tmp
    ln -s usr/bin root/bin
    cp "$(command -v busybox)" root/bin/busybox
}

vm_fetch_kernel() {
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$package" ] || return 0
    (cd "$vm_kernel" && apt-get download "$package" >download.log 2>&1) || return 0
    rm -rf "$vm_kernel/new"
    dpkg-deb -x "$vm_kernel/$package"_*.deb "$vm_kernel/new"
    rm -f "$vm_kernel/$package"_*.deb
    rm -rf "$vm_kernel/lib"
    mv "$vm_kernel/new/lib" "$vm_kernel/new/boot" "$vm_kernel" # boot last: it says that all is there
    rm -rf "$vm_kernel/new"
}

# vm_run SECONDS MEMORY [WORD...]: boots root/ with these words on the kernel's command line, where
# /init finds them as variables, and shows the TAP that it prints. Fails if a test did.
vm_run() {
    seconds=$1 memory=$2 status=0
    shift 2
    (cd root && find . | cpio --quiet -o -H newc) >initramfs
    # Without cmpxchg16b: the emulator of Debian 12 gets it wrong often enough to crash newer kernels.
    timeout "$seconds" qemu-system-x86_64 -accel tcg -cpu max,-cx16 -smp 2 -m "$memory" -nodefaults -no-user-config \
        -no-reboot -display none -monitor none -serial stdio -kernel "$vm_kernel"/boot/vmlinuz-* -initrd initramfs \
        -append "console=ttyS0 loglevel=1 panic=-1 mitigations=off $*" </dev/null >console.log 2>qemu.log || status=$?
    tr -d '\r' <console.log | grep -E '^(1\.\.|ok |not ok |#)' || true
    if ! grep -q '^# exit status 0' console.log; then
        echo "Bail out! tests failed in the machine or it did not finish (qemu: $status)"
        cat qemu.log >&2
        return 1
    fi
}
