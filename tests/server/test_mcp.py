"""The tools, called by the protocol's own client in this process."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent, Tool
from PIL import Image

from server.backends import Backend
from server.client.client import AsyncClient
from server.mcp import SIDE, application_client, mcp_server
from sparta.__main__ import main
from tests.server.apps import app_of, serving
from tests.server.drawings import index_drawings
from tests.server.fake import Drawing, FakeSearcher

Make = Callable[[], MCPServer]  # a server ends with its first client


def listed(server: Make) -> dict[str, Tool]:
    """The tools by name."""

    async def run() -> dict[str, Tool]:
        async with Client(server()) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    return anyio.run(run)


def result(server: Make, tool: str, **arguments: Any) -> CallToolResult:
    """What a tool returns."""

    async def run() -> CallToolResult:
        async with Client(server()) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(run)


def call(server: Make, tool: str, **arguments: Any) -> Any:
    """The structured answer of a tool."""
    found = result(server, tool, **arguments)
    assert not found.is_error, found
    return found.structured_content


def error(server: Make, tool: str, **arguments: Any) -> str:
    """The text of a tool's error, without the SDK's first words."""
    found = result(server, tool, **arguments)
    assert found.is_error
    [content] = found.content
    assert isinstance(content, TextContent)
    return content.text.removeprefix(f"Error executing tool {tool}: ")


@pytest.fixture
def server(photos: Path, searcher: FakeSearcher) -> Make:
    def make() -> MCPServer:
        app = app_of(Backend("sparta", searcher, photos))
        return mcp_server(application_client(app), app, write=True)

    return make


def refusing(status: int, **problem: Any) -> Make:
    """A server of tools whose every request is refused."""
    content_type = {"Content-Type": "application/problem+json"} if problem else {}
    body = {"title": "Refused", "status": status, "type": "about:blank"} | problem
    answer = httpx.MockTransport(
        lambda _: httpx.Response(status, json=body if problem else None, headers=content_type)
    )
    client = AsyncClient("http://photos.example", retries=0, transport=answer)
    return lambda: mcp_server(client)


def test_agents_read_what_the_tools_do(server: Make) -> None:
    reading = listed(lambda: mcp_server(AsyncClient("http://127.0.0.1:1")))
    assert reading.keys() == {"search", "similar", "explain", "image"}
    for name, tool in (tools := listed(server)).items():
        assert tool.description and "\n  " not in tool.description
        assert tool.annotations and bool(tool.annotations.read_only_hint) is (name in reading)
        assert all(p["description"] for p in tool.input_schema["properties"].values())
    assert tools.keys() - reading.keys() == {"add", "delete"}  # offered on demand
    assert "required" not in tools["search"].input_schema


def test_a_hit_has_what_an_agent_uses_and_no_more(server: Make) -> None:
    [hit] = call(server, "search", query="red", k=1)["hits"]
    assert hit == {
        "image_id": "garden/one.png",
        "score": 200,
        "metadata": {"width": 320, "height": 240},
        "coverage": 1,
        "explanation": [{"term": "red", "word": "red", "score": 200}],
    }


def test_a_large_photo_is_scaled_down(server: Make, searcher: FakeSearcher, photos: Path) -> None:
    searcher.drawings["large.png"] = searcher.drawings["garden/one.png"]
    Image.new("RGB", (901, 3001), "teal").save(photos / "large.png")
    [content] = result(server, "image", image_id="large.png").content
    assert isinstance(content, ImageContent) and content.mime_type == "image/jpeg"
    with Image.open(BytesIO(base64.b64decode(content.data))) as picture:
        assert (picture.format, picture.size) == ("JPEG", (307, SIDE))
    (photos / "large.png").unlink()


def test_an_error_says_what_to_do(server: Make) -> None:
    assert error(server, "explain", query="red", image_id="x.jpg") == (
        "image 'x.jpg' is not in the index. Take image_id from the hits of search or similar, "
        "exactly as it is there."
    )
    assert "k\n  Input should be less than or equal to 100" in error(
        server, "search", query="red", k=101
    )


def test_an_id_that_would_reach_another_image_is_refused(server: Make) -> None:
    reason = "the image id 'x/../garden/one.png' has the part '..' between slashes: give a path "
    more: dict[str, dict[str, str]] = {"explain": {"query": "red"}, "add": {"photo": "cGhvdG8="}}
    for tool in ("image", "similar", "explain", "add"):
        given = {"image_id": "x/../garden/one.png", **more.get(tool, {})}
        text = error(server, tool, **given)
        assert text == reason + "without these; nothing was sent."


def test_a_file_that_is_no_photo(server: Make, searcher: FakeSearcher, photos: Path) -> None:
    searcher.drawings["text.png"] = searcher.drawings["garden/one.png"]
    (photos / "text.png").write_text("no photo")
    try:
        text = error(server, "image", image_id="text.png")
    finally:
        (photos / "text.png").unlink()
    assert text.startswith("the file of image 'text.png' is not a photo. The photo cannot be shown")


@pytest.mark.parametrize(
    ("status", "problem", "text"),
    [
        (401, {"detail": "give a key"}, "give a key. Ask the operator to set SPARTA_API_KEY to a"),
        (503, {}, "the answer has no description. Wait a few seconds, then try again."),
        (429, {"detail": "too many."}, "too many. Wait, then try again with fewer calls."),
        (418, {"detail": "tea"}, "tea."),
    ],
)
def test_errors_of_a_server_say_what_to_do(status: int, problem: dict[str, str], text: str) -> None:
    assert error(refusing(status, **problem), "search", query="red").startswith(text)


def test_a_server_that_is_down() -> None:
    client = AsyncClient("http://127.0.0.1:1", retries=0)
    text = error(lambda: mcp_server(client), "search", query="red")
    assert text.startswith("http://127.0.0.1:1 does not answer: ")
    assert text.endswith("Ask the operator to start the server, or to correct its address.")


def test_a_photo_is_added_with_its_metadata() -> None:
    sent: list[tuple[str, bytes]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.content))
        return httpx.Response(200, json={"image_id": "a", "result": "replaced"})

    def make() -> MCPServer:
        client = AsyncClient("http://127.0.0.1:1", transport=httpx.MockTransport(handle))
        return mcp_server(client, write=True)

    photo = base64.b64encode(b"photo").decode()
    added = call(make, "add", image_id="a", photo=photo, metadata={"x": 1})
    assert added == {"image_id": "a", "replaced": True}
    assert sent == [("PUT", b"photo"), ("PATCH", b'{"x":1}')]
    assert "photo is not base64" in error(make, "add", image_id="a", photo="?")


def test_shares_and_boxes_are_as_exact_as_a_picture(server: Make, searcher: FakeSearcher) -> None:
    box = (1 / 7, 2 / 7, 3 / 7, 1.0)
    searcher.drawings["garden/one.png"] = Drawing((320, 240), "teal", {"red": (200, box)})
    found = call(server, "explain", query="red blue green", image_id="garden/one.png")
    assert found["terms"][0]["box"] == [0.143, 0.286, 0.429, 1]
    assert found["coverage"] == 0.444  # 200 of 200, 210 and 40


# ---- `sparta mcp` as programs start it: over standard input and output, and over HTTP -----------


COMMAND = [sys.executable, "-m", "sparta", "mcp"]


async def ask_all(server: Any) -> None:
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
    anyio.run(
        ask_all, StdioServerParameters(command=COMMAND[0], args=arguments, env=dict(os.environ))
    )


@pytest.fixture
def http_address(photos: Path) -> Iterator[str]:
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


def test_a_running_server_over_http(http_address: str) -> None:
    anyio.run(ask_all, http_address)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for name, value in [("Host", "photos.example"), ("Origin", "http://photos.example")]:
        refused = httpx.post(http_address, json=call, headers=headers | {name: value}, timeout=60)
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
