"""The JSON of a quick search: that of `server.routes.search.search_answer`, in little time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from pydantic_core import to_json

from indexer.search.numbering import Found, Numbering
from indexer.search.paging import Position
from server.backends import Backend
from server.monitoring.record import RequestRecord
from server.routes import cursor
from server.routes.hit_texts import HitTexts
from server.routes.parameters import read_search
from server.routes.search import QUICK_LENGTH, corrections_of, is_quick

# What most searches are asked, and nothing that is read in another way than as it stands.
_usual = re.compile(rb"q=([\w.~%+*-]+)(?:&k=([1-9][0-9]?))?").fullmatch

_ANSWER = (
    b'{"query":%b,%b,"hits":[%b],%b,"timings":{"tokenise_ms":%b,"encode_ms":0.0,"search_ms":%b,'
    b'"total_ms":%b,"explain_ms":null},"missing_images":0,"cursor":%b,'
    b'"total":null,"facets":null,"partial":false,"missing_shards":[]}'
)
_NO_WORDS = b'"unknown":[],"corrections":[],"substitutions":[],"conditions":[]'


class Asked(NamedTuple):
    """The parameters that a quick search may have."""

    q: str
    k: int = 10
    offset: int = 0
    backend: str | None = None
    substitute: bool = True


def read_quick(query_string: bytes) -> Asked | None:
    """The parameters of a search, None if it is not quick; see `read_search`.

    Raises:
        RequestValidationError: if one is wrong.
    """
    if usual := _usual(query_string):
        q = unquote(usual[1].decode().replace("+", " "))
        return Asked(q, int(usual[2] or 10)) if len(q) <= QUICK_LENGTH and q.strip() else None
    found = read_search(query_string)
    if not is_quick(found):
        return None
    return Asked(found.q, found.k, found.offset, found.backend, found.substitute)


def quick_answer(
    backend: Backend, searcher: Numbering, asked: Asked, texts: HitTexts, record: RequestRecord
) -> bytes:
    """The JSON of an answer.

    Args:
        backend: that is asked.
        searcher: of the backend.
        asked: the search.
        texts: of the backend's hits.
        record: of the request; it names the index.
    """
    first = asked.offset + 1
    found = searcher.find(asked.q, asked.k + asked.offset, substitute=asked.substitute)
    documents = found.documents[asked.offset :]
    hits = texts.of(searcher, documents, first)
    times = found.timings()
    record.searched(backend.name, backend.engine, times)
    last = None
    if documents:
        document, score = documents[-1]
        last = Position(score, searcher.stored(document).image_id, asked.offset + len(documents))
    key = cursor.quick_key(asked.q, asked.substitute, backend.name, record.index)
    place = cursor.written(last, len(documents), asked.k, key)
    return _ANSWER % (
        to_json(asked.q),
        _names(backend.name, record.index),
        hits,
        _words(searcher, found),
        *to_json((times.tokenise_ms, times.search_ms, times.total_ms))[1:-1].split(b","),
        b"null" if place is None else b'"%b"' % place.encode(),
    )


@lru_cache(8)
def _names(backend: str, version: str) -> bytes:
    return to_json({"backend": backend, "index_version": version})[1:-1]


def _words(searcher: Numbering, found: Found) -> bytes:
    """What is said of the words of a query."""
    read = found.read
    if not (read.unknown or read.substitutions or found.conditions):
        return _NO_WORDS
    words = {
        "unknown": read.unknown,
        "corrections": corrections_of(searcher, read.unknown),
        "substitutions": read.substitutions,
        "conditions": found.conditions,
    }
    return to_json(words)[1:-1]
