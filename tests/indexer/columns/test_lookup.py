"""All impacts of some documents, against the rows the columns were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.indexer.columns.corpus import VOCABULARY, built, random_rows


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("images", [1, 33, 1500])
def test_impacts_of_documents(tmp_path: Path, images: int, bits: int) -> None:
    rows = random_rows(images, bits, seed=images)
    index = built(tmp_path / "columns", rows, bits)
    rng = np.random.default_rng(0)
    terms = rng.permutation(VOCABULARY).tolist()
    documents = rng.permutation(images)[:100].tolist()
    right = np.zeros((len(documents), VOCABULARY), np.int64)
    for row, document in enumerate(documents):
        own = slice(rows.starts[document], rows.starts[document + 1])
        right[row, rows.terms[own]] = rows.impacts[own]
    np.testing.assert_array_equal(index.impacts(documents, terms), right[:, terms])
    assert index.impacts([0], []).shape == (1, 0)
    assert index.impacts([], [0]).shape == (0, 1)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("images", [1, 33, 1500])
def test_impacts_of_a_term(tmp_path: Path, images: int, bits: int) -> None:
    index = built(tmp_path / "columns", random_rows(images, bits, seed=images), bits)
    right = index.impacts(range(images), range(VOCABULARY))
    for term in range(VOCABULARY):
        np.testing.assert_array_equal(index.term_impacts(term), right[:, term])
