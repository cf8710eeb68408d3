"""One contract: each operation gives the same answer over REST, both clients and the MCP tools.

A `Case` names an operation of the clients with its arguments, and a part of the answer as JSON.
What clients return must equal the answer over REST, field by field; tools select fields of it.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp
import pytest
from mcp.types import ImageContent, TextContent
from PIL import Image
from pydantic import TypeAdapter

import sparta
from indexer import answer
from server import mcp as tools
from server import schemas
from server.app import create_app
from server.backends import Backend, open_backends
from server.client.answers import SearchAnswer
from server.client.client import AsyncClient, Client
from server.client.operations import Operation, Operations, described
from server.mcp import mcp_server
from server.writing.forward import Forwarder
from server.writing.process import writer_process
from tests.server.apps import connected, make_key, running, serving, settings
from tests.server.drawings import index_drawings
from tests.server.fake import DRAWINGS, FakeDense, FakeSearcher

CLIENTS = ["Client", "AsyncClient"]
SURFACES = ["REST", *CLIENTS, "MCP"]
OPERATIONS = {name: one for name, one in vars(Operations).items() if isinstance(one, described)}


@dataclass(frozen=True)
class Case:
    """An operation and its answer.

    Attributes:
        name: of the operation.
        arguments: by place.
        options: by name.
        expected: a part of the answer, or of the problem, which has a "detail".
        tool: name and arguments of the tool; None if there is none.
        part: the field of the answer that clients return alone.
    """

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    expected: dict[str, Any]
    tool: tuple[str, dict[str, Any]] | None = None
    part: str | None = None

    def call(self, client: Any) -> Any:
        return getattr(client, self.name)(*self.arguments, **self.options)

    @property
    def operation(self) -> Operation[Any]:
        return OPERATIONS[self.name].describe(Operations(), *self.arguments, **self.options)


ONE = "garden/one.png"
WHERE = {"key": "a", "match": {"value": 1}}
EXPLAIN = {"explain": True}
DENSE = {"backend": "vse++"}
READS = [
    Case(
        "search",
        ("red azure red qwx", 1),
        EXPLAIN,
        {
            "query": "red azure red qwx",
            "hits": [
                {
                    "rank": 1,
                    "image_id": "garden/two.jpg",
                    "score": 450,
                    "metadata": {"width": 240, "height": 320},
                    "url": "/v1/images/garden/two.jpg/file",
                    "coverage": 0.75,  # the unknown word weighs as much as the mean of the others
                    "explanation": [
                        {"term": "red", "word": "red", "count": 2, "score": 240},
                        {"term": "blue", "word": "azure", "similarity": 0.75, "score": 210},
                    ],
                }
            ],
            "unknown": ["qwx"],
            "rare": ["red"],
            "substitutions": [{"word": "azure", "term": "blue", "similarity": 0.75}],
            "timings": {"tokenise_ms": 0.25, "encode_ms": 0, "search_ms": 1, "total_ms": 1.25},
        },
        tool=("search", {"query": "red azure red qwx", "k": 1}),
    ),
    Case(
        "search",
        ("blue^2 -green",),
        {"backend": "sparta", "offset": 1, "min_coverage": 0.5},
        {
            "hits": [{"rank": 2, "coverage": 1, "score": 302}, {}],
            "conditions": [{"word": "green", "sign": "-", "images": 1}],
        },
    ),
    Case(
        "search",
        ("gren red", 1),
        DENSE | EXPLAIN,
        DENSE | {"hits": [{"image_id": ONE, "explanation": None, "view": 0}], "rare": []},
        tool=("search", DENSE | {"query": "gren red", "k": 1}),
    ),
    Case(
        "search",
        ("azure gren",),
        {"substitute": False},
        {"hits": [], "corrections": [{"word": "gren", "words": ["green"]}]},
    ),
    Case(
        "search_several",
        ([{"q": "red", "k": 1}, {"q": "blue", **DENSE}],),
        {},
        {"answers": [{"hits": [{"score": 200}]}, {"query": "blue", **DENSE}]},
        part="answers",
    ),
    Case(
        "suggest",
        ("blue r",),
        {"k": 3},
        {"suggestions": [{"text": "blue red", "word": "red", "images": 3}]},
        part="suggestions",
    ),
    Case(
        "similar",
        (ONE,),
        EXPLAIN | {"words": "blue -green"},
        {
            "hits": [{"image_id": "garden/two.jpg"}, {}, {}, {}],
            "terms": [{"term": "blue"}, {"term": "red"}, {}],
        },
        tool=("similar", {"image_id": ONE, "words": "blue -green"}),
    ),
    Case(
        "similar",
        ([ONE, "sea/a b.webp"], 2),
        DENSE,
        DENSE
        | {"also": ["sea/a b.webp"], "terms": []}
        | {"url": f"/v1/images/{ONE}/file?backend=vse%2B%2B"},
    ),
    Case(
        "explain",
        (ONE, "green azure -red"),
        {},
        {
            "score": 90,
            "terms": [
                {"term": "green", "score": 90, "box": [0, 0, 1, 1], "label": {"token": "green"}},
                {"term": "blue", "word": "azure", "score": 0, "box": None, "label": None},
                {"term": "red", "sign": "-"},
            ],
            "against": ["-red"],
        },
        tool=("explain", {"query": "green azure -red", "image_id": ONE}),
    ),
    Case("explain", ("sea/a b.webp", "azure"), {"substitute": False}, {"score": 0}),
    Case("get_image", ("sea/100% #1?&+;=.png",), {}, {"metadata": {"width": 300, "height": 300}}),
    Case(
        "backends",
        (),
        {},
        {
            "backends": [
                {"name": "sparta", "default": True, "images": 5, "examples": ["red"]},
                {"name": "vse++", "default": False, "explains": False, "photos": True},
            ]
        },
        part="backends",
    ),
]
GONE = {"status": 404, "field": "image_id", "detail": "image 'x.jpg' is not in the index"}
NO_FIELDS = {"status": 422, "field": "filter", "detail": "filter: the images have no fields"}
NO_CURSOR = "cursor: this is none; give the one of an answer unchanged"
EMPTY = "q: the query is empty; give at least one word, or a filter, an order or facets"
NO_CLIP = "backend 'clip' is unknown; this server has: sparta, vse++"
NOT_EXPLAINED = "backend: the dense engine cannot explain scores; search sparta"
READS += [
    Case("get_image", ("x.jpg",), {}, GONE, tool=("image", {"image_id": "x.jpg"})),
    Case("get_photo", ("x.jpg",), {}, GONE),
    Case("get_thumbnail", (ONE, 9), {}, {"field": "size", "status": 422}),
    Case("similar", ("x.jpg",), {}, GONE, tool=("similar", {"image_id": "x.jpg"})),
    Case("similar", ([ONE, "x.jpg"],), {}, GONE),
    Case("explain", (ONE, "red"), DENSE, {"field": "backend", "detail": NOT_EXPLAINED}),
    Case(
        "search",
        ("red",),
        {"backend": "clip"},
        {"status": 404, "detail": NO_CLIP},
        tool=("search", {"query": "red", "backend": "clip"}),
    ),
    Case(
        "search",
        ("red",),
        {"filter": "a:1"},
        NO_FIELDS,
        tool=("search", {"query": "red", "filter": "a:1"}),
    ),
    Case("search", ("red",), {"filter": WHERE}, NO_FIELDS),
    Case("search", ("red",), {"cursor": "x"}, {"field": "cursor", "detail": NO_CURSOR}),
    Case("search", (" ",), {}, {"field": "q", "detail": EMPTY}, tool=("search", {"query": " "})),
]
NO_PHOTO = {
    "status": 422,
    "detail": "the photo cannot be used: not an image, or of an unknown format",
}
# In this order, on one index, which has as many images at the end as before.
WRITES = [
    Case(
        "put_image",
        ("a",),
        {"terms": {"red": 9}, "metadata": {"n": 1}},
        {"image_id": "a", "result": "created"},
    ),
    Case(
        "put_image",
        ("a",),
        {"terms": {"green": 9}, "refresh": "none"},
        {"result": "replaced", "index_version": None},
    ),
    Case(
        "update_image",
        ("a", {"camera": "x", "n": None}),
        {},
        {"result": "updated", "metadata": {"camera": "x", "upload": ""}},
    ),
    Case("count", ("camera:x",), {"backend": "sparta"}, {"count": 1}, part="count"),
    Case("count", (), {}, {"count": 6}, part="count"),
    Case("fields", (), {}, {"fields": {"camera": "keyword"}}, part="fields"),
    Case(
        "search",
        (),
        {"filter": "camera:x", "facets": ["camera", "path"], "sort": "-camera"},
        {"total": 1, "facets": {"camera": [{"value": "x", "count": 1}], "path": [{}]}},
    ),
    Case(
        "search",
        (),
        {"filter": {"key": "camera", "match": {"value": "x"}}, "facets": ["camera"]},
        {"hits": [{"image_id": "a", "score": 0}]},
        tool=("search", {"filter": "camera:x"}),
    ),
    Case(
        "write_batch",
        ([{"image_id": "b", "terms": {"blue": 1}}, {"image_id": "c", "delete": True}],),
        {},
        {"created": 1, "errors": [{"line": 2, "image_id": "c"}]},
    ),
    Case(
        "delete_images",
        (["b", "no"],),
        {},
        {"deleted": 1, "missing": ["no"]},
        tool=("delete", {"image_ids": ["b", "no"]}),
    ),
    Case("delete_images", (), {"filter": "camera:x"}, {"deleted": 1, "missing": []}),
    Case("delete_image", ("a",), {}, {"detail": "image 'a' is not in the index"}),
    Case(
        "put_photo",
        ("a", b"photo"),
        {},
        NO_PHOTO,
        tool=("add", {"image_id": "a", "photo": base64.b64encode(b"photo").decode()}),
    ),
    Case("similar_to_photo", (b"photo", 3), {"filter": "camera:x"}, NO_PHOTO),
]


@dataclass
class Surfaces:
    """The surfaces of one server: its address, a key for writing, and clients by their classes."""

    address: str
    key: str | None
    clients: dict[str, Any] = field(default_factory=dict)

    def ask(self, surface: str, case: Case) -> dict[str, Any]:
        """The answer as JSON; over REST if there is no such tool."""
        if surface in CLIENTS:
            return self.client(surface, case)
        return self.rest(case) if surface == "REST" or case.tool is None else self.tool(case)

    def rest(self, case: Case) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with httpx.Client(headers=headers, timeout=60) as client:
            found: dict[str, Any] = client.send(case.operation.request(client, self.address)).json()
        return found

    def client(self, surface: str, case: Case) -> dict[str, Any]:
        try:
            found = case.call(self.clients[surface])
        except sparta.ClientError as error:
            assert error.problem is not None and error.problem.detail in str(error)
            return error.problem.model_dump(exclude_none=True)
        whole = found.as_json() if isinstance(found, answer.Answer) else found
        shown = TypeAdapter(Any).dump_python(whole, mode="json")
        return {case.part: shown} if case.part else shown

    def tool(self, case: Case) -> dict[str, Any]:
        assert case.tool is not None
        result = self.call(*case.tool)
        if not result.is_error:
            found: dict[str, Any] = result.structured_content
            return found
        [content] = result.content
        assert isinstance(content, TextContent)
        return {"detail": content.text.removeprefix(f"Error executing tool {case.tool[0]}: ")}

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool."""

        async def run() -> Any:
            client = AsyncClient(self.address, api_key=self.key)
            async with mcp.Client(mcp_server(client, write=True)) as session:
                return await session.call_tool(name, arguments)

        return anyio.run(run)


