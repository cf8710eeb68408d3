"""The tools, called by the protocol's own client in this process."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent
from PIL import Image

from server.backends import Backend
from server.client.client import AsyncClient
from server.mcp import SIDE, application_client, mcp_server
from tests.server.apps import app_of
from tests.server.fake import Drawing, FakeSearcher

Make = Callable[[], MCPServer]  # a server ends with its first client


def calling(server: Make, use: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a function of a connected client returns."""

    async def run() -> Any:
        async with Client(server()) as client:
            return await use(client)

    return anyio.run(run)


def call(server: Make, tool: str, **arguments: Any) -> Any:
    """The structured answer of a tool."""
    result = calling(server, lambda client: client.call_tool(tool, arguments))
    assert not result.is_error, result
    return result.structured_content


def error(server: Make, tool: str, **arguments: Any) -> str:
    """The text of a tool's error, without the SDK's first words."""
    result: CallToolResult = calling(server, lambda client: client.call_tool(tool, arguments))
    assert result.is_error
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text.removeprefix(f"Error executing tool {tool}: ")


@pytest.fixture
def searcher() -> FakeSearcher:
    return FakeSearcher()


@pytest.fixture
def server(photos: Path, searcher: FakeSearcher) -> Make:
    def make() -> MCPServer:
        app = app_of(Backend("sparta", searcher, photos))
        return mcp_server(application_client(app), app)

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
    tools = {t.name: t for t in calling(server, lambda client: client.list_tools()).tools}
    assert tools.keys() == {"search", "similar", "explain", "image"}
    for tool in tools.values():
        assert tool.description and "\n  " not in tool.description
        assert tool.annotations.read_only_hint is True
        assert all(p["description"] for p in tool.input_schema["properties"].values())
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
    look = partial(Client.call_tool, name="image", arguments={"image_id": "large.png"})
    [content] = calling(server, look).content
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


def test_an_id_that_would_reach_another_image_is_refused(photos: Path) -> None:
    def server() -> MCPServer:
        app = app_of(Backend("sparta", FakeSearcher(), photos))
        return mcp_server(application_client(app), app, write=True)

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


def test_tools_that_write_are_offered_on_demand(server: Make) -> None:
    sent: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if request.method == "POST":
            return httpx.Response(200, json={"deleted": 1, "missing": ["b"]})
        return httpx.Response(200, json={"image_id": "a", "result": "replaced"})

    def make() -> MCPServer:
        client = AsyncClient("http://127.0.0.1:1", transport=httpx.MockTransport(handle))
        return mcp_server(client, write=True)

    photo = base64.b64encode(b"photo").decode()
    assert call(make, "add", image_id="a", photo=photo, metadata={"x": 1}) == {
        "image_id": "a",
        "replaced": True,
    }
    assert call(make, "delete", image_ids=["a", "b"]) == {"deleted": 1, "missing": ["b"]}
    assert [(request.method, request.content) for request in sent] == [
        ("PUT", b"photo"),
        ("PATCH", b'{"x":1}'),
        ("POST", b'{"ids":["a","b"]}'),
    ]
    assert "photo is not base64" in error(make, "add", image_id="a", photo="?")

    def names(make: Make) -> set[str]:
        listed = calling(make, lambda client: client.list_tools())
        return {tool.name for tool in listed.tools}

    assert names(make) - names(server) == {"add", "delete"}


def test_shares_and_boxes_are_as_exact_as_a_picture(server: Make, searcher: FakeSearcher) -> None:
    box = (1 / 7, 2 / 7, 3 / 7, 1.0)
    searcher.drawings["garden/one.png"] = Drawing((320, 240), "teal", {"red": (200, box)})
    found = call(server, "explain", query="red blue green", image_id="garden/one.png")
    assert found["terms"][0]["box"] == [0.143, 0.286, 0.429, 1]
    assert found["coverage"] == 0.444  # 200 of 200, 210 and 40
