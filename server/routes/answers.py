"""Answers as JSON: the structs of the search, with addresses of photos."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import to_json

from indexer.filters.expression import Filter
from indexer.filters.json_form import read_filter
from indexer.filters.text import parse_filter
from indexer.search.answer import INTERNAL, Answer
from indexer.search.searcher import Explain
from server.backends import Backend, backends_of
from server.monitoring.record import record_of
from server.work import Wanted

MAX_EXPLAINED = 100_000  # terms of all hits; 0.1 s

_plain = re.compile(r"[A-Za-z0-9_.~/-]*").fullmatch

Json: TypeAlias = dict[str, Any]


def answer_json(request: Request, backend: Backend, answer: Answer, **about: Any) -> Json:
    """An answer as a `SearchAnswer`.

    It is made of JSON objects, not models: making and checking models would take longer than a
    search.

    Args:
        request: that is answered.
        backend: that searched.
        answer: of the search.
        **about: what else the answer says.
    """
    record_of(request.scope).searched(backend.name, backend.searcher.engine.name, answer.timings)
    url = photo_urls(request, backend)
    hits = [{**vars(hit), "url": url(hit.image_id)} for hit in answer.hits]
    made = {"backend": backend.name, **about, **vars(answer), "hits": hits}
    for name in INTERNAL:
        del made[name]
    return made


def read(given: str | dict[str, Any] | None) -> Filter | None:
    """The filter of a request, as text or as JSON.

    Raises:
        FilterError: if it cannot be read.
    """
    if given is None:
        return None
    return parse_filter(given) if isinstance(given, str) else read_filter(given)


def explained(wanted: Wanted | None) -> Explain:
    """How hits are explained, as long as the client waits."""
    return Explain(most=MAX_EXPLAINED, check=(wanted or Wanted()).check)


def json_response(answer: BaseModel | Json) -> Response:
    """An answer as JSON, made here and not in the event loop, which it would block."""
    return Response(json_text(answer), media_type="application/json")


def json_text(answer: BaseModel | Json) -> bytes:
    """As `json_response`, the body alone."""
    return to_json(answer, inf_nan_mode="null")


def photo_url(request: Request, backend: Backend, image_id: str) -> str | None:
    """Path of the photo on this server, None if the backend has no photos folder."""
    return photo_urls(request, backend)(image_id)


def photo_urls(request: Request, backend: Backend) -> Callable[[str], str | None]:
    """As `photo_url`, for the images of one answer."""
    default = backend is backends_of(request).default
    return paths_of_photos(backend, default, request.scope.get("root_path", ""))


def paths_of_photos(
    backend: Backend, default: bool, root_path: str = ""
) -> Callable[[str], str | None]:
    """As `photo_url`, for the images of a backend.

    Args:
        backend: of the images.
        default: whether it is asked where no other is named.
        root_path: of the server.
    """
    if not backend.has_photos:
        return lambda _: None
    start = f"{root_path}/v1/images/"
    end = "/file" if default else f"/file?backend={quote(backend.name, safe='')}"
    # Most ids need no quoting, which takes longer than to look whether one does.
    return lambda image_id: f"{start}{image_id if _plain(image_id) else quote(image_id)}{end}"
