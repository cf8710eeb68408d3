"""API keys: listed, and signed in with on the page, in a cookie that no script can read."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from server import schemas
from server.problems import PROBLEM, ProblemError, responses
from server.requests import JsonRoute
from server.security.access import key_needed, requires
from server.security.callers import COOKIE, Caller, is_of_another_origin
from server.security.keys import ALLOWS, BadKeyError, Key, KeyRing

MAX_AGE = 30 * 24 * 3600  # seconds that a browser is signed in

router = APIRouter(prefix="/v1", route_class=JsonRoute)


@router.get("/keys", summary="List the API keys", dependencies=[requires("admin")])
async def list_keys(request: Request) -> schemas.KeyList:
    """Every key that the server accepts, expired ones included, with a key of scope admin."""
    ring: KeyRing = request.app.state.keys
    return schemas.KeyList(keys=[schemas.KeyInfo.model_validate(key) for key in ring])


@router.get("/session", summary="Show who sends the requests")
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
        raise ProblemError("other-site", f"the request comes from a page of {origin[:60]}")


@router.post(
    "/sign-in",
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


@router.post("/sign-out", status_code=204, summary="Sign out", responses=responses("other-site"))
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
