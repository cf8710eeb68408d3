"""What the clients send, how they read answers, what they try again, and what they load."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import sparta
from server.backends import Backend
from server.client import transport
from server.schemas import HitAnswer, SearchAnswer
from sparta.errors import InputError
from tests.server.apps import make_key
from tests.server.client.conftest import Connect
from tests.server.fake import DRAWINGS, FakeDense, FakeSearcher
from tests.server.live import serving

LOCAL = "http://127.0.0.1:1"
OTHER = "not answer as a VisualSparta server"
LISTS = ("unknown", "rare", "corrections", "substitutions", "conditions")
WHERE = {"key": "a", "match": {"value": 1}}


@pytest.fixture(scope="module")
def address(photos: Path) -> Iterator[str]:
    searcher = FakeSearcher(rare=frozenset({"red"}))
    sparta = Backend("sparta", searcher, photos, ("red",))
    with serving(sparta, Backend("vse++", FakeDense(), photos)) as address:
        yield address


@pytest.fixture
def client(connect: Connect, address: str) -> Any:
    return connect(address + "/")


def pairs(hits: list[HitAnswer]) -> list[tuple[str, float]]:
    return [(hit.image_id, hit.score) for hit in hits]


def expected(result: Any) -> list[tuple[str, float]]:
    return [(hit.image_id, hit.score) for hit in result.hits]


# ---- answers of a server -----------------------------------------------------------------------


def test_searches(client: Any) -> None:
    answer = client.search("Azure red qwx", k=3, explain=True)
    assert pairs(answer.hits) == expected(FakeSearcher().search("Azure red qwx", 3))
    assert answer.hits[0].metadata == {"width": 240, "height": 320}
    assert (answer.backend, answer.unknown) == ("sparta", ["qwx"])
    assert [(one.word, one.term) for one in answer.substitutions] == [("Azure", "blue")]
    assert answer.rare == ["red"]
    for hit in answer.hits:
        terms = FakeSearcher().explain("Azure red qwx", hit.image_id).terms
        assert [(t.term, t.score, t.box) for t in hit.explanation] == [
            (term.term, term.score, term.box) for term in terms
        ]
    second = client.search("Azure red qwx", k=2, cursor=client.search("Azure red qwx", k=2).cursor)
    assert pairs(second.hits) == expected(FakeSearcher().search("Azure red qwx", 4))[2:]
    red, blue = client.search_several([{"q": "red", "k": 1}, {"q": "blue", "backend": "vse++"}])
    assert pairs(red.hits) == expected(FakeSearcher().search("red", 1))
    assert (blue.query, blue.backend) == ("blue", "vse++")


@pytest.mark.parametrize("image_id", DRAWINGS)
def test_an_image(client: Any, photos: Path, image_id: str) -> None:
    width, height = DRAWINGS[image_id].size
    assert client.get_image(image_id).metadata == {"width": width, "height": height}
    assert client.get_thumbnail(image_id, 512).media_type == "image/jpeg"
    photo = client.get_photo(image_id)
    assert photo.content == (photos / image_id).read_bytes()
    assert photo.media_type in ("image/png", "image/jpeg", "image/webp")
    explained = client.explain("red azure", image_id)
    assert explained.score == FakeSearcher().explain("red azure", image_id).score
    similar = client.similar([image_id, "garden/one.png"], k=2, words="blue -green")
    both = FakeSearcher().similar([image_id, "garden/one.png"], 2, words="blue -green")
    assert pairs(similar.hits) == expected(both)
    assert similar.also == ["garden/one.png"]


def test_what_a_server_has(client: Any) -> None:
    first, second = client.list_backends()
    assert (first.name, first.images, first.examples) == ("sparta", len(DRAWINGS), ["red"])
    assert (second.name, second.explains) == ("vse++", False)
    assert client.list_fields() == {}
    [found] = client.suggest("blue r", k=3)
    assert (found.text, found.word, found.images) == ("blue red", "red", 3)


def test_errors_are_the_server_s(client: Any) -> None:
    with pytest.raises(sparta.ClientError, match=r"answered 404, .*: image 'x\.jpg' is not") as e:
        client.get_photo("x.jpg")
    assert e.value.status == 404
    assert e.value.problem is not None and e.value.problem.field == "image_id"
    with pytest.raises(sparta.ClientError, match="k: input should be greater than") as e:
        client.search("red", k=0)
    assert e.value.status == 422


def test_a_server_that_goes_is_not_missed(connect: Connect, address: str) -> None:
    with serving(Backend("going", FakeSearcher())) as going:
        client = connect([going, address])
        assert [client.search("red").backend for _ in range(3)] == ["going", "sparta", "going"]
    assert [client.search("red").backend for _ in range(5)] == ["sparta"] * 5


def test_a_key_opens_a_server_that_has_keys(connect: Connect, tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.json")
    with serving(Backend("sparta", FakeSearcher()), keys=tmp_path / "keys.json") as address:
        assert connect(address, api_key=key).search("red").hits
        with pytest.raises(sparta.ClientError, match="this needs an API key") as error:
            connect(address).search("red")
    assert error.value.status == 401


# ---- requests ----------------------------------------------------------------------------------

BYTES = "application/octet-stream"
SENT: list[tuple[Callable[[Any], Any], str, Any]] = [
    (
        lambda c: c.search("red", substitute=False, min_coverage=0.6, facets=["a", "b:year"]),
        "GET /v1/search?q=red&k=10&explain=false&substitute=false&min_coverage=0.6"
        "&facets=a%2Cb%3Ayear",
        "",
    ),
    (
        lambda c: c.search(backend="x", filter="a:1", offset=3, sort="-a", cursor="c"),
        "GET /v1/search?k=10&explain=false&substitute=true&backend=x&offset=3&cursor=c&sort=-a"
        "&filter=a%3A1",
        "",
    ),
    (
        lambda c: c.search("red", filter=WHERE, facets=["a"]),
        "POST /v1/search",
        {
            "q": "red",
            "k": 10,
            "explain": False,
            "substitute": True,
            "filter": WHERE,
            "facets": ["a"],
        },
    ),
    (lambda c: c.count("a:1"), "POST /v1/images/count", {"filter": "a:1", "backend": None}),
    (
        lambda c: c.similar("a", filter="a:1", explain=True, backend="x"),
        "GET /v1/images/a/similar?q=&k=10&explain=true&backend=x&filter=a%3A1",
        "",
    ),
    (
        lambda c: c.similar_to_photo(b"photo", 3, filter="a:1"),
        "POST /v1/images/similar?k=3&explain=false&filter=a%3A1",
        f"{BYTES}: photo",
    ),
    (
        lambda c: c.get_thumbnail("sea/a b", backend="x"),
        "GET /v1/images/sea/a%20b/thumbnail?size=256&backend=x",
        "",
    ),
    (
        lambda c: c.put_photo("a", b"photo", refresh="none"),
        "PUT /v1/images/a?refresh=none",
        f"{BYTES}: photo",
    ),
    (
        lambda c: c.put_image("a", terms={"dog": 2}, metadata={"x": 1}),
        "PUT /v1/images/a?refresh=wait",
        {"terms": {"dog": 2}, "metadata": {"x": 1}},
    ),
    (
        lambda c: c.update_image("a", {"x": 1, "y": None}),
        "PATCH /v1/images/a?refresh=wait",
        {"x": 1, "y": None},
    ),
    (lambda c: c.delete_image("a"), "DELETE /v1/images/a?refresh=wait", ""),
    (lambda c: c.delete_images(["a"]), "POST /v1/images/delete?refresh=wait", {"ids": ["a"]}),
    (
        lambda c: c.delete_images(filter=WHERE),
        "POST /v1/images/delete?refresh=wait",
        {"filter": WHERE},
    ),
    (
        lambda c: c.write_batch([{"image_id": "a"}, {"image_id": "b"}]),
        "POST /v1/images/batch?refresh=wait",
        'application/x-ndjson: {"image_id": "a"}\n{"image_id": "b"}\n',
    ),
]


@pytest.mark.parametrize(("ask", "target", "body"), SENT)
def test_what_is_sent(
    connect: Connect, ask: Callable[[Any], Any], target: str, body: dict[str, Any] | str
) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(500)

    with pytest.raises(sparta.ClientError):
        ask(connect("http://a", answer, api_key="vs_0-z"))
    [request] = sent
    assert f"{request.method} {request.url.raw_path.decode()}" == target
    assert request.headers["Authorization"] == "Bearer vs_0-z"
    media_type, content = request.headers.get("content-type", ""), request.content.decode()
    if isinstance(body, str):
        assert body == (f"{media_type}: {content}" if content else "")
    else:
        assert (media_type, json.loads(content)) == ("application/json", body)


@pytest.mark.parametrize("image_id", ["trash/../a.jpg", "./a.jpg", "/a.jpg", "a//b.jpg", "a/", ""])
def test_an_id_that_would_reach_another_image_is_not_sent(connect: Connect, image_id: str) -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    client = connect(LOCAL, never)
    for ask in (
        lambda: client.get_image(image_id),
        lambda: client.get_photo(image_id),
        lambda: client.get_thumbnail(image_id),
        lambda: client.similar(image_id),
        lambda: client.explain("red", image_id),
        lambda: client.put_photo(image_id, b"photo"),
        lambda: client.put_image(image_id, terms={"red": 1.0}),
        lambda: client.update_image(image_id, {"album": "Crete"}),
        lambda: client.delete_image(image_id),
    ):
        with pytest.raises(sparta.ClientError, match="nothing was sent"):
            ask()


# ---- other answers -----------------------------------------------------------------------------


def test_answers_to_writes(connect: Connect) -> None:
    batch = {"created": 1, "errors": [{"line": 2, "image_id": None, "detail": "no JSON"}]}
    answers = {
        "/v1/images/a": {"image_id": "a", "result": "deleted", "index_version": "7.1"},
        "/v1/images/delete": {"deleted": 1, "missing": ["b"]},
        "/v1/images/batch": batch,
        "/v1/images/similar": {
            **{"backend": "sparta", "index_version": "7", "terms": [{"term": "dog", "count": 3}]},
            **{name: [] for name in LISTS},
            "hits": [],
            "timings": {"tokenise_ms": 0, "encode_ms": 0, "search_ms": 1, "total_ms": 1},
        },
    }
    client = connect(LOCAL, lambda request: httpx.Response(200, json=answers[request.url.path]))
    assert client.put_photo("a", b"photo").result == "deleted"
    assert client.delete_image("a").index_version == "7.1"
    assert client.delete_images(["a", "b"]).missing == ["b"]
    assert client.write_batch([{"image_id": "a", "delete": True}]).errors[0].line == 2
    assert client.similar_to_photo(b"photo").terms[0].term == "dog"


def test_answers_of_other_programs(connect: Connect) -> None:
    problem = {"Content-Type": "application/problem+json"}
    answers = {
        "/v1/backends": httpx.Response(200, html="<p>Hello"),
        "/v1/images/a.jpg": httpx.Response(502, html="<p>Bad gateway"),
        "/v1/images/a.jpg/file": httpx.Response(200, html="<p>Hello"),
        "/v1/search": httpx.Response(400, content=b"{}", headers=problem),
        "/v1/images/a.jpg/similar": httpx.Response(302, headers={"Location": "/login"}),
    }
    client = connect(LOCAL, lambda request: answers[request.url.path])
    for ask, message, kind in (
        (client.list_backends, OTHER, None),
        (lambda: client.get_photo("a.jpg"), OTHER, None),
        (lambda: client.similar("a.jpg"), OTHER, None),
        (lambda: client.get_image("a.jpg"), "answered 502, Bad Gateway: the answer has no", ""),
        (lambda: client.search("red"), "answered 400, Bad Request", "about:blank"),
    ):
        with pytest.raises(sparta.ClientError, match=message) as e:
            ask()
        assert (e.value.problem is None) == (kind is None)
        assert not kind or (e.value.problem is not None and e.value.problem.type == kind)


# ---- the clients themselves --------------------------------------------------------------------


def test_both_clients_have_the_same_documented_methods() -> None:
    methods = [name for name in vars(sparta.Client) if not name.startswith("_")]
    methods.remove("close")
    assert len(methods) == 18
    for name in methods:
        waiting, awaited = getattr(sparta.Client, name), getattr(sparta.AsyncClient, name)
        assert inspect.signature(waiting) == inspect.signature(awaited)
        assert inspect.getdoc(waiting) == inspect.getdoc(awaited)
        assert waiting.__doc__ and inspect.iscoroutinefunction(awaited)
    signature = inspect.signature(sparta.Client(LOCAL).search)
    assert [*signature.parameters][:2] == ["query", "k"]
    assert signature.return_annotation is SearchAnswer


@pytest.mark.parametrize("key", ["", "two words", "line\n", "schlüssel", "tab\t"])
def test_a_key_that_no_header_can_contain_is_not_shown(key: str) -> None:
    with pytest.raises(InputError, match="the API key has spaces") as error:
        sparta.Client(LOCAL, api_key=key)
    assert not key or key not in str(error.value)


def test_addresses_are_those_of_servers() -> None:
    for address in ("127.0.0.1:8000", "ftp://a.example", "http://", "index", "http://a?q=1"):
        with pytest.raises(InputError, match="not the address of a server; give one like http://"):
            sparta.Client(address)
    with pytest.raises(InputError, match="at least one server"):
        sparta.AsyncClient([])


def test_importing_a_client_loads_neither_server_nor_index() -> None:
    heavy = ["numpy", "fastapi", "starlette", "uvicorn", "PIL", "indexer", "pyarrow", "torch"]
    program = f"""
