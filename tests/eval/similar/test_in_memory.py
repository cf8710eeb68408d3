"""Queries and hits against loops over one image at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from eval.similar.in_memory import HITS, agreement_of, best_hits, photo_queries
from indexer.search.terms.query_by_image import image_query


@pytest.mark.parametrize("terms", [1, 3, 50, None])
def test_queries_are_those_of_searchers(terms: int | None) -> None:
    random = np.random.default_rng(0)
    dense = random.integers(0, 6, (20, 12)) * random.integers(0, 2, (20, 12))
    dense[3] = 0
    impacts = csr_array(dense)
    share = photo_queries(impacts, terms, "share").toarray()
    once = photo_queries(impacts, terms, "once").toarray()
    for row, own in enumerate(dense):
        query = image_query({str(i): int(own[i]) for i in np.flatnonzero(own)}, terms or 12)
        assert {str(i): share[row, i] for i in np.flatnonzero(share[row])} == query
        np.testing.assert_array_equal(once[row] > 0, share[row] > 0)
    kept = photo_queries(impacts, terms, "impact").toarray()
    np.testing.assert_array_equal(kept, dense * once)
    np.testing.assert_array_equal(impacts.toarray(), dense)


@pytest.mark.parametrize("images", [4, 60])
def test_hits_and_agreement_one_by_one(images: int) -> None:
    random = np.random.default_rng(1)
    dense = random.integers(0, 3, (images, 5)) * (random.random((images, 5)) < 0.4)
    asked = np.array([0, 3])
    agreement = random.random((2, images))
    hits = best_hits(csr_array(dense.T), asked, csr_array(dense[asked]))
    for row, image in enumerate(asked):
        scores = dense @ dense[image]
        others = [other for other in range(images) if other != image and scores[other]]
        best = sorted(others, key=lambda other: (-scores[other], other))[:HITS]
        assert sorted(hit for hit in hits[row] if hit >= 0) == sorted(best)
        mean = sum(agreement[row, other] for other in best) / min(HITS, images)
        assert agreement_of(agreement, hits)[row] == pytest.approx(mean)
