"""Postings read back from columns are those the columns were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.columns.postings import rows_of
from tests.indexer.columns.corpus import VOCABULARY, built, random_rows


@pytest.mark.parametrize(("images", "bits"), [(1, 8), (700, 8), (9000, 8), (1500, 12)])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_every_posting_of_a_live_image(
    tmp_path: Path, images: int, bits: int, share: float
) -> None:
    given = random_rows(images, bits, seed=images)
    columns = built(tmp_path / "columns", given, bits).columns
    live = np.random.default_rng(0).random(images) < share
    right = np.zeros((images, VOCABULARY), np.int64)
    right[np.repeat(np.arange(images), np.diff(given.starts)), given.terms] = given.impacts
    right[~live] = 0
    found, done = np.zeros_like(right), 0
    for chunk in rows_of(columns, live):
        own = columns.order[done : done + len(chunk.starts) - 1]
        found[np.repeat(own, np.diff(chunk.starts)), chunk.terms] = chunk.impacts
        assert chunk.impacts.all()
        done += len(own)
    assert done == images
    np.testing.assert_array_equal(found, right)
