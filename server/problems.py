"""Errors as `application/problem+json` (RFC 9457): their kinds, handlers and documentation."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from indexer.search.api import UnavailableError
from server.schemas import Problem
from server.security_headers import SECURITY_HEADERS

MEDIA_TYPE = "application/problem+json"
_SHOWN = 60

# Kind → status, title, and an example of a detail for the documentation.
KINDS: dict[str, tuple[int, str, str]] = {
    "invalid-parameter": (
        422,
        "Invalid parameter",
        "k: input should be less than or equal to 1000 (found '5000')",
    ),
    "unknown-backend": (
        404,
        "Unknown backend",
        "backend 'clip' is unknown; this server has: sparta, vse++",
    ),
    "backend-unavailable": (
        503,
        "The backend cannot be opened",
        "faiss is not installed; run: pip install 'visualsparta[dense]'",
    ),
    "unknown-image": (
        404,
        "The index has no such image",
        "image 'beach/cat.jpg' is not in the index",
    ),
    "photo-missing": (
        404,
        "The photo file is missing",
        "image 'beach/dog.jpg' is in the index, but its file is missing from the photos folder",
    ),
    "photo-forbidden": (
        403,
        "The photo file is outside the photos folder",
        "image 'beach/dog.jpg' points outside the photos folder and is not served",
    ),
}


class ProblemError(Exception):
    """An error that is answered with a problem of a known kind.

    Attributes:
        kind: a key of `KINDS`.
        detail: what is wrong with this request.
        field: the parameter that caused it.
    """

    def __init__(self, kind: str, detail: str, field: str) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.field = kind, detail, field


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem, unexpected ones included."""
    app.add_exception_handler(ProblemError, _known)
    app.add_exception_handler(UnavailableError, _unavailable)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def responses(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI documentation of the kinds of errors of an endpoint, for FastAPI's `responses`."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        status, title, detail = KINDS[kind]
        example = {"type": _urn(kind), "title": title, "status": status, "detail": detail}
        field = "backend" if kind.startswith("backend") else kind.rpartition("-")[2]
        example |= {"instance": "/v1/…", "field": field}
        if kind == "invalid-parameter":
            example |= {"instance": "/v1/search", "field": "k"}
        schema = {"$ref": "#/components/schemas/Problem"}
        entry = found.setdefault(
            status,
            {"description": "", "content": {MEDIA_TYPE: {"schema": schema, "examples": {}}}},
        )
        entry["description"] = ", or ".join(filter(None, [entry["description"], title.lower()]))
        entry["content"][MEDIA_TYPE]["examples"][kind] = {"summary": title, "value": example}
    return found


def _urn(kind: str) -> str:
    return f"urn:problem-type:visualsparta:{kind}"


def _response(request: Request, problem: dict[str, Any], headers: Any = None) -> JSONResponse:
    body = Problem(instance=quote(request.scope["path"]), **problem).model_dump(exclude_none=True)
    return JSONResponse(body, body["status"], headers=headers, media_type=MEDIA_TYPE)


def _known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    status, title, _ = KINDS[error.kind]
    problem = {"type": _urn(error.kind), "title": title, "status": status}
    return _response(request, problem | {"detail": error.detail, "field": error.field})


def _unavailable(request: Request, error: Exception) -> JSONResponse:
    return _known(request, ProblemError("backend-unavailable", str(error), "backend"))


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = str(first["loc"][-1])
    detail = f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
    if first["type"] != "missing":
        found = str(first["input"])
        detail += f" (found {found[:_SHOWN]!r}{'…' if len(found) > _SHOWN else ''})"
    return _known(request, ProblemError("invalid-parameter", detail, field))


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    details = {
        404: "there is no such path; /docs lists all endpoints",
        405: f"{request.method} is not allowed for this path",
    }
    problem = {
        "type": "about:blank",
        "title": HTTPStatus(error.status_code).phrase,
        "status": error.status_code,
        "detail": details.get(error.status_code, str(error.detail)),
    }
    return _response(request, problem, error.headers)


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    problem = {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "the server failed to answer this request; see its log for the reason",
    }
    # Starlette answers these outside all middleware, so the headers are set here.
    return _response(request, problem, SECURITY_HEADERS)
