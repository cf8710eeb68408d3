"""The Model Context Protocol server: tools over an index opened here, or over a running server."""

from __future__ import annotations

import socket
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from inspect import getdoc
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import anyio.to_thread
import httpx
from fastapi import FastAPI
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from indexer.filters.syntax import MAX_LENGTH
from server.client.client import AsyncClient
from server.client.transport import ClientError, NotSentError
from server.processes import run
from server.routes.common import MAX_QUERY_LENGTH
from server.schemas import Box, ConditionAnswer, CorrectionAnswer, QueryTerm, SubstitutionAnswer
from server.security.access import in_process
from sparta.errors import first_line
from sparta.extract.image_files import small_picture
from sparta.json_values import Json

Query = Annotated[
    str,
    Field(
        description="What the photo shows, in plain words; +beach: it must have the word, -dog: it "
        'must not, beach^3: counts three times, +"fire truck": one word of all its pieces',
        min_length=1,
        max_length=MAX_QUERY_LENGTH,
    ),
]
Words = Annotated[
    str,
    Field(description="A query that the photos should fit as well", max_length=MAX_QUERY_LENGTH),
]
Filter = Annotated[
    str | None,
    Field(
        description="Conditions on metadata, all of which hold: taken:2024-06..2024-08 "
        'camera:canon -folder:raw rating:>=4 tags:"our dog" location:48.85,2.35~5km; OR between '
        "conditions, parentheses. An unknown field is answered with those that there are",
        max_length=MAX_LENGTH,
    ),
]
ImageId = Annotated[str, Field(description="image_id of a hit, unchanged", min_length=1)]
Count = Annotated[int, Field(description="Number of hits", ge=1, le=100)]
Backend = Annotated[
    str | None,
    Field(description="Name of a dense model of the server; by default its inverted index"),
]


Photo = Annotated[str, Field(description="The file of the photo, in base64")]
NewId = Annotated[
    str,
    Field(
        description="Names the photo from now on, as holidays/beach.jpg does; one that has the "
        "name already is replaced",
        min_length=1,
    ),
]
Metadata = Annotated[Json, Field(description="What else is known of it, such as taken or tags")]
Ids = Annotated[list[str], Field(description="image_id of each photo, unchanged", min_length=1)]
# By the last part of a problem's type, or by the status of errors that have none.
ADVICE = {
    "unknown-image": "Take image_id from the hits of search or similar, exactly as it is there.",
    "unknown-backend": "Leave out backend to search the inverted index.",
    "photo-unreadable": "The photo cannot be shown; search, similar and explain work without it.",
    "photo-missing": "The photo cannot be shown; search, similar and explain work without it.",
    "401": "Ask the operator to set SPARTA_API_KEY to a key of this server.",
    "403": "Ask the operator for a key that allows this.",
    "429": "Wait, then try again with fewer calls.",
    "503": "Wait a few seconds, then try again.",
    "unreachable": "Ask the operator to start the server, or to correct its address.",
}
DIGITS = 3  # of a share, and of a box: a pixel of a thousand
SIDE = 1024  # pixels; models reduce larger pictures themselves
QUALITY = 85
INSTRUCTIONS = (
    "Finds photos of one collection by what they show. Search with plain words for things, people, "
    "colours, actions and places that can be seen; names of persons, dates and file names are not "
    "searched: dates, cameras, places and folders are conditions of a filter. A hit matches words "
    "of the query, which need not be its meaning: look at it with the tool image before you "
    "describe it."
)
IN_PROCESS = "http://127.0.0.1"  # the address by which requests to an application go; never opened


# What the tools answer: fields of the server's answers, without those an agent has no use for.


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DIGITS)


def _rounded_box(box: Box | None) -> Box | None:
    if box is None:
        return None
    x1, y1, x2, y2 = (round(side, DIGITS) for side in box)
    return x1, y1, x2, y2


class _Selected(BaseModel):
    """Made of the attributes of the same names by `model_validate`."""

    model_config = ConfigDict(from_attributes=True)


class Label(_Selected):
    """What a detector calls the object."""

    words: str


