"""What a server has and who asks: backends, fields, words, counts, health, keys and sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from indexer.search.engine import Capability
from server import schemas
from server.backends import backends_of
from server.monitoring.metrics import Metrics
from server.problems import PROBLEM, ProblemError, responses
from server.requests import KNOWN_PARAMETERS, JsonRoute, Named
from server.routes import common
from server.security.access import key_needed, requires
from server.security.callers import COOKIE, Caller, is_of_another_origin
from server.security.keys import ALLOWS, BadKeyError, Key, KeyRing
from sparta.json_values import Json

MOST = 50  # suggestions
MAX_AGE = 30 * 24 * 3600  # seconds that a browser is signed in
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(route_class=JsonRoute)


@router.get("/v1/backends", dependencies=[KNOWN_PARAMETERS], summary="List the backends")
def list_backends(request: Request) -> schemas.BackendList:
    """Every backend with its number of images and example queries, the default backend first.

    Of an index that is written to, a dense model may lack vectors of some images, which it does not
    find then.
    """
    backends = backends_of(request)
    return schemas.BackendList(
        backends=[
            schemas.BackendInfo(
                name=backend.name,
                default=backend is backends.default,
                images=len(backend.searcher),
                missing_images=backend.searcher.missing_images,
                photos=backend.has_photos,
                explains=Capability.EXPLAIN in backend.searcher.can,
                examples=list(backend.examples),
            )
            for backend in backends
        ]
    )


@router.get(
    "/v1/fields",
    dependencies=[KNOWN_PARAMETERS],
    summary="List the fields of the photos",
    response_model=schemas.FieldsAnswer,
    responses=responses("unknown-backend", "overloaded"),
)
async def list_fields(request: Request, backend: common.BackendParameter) -> Response:
    """The fields of the photos' metadata that filters may name, with their kinds."""
    version = backends_of(request).version

    def answer() -> schemas.FieldsAnswer:
        kinds = {name: str(kind) for name, kind in backend.searcher.kinds().items()}
        return schemas.FieldsAnswer(backend=backend.name, index_version=version, fields=kinds)

    return await common.in_thread(request, lambda _: common.json_response(answer()))


@router.get(
    "/v1/suggest",
    dependencies=[KNOWN_PARAMETERS],
    summary="Complete a query",
    response_model=schemas.SuggestAnswer,
    responses=responses("invalid-parameter", "overloaded"),
)
async def suggest(
    request: Request,
    q: Annotated[
        str, Query(max_length=common.MAX_QUERY_LENGTH, description="A query as far as it is typed")
    ],
    k: Annotated[int, Query(ge=1, le=MOST, description="Largest number of suggestions")] = 10,
) -> Response:
    """Queries whose last word is completed to words that the index holds.

    Those in the most photos come first. If no word begins like the last one, the words nearest to
    it are suggested. There are none after a space.
    """
    backends = backends_of(request)

    def answer() -> schemas.SuggestAnswer:
        found = backends.default.searcher.complete(q, k)
        suggestions = [schemas.SuggestionAnswer(**one._asdict()) for one in found]
        version = backends.version
        return schemas.SuggestAnswer(query=q, index_version=version, suggestions=suggestions)

    return await common.in_thread(request, lambda _: common.json_response(answer()))


class CountBody(Named):
    """What is counted."""

    filter: Annotated[str | Json | None, Query(description=common.FILTER)] = None
    backend: common.BackendName = None


@router.post(
    "/v1/images/count",
    dependencies=[KNOWN_PARAMETERS],
    summary="Count the images that a filter lets through",
    operation_id="count_images",
    response_model=schemas.CountAnswer,
    responses={
        400: {"description": "The body is not JSON", "content": PROBLEM},
        **responses("invalid-parameter", "unknown-backend", "overloaded"),
    },
)
async def count_images(request: Request, asked: CountBody) -> Response:
    """The number of images that a filter lets through; without a filter, of all."""
    backends = backends_of(request)
    backend = backends.get(asked.backend)

    def answer() -> schemas.CountAnswer:
        count = backend.searcher.count(common.read(asked.filter))
        version = backends.version
        return schemas.CountAnswer(backend=backend.name, index_version=version, count=count)

    return await common.in_thread(request, lambda _: common.json_response(answer()))


