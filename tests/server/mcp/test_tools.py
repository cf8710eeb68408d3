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
from server.mcp.tools import SIDE, application_client, mcp_server
from tests.server.apps import app_of
from tests.server.fake import Drawing, FakeDense, FakeSearcher

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
        dense = Backend("vse++", FakeDense(), photos)
        app = app_of(Backend("sparta", searcher, photos), dense)
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


def test_search(server: Make, searcher: FakeSearcher) -> None:
    searcher.set_rare("blue")
    assert call(server, "search", query="red azure red qwx", k=1) == {
        "hits": [
            {
                "image_id": "garden/two.jpg",
                "score": 450,
                "metadata": {"width": 240, "height": 320},
                "coverage": 0.75,  # the unknown word weighs as much as the mean of the others
                "explanation": [
                    {"term": "red", "word": "red", "score": 240},
                    {"term": "blue", "word": "azure", "score": 210},
                ],
            }
        ],
        "unknown": ["qwx"],
        "rare": ["azure"],
        "corrections": [],
        "substitutions": [{"word": "azure", "term": "blue", "similarity": 0.75}],
        "conditions": [],
    }
    [condition] = call(server, "search", query="red -blue")["conditions"]
    assert condition == {"word": "blue", "sign": "-", "images": 3}
    [hit] = call(server, "search", query="red", k=1, backend="vse++")["hits"]
    assert (hit["image_id"], hit["explanation"]) == ("garden/one.png", None)


def test_filters_reach_the_server(server: Make) -> None:
    assert error(server, "search", query="red", filter="taken:2024") == (
        "filter: the images have no fields."
    )


def test_similar(server: Make) -> None:
    found = call(server, "similar", image_id="garden/one.png")
    assert [one["term"] for one in found["terms"]] == ["red", "green"]
    assert [hit["image_id"] for hit in found["hits"]] == [
        hit.image_id for hit in FakeSearcher().similar("garden/one.png").hits
    ]
    found = call(server, "similar", image_id="garden/one.png", words="blue -green")
    assert [hit["image_id"] for hit in found["hits"]] == [
        "garden/two.jpg",
        "sea/a b.webp",
        "sea/100% #1?&+;=.png",
        "Straße/海 é.jpg",
    ]


def test_explain(server: Make) -> None:
    found = call(server, "explain", query="green blue", image_id="garden/one.png")
    shared = {"sign": "", "box": [0, 0, 1, 1], "label": {"words": "dark green"}}
    green = {"term": "green", "word": "green", "score": 90, **shared}
    nothing = {"score": 0, "box": None, "label": None}
    blue = {"term": "blue", "word": "blue", "sign": "", **nothing}
    # The largest impacts are 90 and 210.
    assert found == {"score": 90, "terms": [green, blue], "against": [], "coverage": 0.3}
    found = call(server, "explain", query="green -red", image_id="garden/one.png")
    assert [one["sign"] for one in found["terms"]] == ["", "-"]
    assert found["against"] == ["-red"]


def test_image(server: Make, searcher: FakeSearcher, photos: Path) -> None:
    """Large ones are scaled down."""
    searcher.drawings["large.png"] = searcher.drawings["garden/one.png"]
    Image.new("RGB", (901, 3001), "teal").save(photos / "large.png")
    for image_id, size in (("garden/one.png", (320, 240)), ("large.png", (307, SIDE))):
        look = partial(Client.call_tool, name="image", arguments={"image_id": image_id})
        result = calling(server, look)
        [content] = result.content
        assert isinstance(content, ImageContent) and content.mime_type == "image/jpeg"
        with Image.open(BytesIO(base64.b64decode(content.data))) as picture:
            assert (picture.format, picture.size) == ("JPEG", size)
    (photos / "large.png").unlink()


def test_unknown_images_and_backends(server: Make) -> None:
    for tool, more in [("image", {}), ("similar", {}), ("explain", {"query": "red"})]:
        assert error(server, tool, image_id="x.jpg", **more) == (
            "image 'x.jpg' is not in the index. Take image_id from the hits of search or similar, "
            "exactly as it is there."
        )
    assert error(server, "search", query="red", backend="clip") == (
        "backend 'clip' is unknown; this server has: sparta, vse++. Leave out backend to "
        "search the inverted index."
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


def test_wrong_arguments_are_named(server: Make) -> None:
    assert "k\n  Input should be less than or equal to 100" in error(
        server, "search", query="red", k=101
    )
    assert error(server, "search", query=" ").startswith("q: the query is empty; give at least one")


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
def test_errors_say_what_to_do(status: int, problem: dict[str, str], text: str) -> None:
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


# ---- photos for the eyes of a model --------------------------------------------------------------


def test_shares_and_boxes_are_as_exact_as_a_picture(server: Make, searcher: FakeSearcher) -> None:
    box = (1 / 7, 2 / 7, 3 / 7, 1.0)
    searcher.drawings["garden/one.png"] = Drawing((320, 240), "teal", {"red": (200, box)})
    found = call(server, "explain", query="red blue green", image_id="garden/one.png")
    assert found["terms"][0]["box"] == [0.143, 0.286, 0.429, 1]
    assert found["coverage"] == 0.444  # 200 of 200, 210 and 40
