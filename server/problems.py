"""Errors as `application/problem+json` (RFC 9457): their kinds, handlers and documentation."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from tempfile import gettempdir
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indexer.answer import RefusedError, UnavailableError
from indexer.filters.expression import FilterError
from indexer.query import QueryError
from indexer.store.images import UnknownImageError
from server.monitoring.monitor import ID_HEADER, record_of
from server.schemas import Problem
from sparta.json_values import Json

MEDIA_TYPE = "application/problem+json"
# OpenAPI documentation of an answer that is a problem.
PROBLEM: Json = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
RETRY_AFTER = "1"  # seconds
CLIENT_GONE = 499  # never sent: there is nobody to send it to
_SHOWN = 60

# Kind → status and title.
KINDS: dict[str, tuple[int, str]] = {
    "invalid-parameter": (422, "Invalid parameter"),
    "unknown-backend": (404, "Unknown backend"),
    "backend-unavailable": (503, "The backend cannot be opened"),
    "overloaded": (503, "Too many searches at once"),
    "stopping": (503, "The server is stopping"),
    "wrong-host": (421, "The server does not answer for this host"),
    "key-needed": (401, "A key is needed"),
    "scope-missing": (403, "The key does not allow this"),
    "other-site": (403, "The request comes from another site"),
    "too-many-requests": (429, "Too many requests"),
    "body-too-large": (413, "The body is too large"),
    "length-required": (411, "The length of the body is missing"),
    "index-busy": (503, "Another program writes to the index"),
    "not-writable": (409, "The index cannot be written"),
    "writing-failed": (503, "Writing failed"),
    "writing-unsure": (503, "The change may have been made"),
    "invalid-image": (422, "The image cannot be written"),
    "unsupported-media": (415, "The body is of another kind"),
    "image-exists": (412, "The index has an image with this id"),
    "image-changed": (412, "The image is another than expected"),
    "unknown-image": (404, "The index has no such image"),
    "photo-unreadable": (404, "The photo cannot be shown as a picture"),
    "photo-missing": (404, "The photo file is missing"),
    "photo-forbidden": (403, "The photo file is outside the photos folder"),
}


class ProblemError(Exception):
    """An error that is answered with a problem of a known kind.

    Attributes:
        kind: a key of `KINDS`.
        detail: what is wrong with this request.
        field: the parameter that caused it, None if it was none.
        headers: of the answer.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.field, self.headers = kind, detail, field, headers


KNOWN: tuple[type[Exception], ...] = (
    ProblemError,
    UnavailableError,
    RefusedError,
    FilterError,
    UnknownImageError,
    QueryError,
    RequestValidationError,
)
UNKNOWN_NAME = "unknown_name"  # type of an error of validation: a name that nothing has


def install(app: FastAPI, index: Path) -> None:
    """Answer every error with a problem, which never says in which folder the index is."""
    hidden = index.absolute().parent, index.resolve().parent, gettempdir()
    app.state.hidden = [f"{folder}/" for folder in hidden]
    for kind in KNOWN:
        app.add_exception_handler(kind, answer_to)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, lambda *_: Response(status_code=CLIENT_GONE))
    app.add_exception_handler(Exception, unexpected)


def answer_to(request: Request, error: Exception) -> Response:
    """The answer to a request that failed with an error that is one of `KNOWN`."""
    return problem_response(request, _problem_of(error))


def _problem_of(error: Exception) -> ProblemError:
    match error:
        case ProblemError():
            return error
        case UnavailableError():
            return ProblemError("backend-unavailable", str(error), "backend")
        case RefusedError():
            return ProblemError("invalid-parameter", str(error), error.field)
        case FilterError():
            return ProblemError("invalid-parameter", str(error), "filter")
        case UnknownImageError():
            detail = f"image {error.args[0][:200]!r} is not in the index"
            return ProblemError("unknown-image", detail, "image_id")
        case QueryError():
            detail = f"q: {error.problem} (column {error.column})"
            return ProblemError("invalid-parameter", detail, "q")
        case RequestValidationError():
            first = error.errors()[0]
            if first["type"] == UNKNOWN_NAME:
                return ProblemError("invalid-parameter", first["msg"], first["ctx"]["name"])
            loc = first["loc"]
            named = max(place for place, part in enumerate(loc) if isinstance(part, str))
            field, place = loc[named], ".".join(map(str, loc[named:]))
            detail = f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}"
            # Bodies are not shown: they have keys.
            if first["type"] != "missing" and first["loc"][0] != "body":
                found = str(first["input"])
                detail += f" (found {found[:_SHOWN]!r}{'…' if len(found) > _SHOWN else ''})"
            return ProblemError("invalid-parameter", detail, field)
    raise error


