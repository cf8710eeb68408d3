"""Collections on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eval.bench.query_latency.collections.corpus
from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.engines.inverted_lists import read_lists, write_lists
from tests.eval.bench.query_latency.tiny import rows, source


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("chunk", [7, 10_000])
def test_rows_come_back_as_they_went_in(
    tmp_path: Path, bits: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval.bench.query_latency.collections.corpus, "CHUNK", chunk)
    whole = rows(source(bits=bits))
    Corpus.write(tmp_path, source().vocabulary, bits, [whole, whole])
    opened = Corpus.open(tmp_path)
    assert opened is not None
    assert (opened.images, opened.postings) == (80, 2 * len(whole.terms))
    parts = list(opened.rows())
    assert max(map(len, parts)) == min(chunk, 80)
    for name in ("terms", "impacts"):
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, np.tile(getattr(whole, name), 2))
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    np.testing.assert_array_equal(lengths, np.tile(np.diff(whole.starts), 2))


def test_a_collection_without_header_is_not_whole(tmp_path: Path) -> None:
    Corpus.write(tmp_path, source().vocabulary, 8, [rows(source())])
    (tmp_path / "corpus.json").unlink()
    assert Corpus.open(tmp_path) is None


def test_inverted_lists_hold_every_posting_in_the_order_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval.bench.query_latency.collections.corpus, "CHUNK", 7)
    made = source()
    corpus = Corpus.write(tmp_path / "corpus", made.vocabulary, 8, [rows(made)])
    write_lists(corpus, tmp_path, np.dtype(np.uint8))
    starts, documents, impacts = read_lists(tmp_path)
    assert len(starts) == len(made.vocabulary) + 1
    for place, term in enumerate(made.terms):
        own = slice(starts[term], starts[term + 1])
        expected = made.impacts[:, place].nonzero()[0]
        np.testing.assert_array_equal(documents[own], expected)
        np.testing.assert_array_equal(impacts[own], made.impacts[expected, place])
    assert starts[-1] == np.count_nonzero(made.impacts)
