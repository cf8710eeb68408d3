"""Quick searches are read as others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

from fastapi.exceptions import RequestValidationError
from hypothesis import given
from hypothesis import strategies as st

from server.quick_answer import Asked, read_quick
from server.routes.cursor import quick_key, search_key
from server.routes.parameters import SearchParameters, read_search
from server.routes.search import is_quick

TEXTS = st.text() | st.sampled_from(["", " ", "+", "a" * 200, "a" * 201, "é" * 200, "a=b&c"])
NUMBERS = st.integers(-1, 1200).map(str) | st.sampled_from(["01", "1_0", "1.0", "", "+5", "٣"])
WRITTEN = st.sampled_from([quote, quote_plus, str])


@given(
    TEXTS, WRITTEN, st.none() | NUMBERS, st.sampled_from(["", "&", "&k=3", "&q=", "&offset=2", "%"])
)
def test_parameters_are_those_of_the_application(
    q: str, written: Callable[[str], str], k: str | None, end: str
) -> None:
    text = f"q={written(q)}{'' if k is None else f'&k={k}'}{end}"
    query_string = text.encode("latin-1", "replace")
    try:
        found = read_search(query_string)
    except RequestValidationError:
        expected = None
    else:
        own = found.q, found.k, found.offset, found.backend, found.substitute
        expected = Asked(*own) if is_quick(found) else None
    try:
        assert read_quick(query_string) == expected
    except RequestValidationError:
        assert expected is None


@given(st.text(st.characters(codec="utf-8")), st.booleans(), st.sampled_from(["a+b", "é"]))
def test_a_cursor_continues_the_same_search_however_it_is_answered(
    q: str, substitute: bool, backend: str
) -> None:
    asked = SearchParameters(q=q, substitute=substitute)
    key = search_key(asked, backend, "abc.3")
    assert key == quick_key(q, substitute, backend, "abc.7") and len(key) == 12
    others: list[dict[str, Any]] = [{"filter": "null"}, {"sort": "null"}, {"min_coverage": 1.0}]
    keys = {search_key(SearchParameters(q=q, **other), backend, "abc") for other in others}
    assert len({*keys, key}) == 4