import sys, sparta
sparta.Client, sparta.AsyncClient, sparta.ClientError
print(*[name for name in {heavy} if name in sys.modules])
print(*sorted(name for name in sys.modules if name.startswith("server.") and name.count(".") == 1))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["", "server.client server.schemas"]


A, B = "http://a.example", "http://b.example/photos"
Answer = Callable[[], httpx.Response]


def fine() -> httpx.Response:
    return httpx.Response(200, json={"backends": []})


def refused() -> httpx.Response:
    raise httpx.ConnectError("no route")


def late() -> httpx.Response:
    raise httpx.ReadTimeout("")


def busy(status: int = 503, retry_after: str | None = None) -> Answer:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda: httpx.Response(status, headers=headers)


class Clock:
    """A clock that stands still but for pauses, which it records."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        if seconds:
            self.pauses.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transport, "monotonic", lambda: clock.now)
    monkeypatch.setattr("time.sleep", clock.sleep)
    monkeypatch.setattr(anyio, "sleep", clock.asleep)
    return clock


class Script:
    """Answers requests from a list, the last one for ever; records which host was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host[0])
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()


def failure(client: Any, message: str) -> sparta.ClientError:
    with pytest.raises(sparta.ClientError, match=message) as error:
        client.list_backends()
    return error.value


