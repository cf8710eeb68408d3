"""Postings and stored fields read in bulk, beside those read one by one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.lucene.reader import LuceneIndex
from indexer.postings import Postings
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.lucene.conftest import DELETED
from tests.indexer.lucene.written import write_lucene
from tests.indexer.vocabulary import COMMON, RARE


def test_postings_are_those_that_were_written_but_for_deleted_images(
    segments: LuceneIndex, postings: Postings, tokenizer: WordPieceTokenizer
) -> None:
    documents = np.repeat(np.arange(len(postings)), np.diff(postings.starts))
    kept = ~np.isin(documents, DELETED)
    for number, term in enumerate(tokenizer.vocabulary):
        own = (postings.terms == number) & kept
        expected = np.stack([documents[own], postings.impacts[own]], axis=1)
        np.testing.assert_array_equal(segments.postings(term), expected, term)
    assert len(segments.postings(COMMON)) == 294
    assert segments.postings(RARE).shape == (0, 2)


def test_postings_are_those_that_a_search_finds(segments: LuceneIndex) -> None:
    found = segments.postings(COMMON).tolist()
    searched = segments.top(COMMON, 300)
    assert sorted(searched) == [(document, float(impact)) for document, impact in found]


def test_term_impacts_are_by_document(segments: LuceneIndex) -> None:
    impacts = segments.term_impacts(COMMON)
    assert np.flatnonzero(impacts == 0).tolist() == DELETED
    assert impacts[np.flatnonzero(impacts)].tolist() == segments.postings(COMMON)[:, 1].tolist()


def test_stored_fields_are_those_of_each_document(segments: LuceneIndex) -> None:
    found = segments.read_stored(range(90, 210))  # of all segments
    assert found == [segments.stored(document) for document in range(90, 210)]
    assert segments.read_stored(range(0)) == []


def test_a_document_without_the_fields_is_reported(
    segments: LuceneIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.lucene.reader.RAW", "missing")
    with pytest.raises(InputError, match="is damaged"):
        segments.read_stored(range(2))


def test_the_largest_impacts_come_back_whole(tokenizer: WordPieceTokenizer, tmp_path: Path) -> None:
    impacts = np.array([1, 255, 256, 2**16 - 1], np.int32)
    postings = Postings.without_grounding(
        ids=["a", "b", "c", "d"],
        metadata=[{}] * 4,
        starts=np.arange(5),
        terms=np.full(4, 7, np.int32),
        impacts=impacts,
    )
    write_lucene(tmp_path / "lucene", tokenizer.vocabulary, [postings])
    with closing(LuceneIndex(tmp_path / "lucene")) as lucene:
        found = lucene.postings(tokenizer.vocabulary[7])
        assert found.tolist() == [[i, impact] for i, impact in enumerate(impacts.tolist())]
