# SPDX-License-Identifier: Apache-2.0
"""System calls and socket families that a hostile preload tries, and that no zygote needs."""
from __future__ import annotations

import ctypes
import os
import socket
from functools import partial
from typing import Any

from attempt import IS_ARM, LIBC, add, call, checked

ZEROS = ctypes.create_string_buffer(512)
PTRACE_TRACEME, PTRACE_SEIZE = 0, 0x4206
AF_ALG, AF_BLUETOOTH, AF_CAN, AF_KEY, AF_PACKET = 38, 31, 29, 15, 17
AF_NETLINK, AF_RDS, AF_TIPC, AF_VSOCK, AF_XDP = 16, 21, 30, 40, 44
NETLINKS = {"xfrm": 6, "netfilter": 12, "audit": 9, "uevent": 15, "generic": 16, "sock_diag": 4}

# Numbers on x86_64 and aarch64; -1: the same. Arguments that the kernel would refuse for their
# value get another error than EPERM or ENOSYS, and the test tells the two apart.
CALLS: dict[str, tuple[Any, ...]] = {
    "io_uring_setup": (425, -1, 8, ZEROS),
    # A zygote has exactly 0x80001 (close on exec, no faults of the kernel): fewer pages per box.
    "userfaultfd": (323, 282, 1),
    "userfaultfd_for_faults_of_the_kernel": (323, 282, 0x80000),
    "keyctl_session": (250, 219, 1, 0),
    "add_key": (248, 217, b"user", b"planted", b"x", 1, -3),
    "request_key": (249, 218, b"user", b"planted", 0, 0),
    "bpf_map_create": (321, 280, 0, ZEROS, 72),
    "perf_event_open": (298, 241, ZEROS, 0, -1, -1, 0),
    "kexec_load": (246, 104, 0, 0, 0, 0),
    "kexec_file_load": (320, 294, -1, -1, 0, 0, 0),
    "init_module": (175, 105, ZEROS, 512, b""),
    "finit_module": (313, 273, 0, b"", 0),
    "delete_module": (176, 106, b"ext4", 0),
    "name_to_handle_at": (303, 264, -100, b"/usr", ZEROS, ZEROS, 0),
    "open_by_handle_at": (304, 265, -100, ZEROS, 0),
    "fanotify_init": (300, 262, 0, 0),
    "quotactl": (179, 60, 0, b"/dev/vda", 0, 0),
    "swapon": (167, 224, b"/usr/bin/env", 0),
    "reboot": (169, 142, 0xFEE1DEAD, 672274793, 0, 0),
    "acct": (163, 89, b"/tmp/acct"),
    "kernel_log": (103, 116, 3, ZEROS, 512),
    "clock_settime": (227, 112, 0, ZEROS),
    "settimeofday": (164, 170, ZEROS, 0),
    "adjtimex": (159, 171, ctypes.create_string_buffer(b"\1" + bytes(300), 301)),
    "memfd_secret": (447, -1, 0),
    "kcmp": (312, 272, 1, 1, 0, 0, 0),
    "pidfd_getfd": (438, -1, 0, 0, 0),
    "process_vm_readv": (310, 270, 1, ZEROS, 1, ZEROS, 1, 0),
    "process_vm_writev": (311, 271, 1, ZEROS, 1, ZEROS, 1, 0),
    "vhangup": (153, 58),
    "statmount": (457, -1, ZEROS, ZEROS, 512, 0),
}
for _name, (_x86_64, _aarch64, *_args) in CALLS.items():
    add(_name, partial(call, _x86_64, _aarch64, *_args), "EPERM ENOSYS")

if not IS_ARM:
    add("iopl", lambda: call(172, -1, 3), "EPERM ENOSYS")
    add("ioperm", lambda: call(173, -1, 0x80, 1, 1), "EPERM ENOSYS")
    add("modify_ldt", lambda: call(154, -1, 0, ZEROS, 512), "EPERM ENOSYS")


def trace_parent(request: int) -> int:
    return checked(LIBC.ptrace(request, os.getppid(), None, None))


def open_socket(family: int, kind: int, protocol: int) -> int:
    return checked(LIBC.socket(family, kind, protocol))


# Not PTRACE_ATTACH: where it works it stops the zygote, and no outcome would be told.
add("ptrace_seize_the_zygote", partial(trace_parent, PTRACE_SEIZE), "EPERM ENOSYS")
add("ptrace_traceme", lambda: checked(LIBC.ptrace(PTRACE_TRACEME, 0, None, None)), "EPERM ENOSYS")

# fmt: off
for _name, _family, _kind, _protocol in [
    ("vsock", AF_VSOCK, socket.SOCK_STREAM, 0), ("alg", AF_ALG, socket.SOCK_SEQPACKET, 0),
    ("packet", AF_PACKET, socket.SOCK_RAW, 0x300), ("key", AF_KEY, socket.SOCK_RAW, 2),
    ("bluetooth", AF_BLUETOOTH, socket.SOCK_RAW, 1), ("can", AF_CAN, socket.SOCK_RAW, 1),
    ("rds", AF_RDS, socket.SOCK_SEQPACKET, 0), ("tipc", AF_TIPC, socket.SOCK_STREAM, 0),
    ("xdp", AF_XDP, socket.SOCK_RAW, 0),
    ("raw_ip", socket.AF_INET, socket.SOCK_RAW, 1), ("raw_ip6", socket.AF_INET6, socket.SOCK_RAW, 58),
    *((f"netlink_{n}", AF_NETLINK, socket.SOCK_RAW, p) for n, p in NETLINKS.items()),
]:
    add(f"socket_{_name}",
        partial(open_socket, _family, _kind, _protocol),
        "EPERM EACCES ENOSYS EAFNOSUPPORT")
# fmt: on
