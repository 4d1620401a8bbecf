# SPDX-License-Identifier: Apache-2.0
"""The box of one session of the sandbox functions: a `husk.Sandbox` with the limits of the rayai
API.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from husk.client.blocking import Client
from husk.errors import SessionNotFoundError
from husk.interpreter import policy
from husk.results.result import Result
from husk.sandbox.blocking import Sandbox

__all__ = ["Box"]

_PAGE = 200


class Box:
    """One persistent session of the server. Threads may share it."""

    def __init__(self, image: str) -> None:
        client = Client()
        try:
            template = policy.template_of(image, _templates(client))
            self._sandbox = Sandbox(
                template,
                cpus=policy.CPU_QUOTA / policy.CPU_PERIOD,
                memory=policy.MEMORY_BYTES,
                timeout=policy.SESSION_TIMEOUT,
                client=client,
            )
        except BaseException:
            client.close()
            raise
        self._client = client

    def run(self, kind: str, text: str, seconds: int, environment: Mapping[str, str]) -> Result:
        """Runs code or a command."""
        env = dict(environment) or None
        if kind == "shell":
            return self._sandbox.shell(text or ":", timeout=seconds, env=env)
        return self._sandbox.run(text or "\n", timeout=seconds, env=env)

    def status(self) -> tuple[str, dict[str, Any]]:
        """Returns the state of the session, and its statistics while it runs."""
        try:
            status = self._sandbox.info().status
        except SessionNotFoundError:
            return "lost", {}
        figures = dataclasses.asdict(self._sandbox.stats()) if status == "running" else {}
        return status, figures

    def close(self) -> None:
        """Ends the session with all its processes."""
        try:
            self._sandbox.close()
        finally:
            self._client.close()

    # ---- files, for volumes.Workspace ----

    def put_tar(self, path: str, archive: Path) -> None:
        """Unpacks a local tar file into a directory of the workspace."""
        self._sandbox.files.import_tar(archive, path, progress=False)

    def get_tar(self, path: str, archive: Path) -> None:
        """Packs a directory of the workspace into a local tar file."""
        self._sandbox.files.export_tar(archive, path, progress=False)

    def put_file(self, path: str, data: bytes) -> None:
        """Writes a file of the workspace."""
        self._sandbox.files.write(path, data)

    def get_file(self, path: str) -> bytes:
        """Reads a file of the workspace."""
        return self._sandbox.files.read(path)

    def delete(self, path: str) -> None:
        """Removes a file or directory of the workspace."""
        self._sandbox.files.delete(path, recursive=True)


def _templates(client: Client) -> list[str]:
    names: list[str] = []
    while True:
        page = client.list_templates(limit=_PAGE, offset=len(names))
        names += [template.id for template in page.items]
        if not page.has_more:
            return names
