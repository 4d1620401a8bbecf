# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: E5 E6
# held: the usual tools for namespaces, mounts and roots all fail
# expect: status=completed exit=0 stdout~HELD
reached=
attempt() {
    command -v "$1" > /dev/null || return 0
    if timeout 5 "$@" > /dev/null 2>&1 < /dev/null; then
        reached="$reached [$*]"
    fi
}
mkdir -p m
attempt unshare -Ur true
attempt unshare -m true
attempt unshare -UrmC true
attempt unshare -p -f true
attempt nsenter -t 1 -m true
attempt nsenter -t 1 -a true
attempt mount -t tmpfs none m
attempt mount --bind / m
attempt mount -o remount,rw /
attempt mount -t cgroup -o memory none m
attempt umount /proc
attempt umount -l /workspace
attempt chroot / true
attempt pivot_root . m
attempt hostname owned
attempt ip link add dummy0 type dummy
attempt ip link set lo down
attempt sysctl -w kernel.core_pattern=x
attempt bwrap --ro-bind / / true
attempt dmesg
if [ -n "$reached" ]; then
    echo "ESCAPED:$reached"
    exit 1
fi
echo HELD