def test_pauses_double_and_are_drawn_at_random(connect: Connect, clock: Clock) -> None:
    script = Script(busy(), busy(429), refused, late, busy(), fine)
    assert connect(A, script).list_backends() == []
    assert len(script.asked) == 6
    bounds = [0.25, 0.5, 1, 2, 4]
    assert all(b / 2 <= p <= b for p, b in zip(clock.pauses, bounds, strict=True))
    assert len({p / b for p, b in zip(clock.pauses, bounds, strict=True)}) == 5


def test_the_number_of_attempts_is_bounded(connect: Connect, clock: Clock) -> None:
    script = Script(busy(retry_after="1"))
    error = failure(connect(A, script, retries=2), r"answered 503, .*\(Retry-After: 1\)")
    assert (error.status, len(script.asked)) == (503, 3)
    error = failure(connect(A, Script(refused), retries=0), r"^http://a\.example does not answer:")
    assert error.status is None


def test_retry_after_is_the_least_pause(connect: Connect, clock: Clock) -> None:
    connect(A, Script(busy(429, retry_after="7"), busy(retry_after="soon"), fine)).list_backends()
    assert 7 < clock.pauses[0] < 7.5
    assert clock.pauses[1] <= 0.5


@pytest.mark.parametrize(
    ("status", "later"),
    [(status, None) for status in (400, 401, 403, 404, 422, 500, 502)] + [(429, "300")],
)
def test_other_errors_and_long_pauses_are_left_to_the_caller(
    connect: Connect, clock: Clock, status: int, later: str | None
) -> None:
    script = Script(busy(status, later))
    failure(connect(A, script), f"answered {status}.*{later or ''}")
    assert script.asked == ["a"] and clock.pauses == []


