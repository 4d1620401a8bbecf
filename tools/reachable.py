# SPDX-License-Identifier: Apache-2.0
"""Lets ordinary users reach a checkout that lies in root's home, for as long as this process and
its children run.

Tests run husk as ordinary users, too. In a mount namespace of our own, each folder above the
checkout that only its owner may enter is replaced by one that all may enter, with everything that
was in it. Nothing changes on the disk or for other processes.
"""
from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x20000


def closed_folders(place: Path) -> list[Path]:
    """Those above it that others may not enter, the outermost first."""
    return [f for f in reversed(place.parents) if not f.stat().st_mode & 0o001]


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True)


def _replace(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as aside:
        _mount("--rbind", folder, aside)
        _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", folder)
        for entry in Path(aside).iterdir():
            there = folder / entry.name
            if entry.is_symlink():
                there.symlink_to(os.readlink(entry))
                continue
            if entry.is_dir():
                there.mkdir()
            else:
                there.touch()
            _mount("--rbind", entry, there)
        subprocess.run(["umount", "--lazy", "--recursive", aside], check=True)


def make_reachable(place: Path) -> None:
    closed = closed_folders(place)
    if os.geteuid() != 0 or not closed:
        return
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNS)")
    _mount("--make-rprivate", "/")
    for folder in closed:
        _replace(folder)
    os.chdir(place)  # the same folder, by the way that others have