def surfaces_of(address: str, key: str | None = None) -> Iterator[Surfaces]:
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(kind, address, api_key=key)) for kind in CLIENTS]
        yield Surfaces(address, key, dict(zip(CLIENTS, opened, strict=True)))


@pytest.fixture(scope="module")
def reading(photos: Path) -> Iterator[Surfaces]:
    """A server of the drawings, and of a dense model of them."""
    sparta = Backend("sparta", FakeSearcher(rare=frozenset({"red"})), photos, ("red",))
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield from surfaces_of(address)


@pytest.fixture(scope="module")
def writing(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    """A server of an index on disk, with the process that writes to it."""
    folder = tmp_path_factory.mktemp("writing")
    index_drawings(folder / "index", photos)
    key = make_key(folder / "keys.json", "write")
    chosen = settings(index=folder / "index", keys=folder / "keys.json", rate=0)
    opened = partial(open_backends, chosen)
    with writer_process(chosen) as writer:
        app = create_app(opened(), chosen, reopen=opened, forwarder=Forwarder(writer))
        with running(app) as address:
            yield from surfaces_of(address, key)


def shared(one: Any, other: Any) -> Any:
    """One, without the fields that the other lacks."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: shared(one[name], other[name]) for name in one if name in other}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [shared(*pair) for pair in zip(one, other, strict=True)]
    return one


def check(case: Case, surface: str, found: dict[str, Any]) -> None:
    """Compare an answer with the expected part; tools show some of its fields alone."""
    wanted = case.expected
    if surface == "MCP" and case.tool is not None:
        if "detail" in found:  # and what an agent can do about it
            assert found["detail"].startswith(f"{wanted['detail']}.") or wanted["detail"] == EMPTY
            return
        wanted = shared(wanted, found)
    assert wanted and shared(found, wanted) == wanted


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("case", READS, ids=lambda case: f"{case.name} {case.arguments}")
def test_reading(reading: Surfaces, surface: str, case: Case) -> None:
    found = reading.ask(surface, case)
    check(case, surface, found)
    if surface in CLIENTS:
        whole = without_times(reading.rest(case))
        sent = {case.part: whole[case.part]} if case.part else whole
        assert without_times(shared(found, sent)) == sent  # other fields have their defaults


def without_times(found: Any) -> Any:
    """Without times that are measured anew."""
    if isinstance(found, dict):
        return {k: without_times(v) for k, v in found.items() if not k.endswith("_ms")}
    return list(map(without_times, found)) if isinstance(found, list) else found


@pytest.mark.parametrize("surface", SURFACES)
def test_writing(writing: Surfaces, surface: str) -> None:
    for case in WRITES:
        check(case, surface, writing.ask(surface, case))


@pytest.mark.parametrize("image_id", DRAWINGS)
def test_photos(reading: Surfaces, photos: Path, image_id: str) -> None:
    content = (photos / image_id).read_bytes()
    for client in reading.clients.values():
        photo, small = client.get_photo(image_id), client.get_thumbnail(image_id, 512)
        assert (photo.content, small.media_type) == (content, "image/jpeg")
        assert photo.media_type in ("image/png", "image/jpeg", "image/webp")
    [looked] = reading.call("image", {"image_id": image_id}).content
    assert isinstance(looked, ImageContent)
    with Image.open(BytesIO(base64.b64decode(looked.data))) as picture:
        assert (picture.format, picture.size) == ("JPEG", DRAWINGS[image_id].size)


# Of browsers, of operators, and of what watches a server: clients need not have them.
APART = {"list_keys", "get_session", "sign_in", "sign_out", "livez", "readyz"}


def test_every_operation_has_a_case(reading: Surfaces) -> None:
    """Every method of the clients, and every documented endpoint but those of `APART`."""
    cases = [*READS, *WRITES]
    assert {case.name for case in cases} == OPERATIONS.keys()
    document = httpx.get(f"{reading.address}/openapi.json", timeout=60).json()
    for path, methods in document["paths"].items():
        matches: Callable[[str], Any] = re.compile(path.replace("{image_id}", ".+")).fullmatch
        for method, documented in methods.items():
            asked = [one for one in (case.operation for case in cases) if matches(one.path)]
            known = any(one.method == method.upper() for one in asked)
            assert known or documented["operationId"] in APART, path


def test_both_clients_have_the_same_documented_methods() -> None:
    for name in OPERATIONS:
        waiting, awaited = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.signature(waiting) == inspect.signature(awaited)
        assert waiting.__doc__ == awaited.__doc__ and "ClientError" in waiting.__doc__
        assert inspect.iscoroutinefunction(awaited)
    signature = inspect.signature(Client("http://127.0.0.1:1").search)
    assert [*signature.parameters][:2] == ["query", "k"]
    assert signature.return_annotation is SearchAnswer


ABOUT = {"query", "backend", "index_version"}
# Shapes of answers: the searcher's own, the documented one, and the fields that REST adds.
SHAPES: list[tuple[Any, Any, set[str]]] = [
    (answer.Answer, schemas.SearchAnswer, {*ABOUT, "cursor", "partial"}),
    (answer.Explanation, schemas.ExplanationAnswer, {*ABOUT, "url"}),
    (answer.Hit, schemas.HitAnswer, {"url"}),
    (answer.TermExplanation, schemas.TermAnswer, set()),
    (answer.Timings, schemas.TimingsAnswer, set()),
    (answer.Substitution, schemas.SubstitutionAnswer, set()),
    (answer.Correction, schemas.CorrectionAnswer, set()),
    (answer.Condition, schemas.ConditionAnswer, set()),
    (answer.QueryTerm, schemas.QueryTerm, set()),
    (answer.Bucket, schemas.BucketAnswer, set()),
]
SELECTED: list[tuple[Any, Any]] = [  # by tools
    (tools.Hit, answer.Hit),
    (tools.PlacedTerm, answer.TermExplanation),
    (tools.Search, answer.Answer),
    (tools.Similar, answer.Answer),
    (tools.Explanation, answer.Explanation),
]


def test_an_answer_is_defined_once() -> None:
    """REST and `--json` show the searcher's own fields by their names, and tools select some."""
    for own, shown, added in SHAPES:
        whole = {one.name for one in fields(own)} - set(answer.INTERNAL)
        assert whole | added == set(shown.model_fields)
    for selected, own in SELECTED:
        assert set(selected.model_fields) <= {one.name for one in fields(own)}
    found = FakeSearcher().search("red azure qwx", 2).as_json()
    assert set(found) == set(schemas.SearchAnswer.model_fields) - SHAPES[0][2]
    assert set(found["hits"][0]) == set(schemas.HitAnswer.model_fields) - {"url"}