def test_servers_take_turns_and_keep_their_paths(connect: Connect) -> None:
    paths = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append(str(request.url))
        return fine()

    client = connect([A, B + "/"], handler)
    for _ in range(3):
        client.list_backends()
    assert paths == [f"{A}/v1/backends", f"{B}/v1/backends", f"{A}/v1/backends"]


def test_another_server_is_asked_at_once_and_the_failed_one_rests(
    connect: Connect, clock: Clock
) -> None:
    script = Script(refused, fine)
    client = connect([A, B], script)
    for _ in range(3):
        client.list_backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert clock.pauses == []
    clock.now += transport.REST
    script.asked.clear()
    for _ in range(2):
        client.list_backends()
    assert sorted(script.asked) == ["a", "b"]


def test_when_all_fail_the_one_that_is_back_first_is_asked(connect: Connect, clock: Clock) -> None:
    script = Script(busy(retry_after="20"), busy(retry_after="10"), busy(), fine)
    connect([A, B], script).list_backends()
    assert script.asked == ["a", "b", "b", "b"]
    assert 10 < clock.pauses[0] < 10.25 and clock.pauses[1] <= 0.5


def test_a_date_is_a_retry_after_too() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60))
    assert transport.retry_after(busy(retry_after=soon)()) == pytest.approx(60, abs=5)
    assert transport.retry_after(busy(retry_after=past)()) == 0
    assert transport.retry_after(busy()()) is None