class Term(_Selected):
    """What one term of the query contributes to the score of a photo."""

    term: str = Field(description="As the index spells it; ## begins the rest of a longer word")
    word: str = Field(description="The word of the query it comes from, or is searched in place of")
    score: float = Field(description="0 if the photo does not match the term")


class PlacedTerm(Term):
    """What one term contributes, and where in the photo it is."""

    sign: str = Field(description="- if photos must not have the word, + if they must, else empty")
    box: Annotated[Box | None, AfterValidator(_rounded_box)] = Field(
        description="Where in the photo: x1, y1, x2, y2 relative to its width and height"
    )
    label: Label | None


class Hit(_Selected):
    """One photo."""

    image_id: str = Field(description="Names the photo in the other tools")
    score: float = Field(description="Comparable within one answer only")
    metadata: Json = Field(description="Width, height and what else the index stores")
    coverage: Annotated[float | None, AfterValidator(_rounded)] = Field(
        description="Share, 0 to 1, of the query that the photo fits; null for a dense model"
    )
    explanation: list[Term] | None = Field(
        description="The score term by term; null for a dense model"
    )


class Search(_Selected):
    """The photos that match a query best, the best first."""

    hits: list[Hit]
    unknown: list[str] = Field(
        description="Words that no photo is indexed under: use other words for them"
    )
    rare: list[str] = Field(
        description="Words that the model rarely saw in training: photos for them may be wrong"
    )
    corrections: list[CorrectionAnswer] = Field(
        description="Unknown words, and words of the index that are spelled like them"
    )
    substitutions: list[SubstitutionAnswer] = Field(
        description="Words that the index lacks, and the term searched in place of each"
    )
    conditions: list[ConditionAnswer] = Field(
        description="Words with a sign, and how many photos have each"
    )


class Similar(_Selected):
    """The photos most similar to one, the most similar first."""

    hits: list[Hit]
    terms: list[QueryTerm] = Field(description="Terms that describe the photo best, best first")


class Explanation(_Selected):
    """Why a photo has its score for a query."""

    score: float
    terms: list[PlacedTerm]
    coverage: Annotated[float | None, AfterValidator(_rounded)] = Field(
        description="Share, 0 to 1, of the query that the photo fits"
    )
    against: list[str] = Field(
        description="Words of the query, with their signs, for which searches leave the photo out"
    )


class Added(BaseModel):
    """A photo was added."""

    image_id: str = Field(description="Names the photo in the other tools")
    replaced: bool = Field(description="Whether another photo had the name, and is gone")


class Deleted(BaseModel):
    """Photos were deleted."""

    deleted: int
    missing: list[str] = Field(description="Names that no photo had")


