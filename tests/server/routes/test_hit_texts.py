"""The JSON of hits."""

from __future__ import annotations

from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.lucene.stored import Stored
from server.routes import hit_texts
from server.routes.hit_texts import HitTexts
from server.schemas import HitAnswer
from tests.server.fake import FakeSearcher

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=5,
)
IDS = st.text(st.characters(codec="utf-8")) | st.just('a","score":0.0,"b')


class Numbered(FakeSearcher):
    """Has images with some ids and metadata."""

    def __init__(self, *images: tuple[str, dict[str, Any]]) -> None:
        super().__init__()
        self.images = [Stored(*image) for image in images]

    def stored(self, document: int) -> Stored:
        return self.images[document]


def answered(rank: int, image: Stored, score: float, url: str | None) -> bytes:
    values: dict[str, Any] = {"view": None, "coverage": None, "explanation": None}
    hit = HitAnswer(rank=rank, score=score, url=url, **image._asdict(), **values)
    return hit.model_dump_json().encode()


@given(
    st.integers(1, 1000),
    IDS,
    st.integers(0, 2**31),
    st.dictionaries(st.text(st.characters(codec="utf-8")), JSON),
    st.none() | IDS,
)
def test_hits_are_written_as_the_schema_writes_them(
    rank: int, image_id: str, score: int, metadata: dict[str, Any], url: str | None
) -> None:
    searcher, texts = Numbered((image_id, metadata), ("%d%", {"%": "%%"})), HitTexts(lambda _: url)
    first = answered(rank, searcher.images[0], score, url)
    second = answered(rank + 1, searcher.images[1], score - 1, url)
    found = [(0, float(score)), (1, score - 1.0)]
    assert texts.of(searcher, found[:1], rank) == first
    assert texts.of(searcher, found, rank) == first + b"," + second
    assert texts.of(searcher, [], rank) == b""


def test_other_metadata_of_an_image_are_written_anew() -> None:
    """A later commit has other numbers, and the same metadata of what was not written."""
    texts, kept = HitTexts(lambda _: None), {"width": 9}
    before = Numbered(("a", {"width": 1}), ("b", kept))
    after = Numbered(("b", kept), ("a", {"width": 2}))
    for searcher in (before, after, before):
        expected = [answered(n + 1, image, 2.0, None) for n, image in enumerate(searcher.images)]
        assert texts.of(searcher, [(0, 2.0), (1, 2.0)]) == b",".join(expected)


def test_few_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hit_texts, "MOST", 3)
    texts, searcher = HitTexts(lambda _: None), Numbered(*((str(n), {}) for n in range(10)))
    for document, image in enumerate(searcher.images):
        assert texts.of(searcher, [(document, 2.0)]) == answered(1, image, 2.0, None)
        assert len(texts._texts) <= 3 and len(texts._numbered) <= 3


def test_a_searcher_that_is_replaced_is_not_kept() -> None:
    texts, searcher = HitTexts(lambda _: None), Numbered(("a", {}))
    texts.of(searcher, [(0, 1.0)])
    seen = ref(searcher)
    del searcher
    assert seen() is None
