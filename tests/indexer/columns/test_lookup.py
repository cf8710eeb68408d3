"""All impacts of one document, against the rows the columns were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.indexer.columns.corpus import VOCABULARY, built, random_rows


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("images", [1, 33, 1500])
def test_impacts_of_every_document(tmp_path: Path, images: int, bits: int) -> None:
    rows = random_rows(images, bits, seed=images)
    index = built(tmp_path / "columns", rows, bits)
    terms = np.random.default_rng(0).permutation(VOCABULARY).tolist()
    for document in range(0, images, 1 + images // 100):
        own = slice(rows.starts[document], rows.starts[document + 1])
        right = np.zeros(VOCABULARY, np.int64)
        right[rows.terms[own]] = rows.impacts[own]
        np.testing.assert_array_equal(index.impacts(document, terms), right[terms])
    assert index.impacts(0, []).tolist() == []
