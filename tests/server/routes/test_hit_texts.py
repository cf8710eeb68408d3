"""The JSON of hits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.search.api import Hit
from server.routes import hit_texts
from server.routes.hit_texts import HitTexts
from server.schemas import HitAnswer

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=5,
)
IDS = st.text(st.characters(codec="utf-8")) | st.just('a","score":0.0,"b')


def answered(hit: Hit, url: str | None) -> str:
    values = {name: getattr(hit, name) for name in ("rank", "image_id", "score", "metadata")}
    return HitAnswer(
        **values, url=url, view=None, coverage=None, explanation=None
    ).model_dump_json()


@given(
    st.integers(1, 1000),
    IDS,
    st.integers(0, 2**31),
    st.dictionaries(st.text(st.characters(codec="utf-8")), JSON),
    st.none() | IDS,
)
def test_hits_are_written_as_the_schema_writes_them(
    rank: int, image_id: str, score: float, metadata: dict[str, Any], url: str | None
) -> None:
    hit, texts = Hit(rank, image_id, score, metadata), HitTexts(lambda _: url)
    expected = answered(hit, url)
    assert texts.of([hit]) == expected
    assert texts.of([hit, Hit(rank, image_id, score + 1, metadata)]).startswith(f"{expected},")


def test_other_metadata_of_an_image_are_written_anew() -> None:
    texts = HitTexts(lambda _: None)
    before, after = Hit(1, "a", 2.0, {"width": 1}), Hit(1, "a", 2.0, {"width": 2})
    assert texts.of([before, after]) == f"{answered(before, None)},{answered(after, None)}"


def test_few_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hit_texts, "MOST", 3)
    texts = HitTexts(lambda _: None)
    for number in range(10):
        hit = Hit(1, str(number), 2.0, {})
        assert texts.of([hit]) == answered(hit, None)
        assert len(texts._texts) <= 3
