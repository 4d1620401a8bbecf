# SPDX-License-Identifier: Apache-2.0
"""Ready means that a run would succeed now: what `husk up`, /health and `husk doctor` say where the
kernel makes no sandbox, from the start or later.
"""
from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from husk_server import Server
from places import BIN
from waiting import PATIENCE, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and makes namespaces")

HUSK = str(BIN / "husk")
NO_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces"


@pytest.fixture
def chroot(tmp_path: Path) -> list[str]:
    """Starts a program in a chroot that has everything but the root of its mount namespace."""
    script = 'mount --rbind / "$0" && exec chroot "$0" "$@"'
    shell = ["sh", "-c", script, str(tmp_path)]
    return ["unshare", "--mount", "--propagation", "slave", *shell]


def doctor(*before: str, **how: Any) -> dict[str, Any]:
    """The layer `namespaces`."""
    run = subprocess.run(
        [*before, HUSK, "doctor", "--json"], capture_output=True, text=True, timeout=PATIENCE, **how
    )
    assert run.returncode == 1, run
    layers: list[dict[str, Any]] = json.loads(run.stdout)["layers"]
    mounts = next(layer for layer in layers if layer["name"] == "mount API")
    assert "5.12" not in mounts["fix"], "the kernel is new enough"
    return next(layer for layer in layers if layer["name"] == "namespaces")


def refuse_unshare() -> None:
    """From now on unshare(2) answers EPERM, as in a container."""
    load, equal, ret = 0x20, 0x15, 0x06
    program = (
        struct.pack("HBBI", load, 0, 0, 0)  # the number of the system call
        + struct.pack("HBBI", equal, 0, 1, 272)  # unshare on x86_64
        + struct.pack("HBBI", ret, 0, 0, 0x00050001)  # EPERM
        + struct.pack("HBBI", ret, 0, 0, 0x7FFF0000)  # allowed
    )
    filters = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)
    frog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(filters)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(frog), 0, 0) == 0


@needs_root
def test_doctor_names_a_chroot(chroot: list[str]) -> None:
    layer = doctor(*chroot)
    assert not layer["present"] and "chroot" in layer["fact"] and "chroot" in layer["fix"]


@needs_root
def test_doctor_names_the_limit_of_namespaces() -> None:
    layer = doctor("unshare", "-U", "-r", "sh", "-c", f'{NO_NAMESPACES} && exec "$@"', "sh")
    assert not layer["present"] and "it is 0" in layer["fact"]
    assert "user.max_user_namespaces" in layer["fix"]


def test_doctor_names_a_seccomp_filter() -> None:
    layer = doctor(preexec_fn=refuse_unshare)
    assert not layer["present"] and "seccomp" in layer["fact"] and "seccomp" in layer["fix"]


@needs_root
@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["foreground", "detached"])
def test_up_fails_where_nothing_can_run(chroot: list[str], detach: list[str]) -> None:
    server = Server()
    try:
        # fmt: off
        command = [*chroot, HUSK, "up", *detach, "--data", str(server.data), "--socket", str(server.socket),
                   "--listen", f"127.0.0.1:{server.port}"]
        # fmt: on
        up = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert up.returncode == 125 and "ready" not in up.stdout, up
        assert "boxes_fail" in up.stderr and "Operation not permitted" in up.stderr
        assert "husk: no program can run in a sandbox here" in up.stderr
        assert "husk: namespaces: this is a chroot" in up.stderr
    finally:
        server.remove()


# ---- a server that runs ----


class InNamespace(Server):
    """In a user namespace of its own, in which making others can be forbidden."""

    before = ("unshare", "-U", "--map-user=1000", "--map-group=1000")

    def allow(self, number: int) -> None:
        """So many user namespaces. By a process that keeps its rights when it joins."""
        code = (
            "import ctypes, os, sys\n"
            "ns = os.open(sys.argv[1], os.O_RDONLY)\n"
            "assert ctypes.CDLL(None).setns(ns, 0) == 0\n"
            "open('/proc/sys/user/max_user_namespaces', 'w').write(sys.argv[2])\n"
        )
        place = f"/proc/{self.process.pid}/ns/user"
        command = [sys.executable, "-c", code, place, str(number)]
        subprocess.run(command, check=True, timeout=PATIENCE)


@contextmanager
def in_namespace(*flags: str) -> Iterator[InNamespace]:
    server = InNamespace("--min-isolation", "userns", *flags)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@needs_root
def test_ready_follows_what_the_kernel_does() -> None:
    # Without parked boxes every run needs a new one.
    flags = ("--pool-min", "0", "--pool-max", "0", "--se-pool", "0")
    with in_namespace(*flags, "--session-pool-min", "0", "--session-pool-max", "0") as server:
        assert server.get("/api/v1/health").json["status"] == "healthy"
        server.allow(0)
        wait_until(
            lambda: server.post("/run", {"code": "print(1)"}).status != 200, "no run succeeds"
        )
        wait_until(lambda: server.get("/api/v1/health/ready").status == 503, "it says so")
        for path in ("/api/v1/health", "/api/v1/health/ready"):
            answer = server.get(path)
            assert answer.status == 503 and answer.json["status"] == "unhealthy"
            assert "No space left" in answer.json["reason"], answer.json
        assert server.get("/health").status == 503
        assert server.get("/workspace/se/healthy").status == 503
        assert server.get("/api/v1/health/live").status == 200
        engine = server.get("/api/v1/health/detailed").json["components"]["engine"]
        assert engine["status"] == "unhealthy" and "No space left" in engine["detail"]
        assert "\nhusk_ready 0\n" in server.get("/metrics").text
        server.wait_said("boxes_fail")

        server.allow(1000)
        wait_until(lambda: server.get("/api/v1/health/ready").status == 200, "it works again")
        assert server.post("/run", {"code": "print(1)"}).json["stdout"] == "1\n"
        assert server.get("/health").status == 200
        server.wait_said("boxes_work")


def test_a_box_that_is_asked_to_be_too_small_says_nothing_about_others() -> None:
    with Server.run() as server:
        tiny = {"code": "x = bytearray(200 << 20)", "memory_limit_mb": 64}
        for _ in range(20):
            server.post("/run", tiny)
            assert server.get("/api/v1/health/ready").status == 200
        assert "boxes_fail" not in server.output


def test_without_templates_to_preload_a_box_is_tried_as_well() -> None:
    with Server.run("--templates-preload", "", "--pool-min", "0", "--se-pool", "0") as server:
        detail = server.get("/api/v1/health/detailed").json["components"]["engine"]["detail"]
        assert detail == "the last run that was tried succeeded"