class Tools:
    """The functions that agents call; their docstrings are what agents read about them."""

    def __init__(self, client: AsyncClient, write: bool = False) -> None:
        self._client, self._write = client, write

    def add_to(self, server: MCPServer) -> None:
        """Offer the tools on a server."""
        reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        for tool in (self.search, self.similar, self.explain, self.image):
            server.add_tool(tool, description=getdoc(tool), annotations=reads)
        if self._write:
            changes = ToolAnnotations(
                read_only_hint=False,
                destructive_hint=True,
                idempotent_hint=True,
                open_world_hint=False,
            )
            for change in (self.add, self.delete):
                server.add_tool(change, description=getdoc(change), annotations=changes)

    async def search(
        self, query: Query = "", k: Count = 10, backend: Backend = None, filter: Filter = None
    ) -> Search:
        """Find the photos that match a text best, the best first.

        With `filter` only photos whose metadata fulfil it; without `query` all of these.

        Every hit lists the terms of the query with their shares of its score. Words in
        `unknown` match no photo at all; search again with other words.
        Photos for words in `rare` may be wrong: the model rarely saw these words in training.
        """
        with actionable():
            found = await self._client.search(
                query, k, explain=True, backend=backend, filter=filter
            )
        return Search.model_validate(found)

    async def similar(
        self, image_id: ImageId, words: Words = "", k: Count = 10, backend: Backend = None
    ) -> Similar:
        """Find the photos most similar to a photo of the collection, the most similar first.

        With `words`, as "at night" or "-dog", photos like this one that fit the words as well.

        `terms` are those that describe the photo best, which is also a way to learn what it shows.
        """
        with actionable():
            found = await self._client.similar(
                image_id, k, words=words, explain=True, backend=backend
            )
        return Similar.model_validate(found)

    async def explain(self, query: Query, image_id: ImageId) -> Explanation:
        """Explain why a photo has its score for a text: each word, its share, and where it is.

        Works for any photo of the collection, whether or not a search for the text finds it.
        """
        with actionable():
            found = await self._client.explain(image_id, query)
        return Explanation.model_validate(found)

    async def image(self, image_id: ImageId) -> Image:
        """Look at a photo: a picture of at most 1024 pixels a side."""
        with actionable():
            photo = await self._client.get_photo(image_id)
        try:
            picture = await anyio.to_thread.run_sync(scaled_down, photo.content)
        except Exception as error:  # anything may come out of a damaged file
            reason = first_line(error) or type(error).__name__
            raise ToolError(
                f"The file of image {image_id!r} cannot be shown as a picture: {reason}. Search, "
                "similar and explain work without it."
            ) from error
        return Image(data=picture, format="jpeg")

    async def add(self, image_id: NewId, photo: Photo, metadata: Metadata = {}) -> Added:  # noqa: B006
        """Add a photo to the collection, where searches find it from now on."""
        try:
            content = b64decode(photo, validate=True)
        except ValueError as error:
            raise ToolError(f"photo is not base64: {error}. Send the whole file.") from error
        with actionable():
            done = await self._client.put_photo(image_id, content)
            if metadata:
                await self._client.update_image(image_id, metadata)
        return Added(image_id=image_id, replaced=done.result == "replaced")

    async def delete(self, image_ids: Ids) -> Deleted:
        """Delete photos from the collection; their files stay where they are."""
        with actionable():
            done = await self._client.delete_images(image_ids)
        return Deleted(deleted=done.deleted, missing=done.missing)


@contextmanager
def actionable() -> Iterator[None]:
    """Turn a failed request into the error of a tool, with what an agent can do about it.

    Raises:
        ToolError: if the request fails.
    """
    try:
        yield
    except ClientError as error:
        raise ToolError(f"{_reason(error)} {_advice(error)}".strip()) from error


def _reason(error: ClientError) -> str:
    text = (str(error) if error.problem is None else error.problem.detail).rstrip(".")
    return f"{text}."


def _advice(error: ClientError) -> str:
    if isinstance(error, NotSentError):
        return ""  # the reason says what to do
    if error.problem is None:
        return ADVICE["unreachable"]
    kind = error.problem.type.rpartition(":")[2]
    return ADVICE.get(kind) or ADVICE.get(str(error.status), "")


def scaled_down(content: bytes) -> bytes:
    """A JPEG of a photo whose longer side has at most `SIDE` pixels.

    Raises:
        Exception: whatever Pillow raises on files that are damaged or no photos.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "photo"
        path.write_bytes(content)
        image = small_picture(path, SIDE)
    out = BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def application_client(app: FastAPI) -> AsyncClient:
    """A client whose requests an application answers in this process, without a socket."""
    return AsyncClient(
        IN_PROCESS, transport=httpx.ASGITransport(in_process(app), raise_app_exceptions=False)
    )


def mcp_server(client: AsyncClient, app: FastAPI | None = None, write: bool = False) -> MCPServer:
    """A server with the tools.

    It closes `client` at the end. `app` is the application that the client asks, started and shut
    down with the server; None for a client of a server elsewhere. With `write` it offers tools that
    change the collection.
    """

    @asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncIterator[None]:
        async with client:
            if app is None:
                yield
            else:
                async with app.router.lifespan_context(app):
                    yield

    server = MCPServer(
        "visualsparta",
        title="VisualSparta photo search",
        instructions=INSTRUCTIONS,
        version=version("visualsparta"),
        lifespan=lifespan,
        log_level="WARNING",
    )
    Tools(client, write).add_to(server)
    return server


def serve_http(server: MCPServer, listening: socket.socket) -> None:
    """Serve streamable HTTP at the path /mcp of a listening socket of the loopback.

    Each request is answered by itself and with JSON, so that clients need no session. Requests
    whose Host or Origin is not the loopback's are refused: a web page could send them.
    """
    run(server.streamable_http_app(json_response=True, stateless_http=True), listening)
