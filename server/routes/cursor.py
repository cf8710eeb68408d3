"""Cursors: places in the ranking of a search, as texts that clients send back."""

from __future__ import annotations

import base64
import json
from hashlib import blake2b

from pydantic_core import to_json

from indexer.search.answer import Position
from indexer.search.searcher import DEEPEST
from server.problems import ProblemError
from server.routes.parameters import SearchBody, SearchParameters

_json = json.JSONEncoder(sort_keys=True).encode  # json.dumps would make one every time


def search_key(asked: SearchParameters | SearchBody, backend: str, version: str) -> str:
    """What two searches share if a cursor of one continues the other: hits and their order.

    Args:
        asked: the search.
        backend: that answers.
        version: of the index; commits of one index share what is before the dot.
    """
    filtered = _json(asked.filter) if isinstance(asked.filter, dict) else asked.filter
    chosen = filtered, asked.sort, asked.substitute, asked.min_coverage
    parts = to_json((version.partition(".")[0], backend, asked.q, *chosen))
    # OpenSSL's hashes take several times as long for so little: they fetch much before they begin.
    return blake2b(parts, digest_size=6).hexdigest()


def written(position: Position | None, hits: int, k: int, key: str) -> str | None:
    """The cursor of an answer, None if no hits follow.

    Args:
        position: of its last hit; None without hits.
        hits: of the answer.
        k: hits that were wanted.
        key: of the search.
    """
    if position is None or hits < k or position.rank >= DEEPEST:
        return None
    content = [key, position.value, position.image_id, position.rank]
    return base64.urlsafe_b64encode(to_json(content)).decode().rstrip("=")


def read(asked: SearchParameters | SearchBody, key: str) -> Position | None:
    """The place that the cursor of a search names, None without one.

    Args:
        asked: the search.
        key: of it.

    Raises:
        ProblemError: if it is none, or of another search.
    """
    if asked.cursor is None:
        return None
    if asked.offset:
        raise _problem("give either a cursor or an offset")
    try:
        text = base64.urlsafe_b64decode(asked.cursor + "=" * (-len(asked.cursor) % 4))
        own, value, image_id, rank = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise _problem("this is none; give the one of an answer unchanged") from error
    kinds = (int, float, str, type(None)) if asked.sort else (int, float)
    typed = type(value) in kinds and isinstance(image_id, str)
    if not typed or type(rank) is not int or not 0 < rank <= DEEPEST:
        raise _problem("this is none; give the one of an answer unchanged")
    if own != key:
        raise _problem("it is of another search or another index; leave it out to begin anew")
    return Position(value, image_id, rank)


def _problem(reason: str) -> ProblemError:
    return ProblemError("invalid-parameter", f"cursor: {reason}", "cursor")