@router.get("/livez", summary="Check that the server answers")
async def livez() -> schemas.Health:
    """A server that does not answer this must be started again."""
    return schemas.Health(status="ok")


@router.get(
    "/readyz", summary="Check that the server takes requests", responses=responses("stopping")
)
async def readyz(request: Request) -> schemas.Health:
    """A process accepts connections when its index is open and warm, and is ready until it stops.

    While it stops, it answers what it is asked, but should not be asked anything new.
    """
    if request.app.state.stopping:
        raise ProblemError("stopping", "the server is stopping; ask another one")
    return schemas.Health(status="ready")


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """The metrics of all processes, for Prometheus."""
    found: Metrics = request.app.state.metrics
    return Response(found.text(), media_type=METRICS_TYPE)


@router.get(
    "/v1/keys", summary="List the API keys", dependencies=[requires("admin"), KNOWN_PARAMETERS]
)
async def list_keys(request: Request) -> schemas.KeyList:
    """Every key that the server accepts, expired ones included, with a key of scope admin."""
    ring: KeyRing = request.app.state.keys
    return schemas.KeyList(keys=[schemas.KeyInfo.model_validate(key) for key in ring])


@router.get("/v1/session", dependencies=[KNOWN_PARAMETERS], summary="Show who sends the requests")
async def get_session(request: Request) -> schemas.Session:
    """The key that was sent, if any, and what requests with it may do."""
    caller: Caller = request.scope["caller"]
    key = None if caller.key is None else schemas.KeyInfo.model_validate(caller.key)
    return schemas.Session(key=key, allows=sorted(caller.allows))


def _refuse_other_sites(request: Request) -> None:
    """Let no page of another site sign a browser in, with a key of its own, or out.

    Raises:
        ProblemError: if a browser says that the request comes from another site's page.
    """
    if is_of_another_origin(dict(request.headers.raw), request.url.scheme):
        origin = request.headers["origin"]
        proxy = "a proxy between must pass Host on as it is, with its port"
        raise ProblemError("other-site", f"the request comes from a page of {origin[:60]}; {proxy}")


@router.post(
    "/v1/sign-in",
    status_code=204,
    summary="Sign in with a key",
    responses={
        400: {"description": "The body is not JSON", "content": PROBLEM},
        **responses("invalid-parameter", "key-needed", "scope-missing", "other-site"),
    },
)
async def sign_in(request: Request, given: schemas.SignIn) -> Response:
    """Store a key as a cookie of this browser, so that the page can search and show photos.

    Requests with the cookie may search; those that this server's page sends, with the header
    `X-Sparta-Page`, may also write if the key allows it. The cookie allows nothing else.
    """
    _refuse_other_sites(request)
    ring: KeyRing = request.app.state.keys
    text = given.key.strip()
    try:
        key = ring.valid(text)
    except BadKeyError as error:
        raise key_needed(str(error), "invalid_token") from error
    if "search" not in ALLOWS[key.scope]:
        raise ProblemError("scope-missing", f"the key {key.id} does not allow searching")
    response = Response(status_code=204)
    _set_cookie(request, response, text, _max_age(key))
    return response


@router.post("/v1/sign-out", status_code=204, summary="Sign out", responses=responses("other-site"))
async def sign_out(request: Request) -> Response:
    """Remove the cookie from this browser."""
    _refuse_other_sites(request)
    response = Response(status_code=204)
    _set_cookie(request, response, "", 0)
    return response


def _set_cookie(request: Request, response: Response, value: str, max_age: int) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=max_age,
        path=f"{request.scope.get('root_path', '')}/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def _max_age(key: Key) -> int:
    """Seconds until a browser is to forget the key."""
    if key.expires is None:
        return MAX_AGE
    return min(MAX_AGE, int((key.expires - datetime.now(UTC)).total_seconds()))
