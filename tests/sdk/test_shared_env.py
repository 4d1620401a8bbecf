# SPDX-License-Identifier: Apache-2.0
"""SharedEnvSandbox: every method of the Sandbox Runtime's client class, and the choice among
servers.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from conftest import SdkServer
from waiting import PATIENCE

from husk import SharedEnvSandbox, errors
from husk.sandbox.shared_env import SandboxError, unescape

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


@pytest.fixture(scope="module")
def second() -> Iterator[SdkServer]:
    running = SdkServer()
    try:
        running.start()
        yield running
    finally:
        running.remove()


def test_session(server: SdkServer) -> None:
    async def main() -> None:
        sandbox = SharedEnvSandbox(session_id="se-1", servers=[server.url])
        assert not (await sandbox.get_status())["exists"]
        assert await sandbox.create_session() == "se-1"
        with pytest.raises(SandboxError):
            await sandbox.create_session(size="60M")
        status = await sandbox.get_status()
        assert status["exists"] and status["id"] == "se-1"
        assert sandbox.current_server == server.url
        assert await sandbox.delete_session() is True
        assert await sandbox.delete_session() is True
        await sandbox.close()

    run(main())


def test_execution(server: SdkServer) -> None:
    async def main() -> None:
        async with SharedEnvSandbox("se-2", servers=[server.url]) as sandbox:
            done = await sandbox.execute("echo", "a", "b")
            assert done == {"stdout": "a b\n", "stderr": "", "returncode": 0}
            code = "import sys\na = 1\nb = {'x': [2]}\nprint(a, sys.argv[1:])"
            done = await sandbox.execute_code(code, args=["q"], output_params=["a", "b", "zz"])
            assert done["stdout"] == "1 ['q']\n"
            assert done["output_variables"] == {"a": 1, "b": {"x": [2]}}
            assert "output_variables" not in await sandbox.execute_code("1")
            shell = await sandbox.execute_code("exit 4", script_type="shell")
            assert shell["returncode"] == 4
            await sandbox.execute_code("print(1)", filename="stored.py")
            assert "stored.py" in [f["filename"] for f in await sandbox.list_files()]
            with pytest.raises(SandboxError):
                await sandbox.execute_code("x", script_type="ruby")

    run(main())


def test_files(server: SdkServer, tmp_path: Path) -> None:
    data = os.urandom(200_000)
    (tmp_path / "in.bin").write_bytes(data)

    async def main() -> None:
        async with SharedEnvSandbox("se-3", servers=[server.url]) as sandbox:
            assert (await sandbox.upload_file(tmp_path / "in.bin"))["size"] == len(data)
            put = await sandbox.upload_file(tmp_path / "in.bin", "deep/ä b.bin")
            assert put == {"filename": "deep/ä b.bin", "size": len(data)}
            assert await sandbox.download_file("deep/ä b.bin", tmp_path / "new" / "out.bin")
            made = await sandbox.create_file("text\n", "notes/t.txt", 0o600)
            assert made == {"filename": "notes/t.txt", "size": 5}
            part = await sandbox.read_file("notes/t.txt", 1, 2)
            assert (part["content"], part["offset"], part["is_eof"]) == ("ex", 3, False)
            binary = await sandbox.read_file("in.bin")
            assert binary["is_binary"] and base64.b64decode(binary["content"]) == data[:4096]
            with pytest.raises(SandboxError) as caught:
                await sandbox.download_file("no-such", tmp_path / "x")
            assert not (tmp_path / "x").exists()
            assert caught.value.status == 404
            with pytest.raises(SandboxError):
                await sandbox.upload_file(tmp_path / "not-here")

    run(main())
    assert (tmp_path / "new" / "out.bin").read_bytes() == data


def test_no_path_leads_to_another_session(server: SdkServer, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            SharedEnvSandbox("se-4a", servers=[server.url]) as mine,
            SharedEnvSandbox("se-4b", servers=[server.url]) as other,
        ):
            await mine.execute("true")
            await other.create_file("theirs", "file")
            with pytest.raises(SandboxError):
                await mine.download_file("../se-4b/file", tmp_path / "got")
            assert not (tmp_path / "got").exists()
            assert [f["filename"] for f in await other.list_files("/")] == ["file"]

    run(main())


def test_recursive_means_recursive(server: SdkServer) -> None:
    async def main() -> None:
        async with SharedEnvSandbox("se-4", servers=[server.url]) as sandbox:
            await sandbox.create_file("1", "a/b/c.txt")
            flat = [f["filename"] for f in await sandbox.list_files()]
            deep = [f["filename"] for f in await sandbox.list_files(recursive=True)]
            below = [f["filename"] for f in await sandbox.list_files("a")]
            assert len(flat) == 1 and len(deep) == 3 and len(below) == 1
            assert any(name.endswith("c.txt") for name in deep)

    run(main())


def test_efast_is_refused_by_name(server: SdkServer) -> None:
    async def main() -> None:
        async with SharedEnvSandbox("se-5", servers=[server.url]) as sandbox:
            with pytest.raises(SandboxError) as caught:
                await sandbox.download_from_efast([{"docid": "gns://1"}])
            assert caught.value.status == 501

    run(main())


def test_errors_carry_what_it_was_about(server: SdkServer) -> None:
    async def main() -> None:
        async with SharedEnvSandbox("se-6", servers=[server.url]) as sandbox:
            with pytest.raises(SandboxError) as caught:
                await sandbox.read_file("no/such")
            error = caught.value
            assert isinstance(error.original_error, errors.HuskError)
            assert error.context["session_id"] == "se-6" and error.context["method"] == "read_file"
            assert error.to_dict()["message"] == error.message
            assert isinstance(error, errors.HuskError)
            assert error.detail and str(error).count(error.detail) == 1

    run(main())


def test_the_end_of_a_block(server: SdkServer) -> None:
    async def main() -> None:
        async with SharedEnvSandbox("se-7", servers=[server.url]) as sandbox:
            await sandbox.execute("true")
            await sandbox.close()  # the block does it again
        with pytest.raises(KeyError, match="mine"):  # and hides nothing
            async with SharedEnvSandbox("se-7", servers=["http://127.0.0.1:1"]):
                raise KeyError("mine")

    run(main())


# ---- which server ----


def test_arguments() -> None:
    with pytest.raises(ValueError):
        SharedEnvSandbox("")
    with pytest.raises(errors.NotOfferedError):
        SharedEnvSandbox("x", server_selector_type="k8s")
    with pytest.raises(errors.InvalidParameterError):
        SharedEnvSandbox("x", server_selector_type="psychic")


def test_the_session_decides_on_the_server(server: SdkServer, second: SdkServer) -> None:
    urls = [server.url, second.url]

    async def chosen(session: str, kind: str = "static", **more: Any) -> str | None:
        async with SharedEnvSandbox(session, kind, **more) as sandbox:
            await sandbox.get_status()
            return sandbox.current_server

    async def main() -> None:
        found = {f"s{i}": await chosen(f"s{i}", servers=urls) for i in range(12)}
        assert set(found.values()) == set(urls), "both are used"
        for session, url in found.items():
            assert await chosen(session, "mod", servers=urls) == url, "and always the same one"
        params = {"servers": [second.url]}
        assert await chosen("s0", server_selector_params=params) == second.url
        for kind in ("random", "round_robin"):
            async with SharedEnvSandbox("kept", kind, servers=urls) as sandbox:
                await sandbox.create_file("1", "f.txt")
                for _ in range(5):
                    assert (await sandbox.read_file("f.txt"))[
                        "content"
                    ] == "1", "it stays where it is"

    run(main())


def test_a_server_that_is_down_is_left_out(server: SdkServer) -> None:
    async def main() -> None:
        urls = ["http://127.0.0.1:1", server.url]
        for i in range(4):
            async with SharedEnvSandbox(f"h{i}", servers=urls) as sandbox:
                await sandbox.get_status()
                assert sandbox.current_server == server.url
        lonely = SharedEnvSandbox("h", servers=["http://127.0.0.1:1"])
        with pytest.raises(SandboxError, match="No available server"):
            await lonely.get_status()

    run(main())


def test_without_servers_one_is_found(server: SdkServer) -> None:
    async def main() -> None:
        async with SharedEnvSandbox("found") as sandbox:
            assert (await sandbox.execute("echo", "x"))["stdout"] == "x\n"
            assert sandbox.current_server == f"unix://{server.socket}"

    run(main())


# ---- escaped code ----


def test_unescape() -> None:
    assert unescape("x = 1\\nprint(x)") == "x = 1\nprint(x)"
    assert unescape('print(\\"hi\\")\\nx = 1') == 'print("hi")\nx = 1'
    for valid in ("print('a\\nb')", "x = 1\nprint('\\n')", "1", 'r"\\d"'):
        assert unescape(valid) == valid, "valid code is not touched"
    broken = "def (\\n"
    assert unescape(broken) == broken
    assert unescape("'" + "(" * 5000 + "\\n") == "'" + "(" * 5000 + "\\n"
