# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# technique: E1 E2
# held: nothing outside the workspace and /tmp can be written, not by root's files, devices or /proc
# expect: status=completed exit=0 stdout~HELD
written=
for target in /etc/passwd /etc/ld.so.preload /usr/bin/x /bin/sh /root/x /lib/x.so \
    /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/modprobe /dev/x /dev/kmsg \
    /proc/sys/vm/drop_caches /sys/kernel/uevent_helper /sys/power/state \
    /proc/1/oom_score_adj /proc/acpi/x /run/x /var/x /opt/x /x; do
    if (: >> "$target") 2> /dev/null; then
        written="$written $target"
    fi
done
for map in uid_map gid_map setgroups; do
    if (printf '0 0 1\n' > /proc/self/$map) 2> /dev/null; then
        written="$written $map"
    fi
done
if [ -n "$written" ]; then
    echo "ESCAPED:$written"
    exit 1
fi
echo HELD
