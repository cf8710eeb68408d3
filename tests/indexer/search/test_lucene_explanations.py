"""What won a term, from features with labels through a model and Lucene to the explanation."""

from __future__ import annotations

import pytest

from indexer.commands.answer_tables import won_by
from indexer.grounding import WinningLabel
from indexer.search.api import TermExplanation
from indexer.search.lucene import LuceneSearcher
from tests.indexer.labelled import LEFT, RIGHT, WHOLE, labelled_index


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> LuceneSearcher:
    index, _, _ = labelled_index(tmp_path_factory.mktemp("labelled"))
    return LuceneSearcher(index)


def explain(searcher: LuceneSearcher, term: str, image_id: str) -> TermExplanation:
    [found] = searcher.explain(term, image_id).terms
    return found


@pytest.mark.parametrize(
    ("term", "image_id", "region", "box", "label", "words"),
    [
        (
            "dog",
            "a.png",
            0,
            LEFT,
            WinningLabel("dog", "brown dog"),
            "label “dog” in “brown dog”, region 0",
        ),
        ("brown", "a.png", 0, LEFT, WinningLabel("brown", "brown dog"), None),
        ("cat", "a.png", 1, RIGHT, WinningLabel("cat", "cat"), "label “cat”, region 1"),
        ("ball", "a.png", 1, RIGHT, None, "region 1"),
        ("tree", "a.png", 2, WHOLE, None, "whole photo"),
        ("ball", "b.png", 0, LEFT, None, "region 0"),
        ("red", "b.png", 1, RIGHT, WinningLabel("red", "red ball"), None),
        ("man", "c.png", 0, LEFT, WinningLabel("man", "man"), None),
        ("dog", "c.png", None, None, None, ""),
    ],
)
def test_region_or_label_that_won(
    searcher: LuceneSearcher,
    term: str,
    image_id: str,
    region: int | None,
    box: tuple[float, ...] | None,
    label: WinningLabel | None,
    words: str | None,
) -> None:
    found = explain(searcher, term, image_id)
    assert (found.region, found.label) == (region, label)
    assert (found.impact > 0) == (region is not None)
    assert found.box == (None if box is None else pytest.approx(box, abs=1e-4))
    assert found.whole == (box == WHOLE)
    assert words is None or won_by(found) == words
