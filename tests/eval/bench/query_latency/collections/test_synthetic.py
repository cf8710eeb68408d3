"""Made-up images and queries against the figures they are drawn from."""

from __future__ import annotations

import numpy as np

from eval.bench.query_latency.collections.enlarge import enlarge
from eval.bench.query_latency.collections.synthetic import (
    GROUPS,
    synthetic_queries,
    synthetic_source,
)

LAST = GROUPS[:, 0].astype(int)
GROUP = np.repeat(np.arange(len(GROUPS)), np.diff(LAST, prepend=0))


def by_group(values: np.ndarray) -> np.ndarray:
    return np.bincount(GROUP, values) / np.bincount(GROUP)


def test_document_frequencies_and_impacts_are_those_measured() -> None:
    source = synthetic_source(1000)
    present = source.impacts > 0
    large = np.bincount(GROUP) >= 64
    frequencies = by_group(present.mean(axis=0))
    np.testing.assert_allclose(frequencies[large], GROUPS[large, 2], atol=0.05)
    means = by_group(source.impacts.sum(axis=0)) / by_group(present.sum(axis=0))
    np.testing.assert_allclose(means, GROUPS[:, 4], rtol=0.1)
    assert source.terms[-1] + 1 == len(source.vocabulary) == LAST[-1]


def test_queries_are_as_long_as_captions_and_of_terms_as_frequent() -> None:
    queries = synthetic_queries(2000)
    lengths = [sum(query.terms.values()) for query in queries]
    assert min(lengths) >= 7 and 11.5 < np.mean(lengths) < 12.1
    used = np.zeros(LAST[-1])
    for query in queries:
        assert query.text == query.pieces
        for term, count in query.terms.items():
            used[term] += count
    shares = np.bincount(GROUP, used) / used.sum()
    np.testing.assert_allclose(shares, GROUPS[:, 1] / GROUPS[:, 1].sum(), atol=0.01)


def test_frequent_words_fall_to_pruning_first() -> None:
    """As on photos, where what nearly all images share tells them apart least."""
    (rows,) = enlarge(synthetic_source(500), 500, 100, "copies")
    frequencies = by_group(np.bincount(rows.terms, minlength=LAST[-1]) / 500)
    assert (np.diff(rows.starts) == 100).all()
    assert frequencies[:4].max() < frequencies[6:].min() / 4
