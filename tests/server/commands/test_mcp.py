"""`sparta mcp` as programs start it: over standard input and output, and over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client, StdioServerParameters

from server.backends import Backend
from sparta.__main__ import main
from tests.server.apps import serving
from tests.server.drawings import index_drawings
from tests.server.fake import FakeSearcher

COMMAND = [sys.executable, "-m", "sparta", "mcp"]


async def ask(server: Any) -> None:
    """Search, look at a hit, and ask for an image that is not there."""
    async with Client(server) as client:
        assert client.server_info is not None and client.server_info.name == "visualsparta"
        assert len((await client.list_tools()).tools) == 4
        found = await client.call_tool("search", {"query": "red blue", "k": 2})
        assert found.structured_content is not None
        hits = [(hit["image_id"], hit["score"]) for hit in found.structured_content["hits"]]
        expected = FakeSearcher().search("red blue", 2).hits
        assert hits == [(hit.image_id, hit.score) for hit in expected]
        [picture] = (await client.call_tool("image", {"image_id": hits[0][0]})).content
        assert picture.type == "image" and len(picture.data) > 1000
        assert (await client.call_tool("image", {"image_id": "x.jpg"})).is_error


def test_an_index_over_standard_input_and_output(tmp_path: Path, photos: Path) -> None:
    index = str(index_drawings(tmp_path / "index", photos))
    arguments = [*COMMAND[1:], index]
    anyio.run(ask, StdioServerParameters(command=COMMAND[0], args=arguments, env=dict(os.environ)))


@pytest.fixture
def address(photos: Path) -> Iterator[str]:
    with serving(Backend("sparta", FakeSearcher(), photos)) as served:
        command = [*COMMAND, served, "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert found
        yield found[0]
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Traceback" not in rest


def test_a_running_server_over_http(address: str) -> None:
    anyio.run(ask, address)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for name, value in [("Host", "photos.example"), ("Origin", "http://photos.example")]:
        refused = httpx.post(address, json=call, headers=headers | {name: value}, timeout=60)
        assert refused.status_code in (403, 421)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://127.0.0.1:1", "--photos", "."], "--photos is for an index folder"),
        (["nowhere"], "is not an index"),
        (["nowhere", "--write"], "--write needs a running server"),
        (["http://127.0.0.1:1", "--api-key", "two words"], "the API key has spaces"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["sparta", "mcp", *arguments])
    with pytest.raises(SystemExit, match="1"):
        main()
    shown = capsys.readouterr()
    assert message in shown.err and shown.err.count("\n") == 1
    assert shown.out == ""