def responses(*kinds: str) -> dict[int | str, Json]:
    """OpenAPI documentation of the kinds of errors of an endpoint, for FastAPI's `responses`."""
    found: dict[int | str, Json] = {}
    for kind in kinds:
        status, title = KINDS[kind]
        example = {"type": _urn(kind), "title": title, "status": status, "detail": "…"}
        content = {MEDIA_TYPE: PROBLEM[MEDIA_TYPE] | {"examples": {}}}
        entry = found.setdefault(status, {"description": "", "content": content})
        entry["description"] = ", or ".join(filter(None, [entry["description"], title.lower()]))
        entry["content"][MEDIA_TYPE]["examples"][kind] = {"summary": title, "value": example}
    return found


def _urn(kind: str) -> str:
    return f"urn:problem-type:visualsparta:{kind}"


def problem_response(request: Request, error: ProblemError) -> Response:
    """The answer to a request that failed with a problem of a known kind."""
    status, title = KINDS[error.kind]
    problem = {"type": _urn(error.kind), "title": title, "status": status}
    headers = error.headers or ({"Retry-After": RETRY_AFTER} if status == 503 else None)
    return _response(request, problem | {"detail": error.detail, "field": error.field}, headers)


def plain_problem(status: HTTPStatus, detail: str, instance: str | None = None) -> bytes:
    """The body of a problem that has no kind of its own but its HTTP status."""
    return _json(_plain(status, detail) | {"instance": instance})


class PlainErrors:
    """Middleware that turns errors in plain text, as of ranges and static files, into problems.

    Ranges of other units than bytes are ignored (RFC 9110, 14.2); Starlette would refuse them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        start: Message | None = None

        async def send_problem(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_plain_error(message):
                start = message
            elif start is None:
                await send(message)
            elif message["type"] == "http.response.body":
                status, detail = HTTPStatus(start["status"]), message.get("body", b"").decode()
                body = plain_problem(status, detail or status.phrase, quote(scope["path"]))
                headers = MutableHeaders(scope=start)
                headers["Content-Type"], headers["Content-Length"] = MEDIA_TYPE, str(len(body))
                await send(start)
                await send({**message, "body": body})

        headers = scope.get("headers", [])
        unit = Headers(raw=headers).get("range", "bytes").partition("=")[0]
        if unit.strip().lower() != "bytes":
            # In place: the routes leave in it which of them answers.
            scope["headers"] = [one for one in headers if one[0] != b"range"]
        await self.app(scope, receive, send_problem)


def _is_plain_error(start: Message) -> bool:
    if start["status"] < 400:
        return False
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return kind.startswith("text/plain")


def _json(problem: Json) -> bytes:
    return Problem(**problem).model_dump_json(exclude_none=True).encode()


def _plain(status: HTTPStatus, detail: str) -> Json:
    return {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}


def public(request: Request, text: str) -> str:
    """A text for an answer, without the folders that are nobody's business."""
    for folder in request.app.state.hidden:
        text = text.replace(folder, "")
    return text


def _response(
    request: Request, problem: Json, headers: Mapping[str, str] | None = None
) -> Response:
    problem = problem | {"detail": public(request, problem["detail"])}
    body = _json(problem | {"instance": quote(request.scope["path"])})
    return Response(body, problem["status"], headers=headers, media_type=MEDIA_TYPE)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {
        404: "there is no such path; /docs lists all endpoints",
        405: f"{request.method} is not allowed for this path",
    }
    status = HTTPStatus(error.status_code)
    detail = details.get(status, str(error.detail))
    headers = _allow(request, error.headers) if status == 405 else error.headers
    return _response(request, _plain(status, detail), headers)


def _allow(request: Request, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The documented methods of a path too: Starlette names those of its first route alone."""
    path = getattr(request.scope.get("route"), "path_format", None)
    documented = request.app.openapi()["paths"].get(path, {})
    methods = {method.upper() for method in documented}
    methods |= set(filter(None, (headers or {}).get("Allow", "").split(", ")))
    methods |= {"HEAD"} if "GET" in methods else set()
    return {"Allow": ", ".join(sorted(methods))} if methods else headers


def unexpected(request: Request, _: Exception) -> Response:
    """The answer to a request that failed by a mistake of the program, outside all middleware."""
    detail = "the server failed to answer this request; see its log for the reason"
    problem = _plain(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
    return _response(request, problem, {ID_HEADER.decode(): record_of(request.scope).id})
