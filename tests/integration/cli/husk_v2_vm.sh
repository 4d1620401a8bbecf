#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# husk as it was built, on a host that has cgroup v2 and nothing else: an emulated machine with the
# system's Python and bash. What is tested there is in husk_on_v2.py, whose TAP this prints.
#
#   husk_v2_vm.sh [BUILD_DIR]     keeps what it makes in BUILD_DIR/husk_v2_vm; else $HUSK_BUILD
set -eu

build=$(cd "${1:-${HUSK_BUILD:?}}" && pwd)
source_root=$(cd "$(dirname "$0")/../../.." && pwd)
# shellcheck disable=SC1091
. "$source_root/tests/harness/vm.sh"
vm_prepare "$build" husk_v2_vm

mkdir -p root/usr/local/lib root/usr/sbin root/usr/lib root/usr/lib64
for folder in lib lib64 sbin; do
    ln -s "usr/$folder" "root/$folder"
done
cp -r "$build/bin" root/usr/local/
(cd "$build/lib" && tar -cf - --exclude=python-deps --exclude=__pycache__ husk) | tar -xf - -C root/usr/local/lib

python=$(readlink -f /usr/bin/python3)
stdlib=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p "root$stdlib"
(cd "$stdlib" && tar -cf - --exclude=./test --exclude=./idlelib --exclude=./tkinter --exclude=./lib2to3 \
    --exclude=./ensurepip --exclude=./pydoc_data --exclude='./config-*' --exclude='*.opt-?.pyc' .) |
    tar -xf - -C "root$stdlib"
cp "$python" /bin/bash /usr/bin/setpriv /usr/bin/unshare root/usr/bin/
ln -s "$(basename "$python")" root/usr/bin/python3
for applet in sh cat mount umount; do
    ln -s busybox "root/usr/bin/$applet"
done

# The linker and all libraries of these, in places that are reached through /lib and /lib64.
for file in "$build"/bin/* "$build"/lib/husk/*.so "$python" /bin/bash /usr/bin/setpriv /usr/bin/unshare \
    "$stdlib"/lib-dynload/*.so; do
    ldd "$file" 2>/dev/null || true
done | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "root$(dirname "$library")"
    cp -L "$library" "root$library"
done

cat >root/etc/passwd <<'PASSWD'
root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534:nobody:/:/bin/false
husk:x:999:999:husk:/:/bin/false
PASSWD
cp "$source_root"/tests/integration/cli/*v2*.py root/

# A root that can be left with pivot_root(2), which the initramfs itself cannot.
cat >root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox mount --bind / /mnt
cd /mnt
/bin/busybox mount --move . /
exec /bin/busybox chroot . /start
INIT
cat >root/start <<'START'
#!/bin/busybox sh
export PATH=/usr/local/bin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup # as systemd does
/bin/busybox ip link set lo up
/bin/busybox chmod 1777 /tmp /var/tmp
python3 -B /husk_on_v2.py
echo "# exit status $?"
/bin/busybox poweroff -f
START
chmod +x root/init root/start
vm_run 400 1024
