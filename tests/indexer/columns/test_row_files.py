"""Postings are read from the files in parts, which leave memory again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.columns.builder import lay_out
from indexer.columns.row_files import RowFiles
from indexer.postings import Postings
from sparta.errors import InputError
from tests.indexer.columns.corpus import VOCABULARY, chunks_of, random_rows


@pytest.mark.parametrize("bits", [8, 12])
def test_images_are_read_in_any_order(tmp_path: Path, bits: int) -> None:
    whole = random_rows(50, bits, seed=1)
    assert 0 in np.diff(whole.starts)
    with closing(RowFiles(tmp_path, VOCABULARY, bits)) as files:
        for chunk in chunks_of(whole, 7):
            files.add(chunk)
        rows = files.rows()
        np.testing.assert_array_equal(rows.firsts, whole.starts[:-1])
        np.testing.assert_array_equal(rows.lengths, np.diff(whole.starts))
        np.testing.assert_array_equal(
            rows.frequencies, np.bincount(whole.terms, minlength=VOCABULARY)
        )
        np.testing.assert_array_equal(
            files.totals, np.bincount(whole.terms, whole.impacts, VOCABULARY)
        )
        images = np.array([49, 3, 3, 0, 20])
        found = rows.take(images)
        for place, image in enumerate(images):
            own, there = (
                slice(starts[number], starts[number + 1])
                for starts, number in ((whole.starts, image), (found.starts, place))
            )
            np.testing.assert_array_equal(found.terms[there], whole.terms[own])
            np.testing.assert_array_equal(found.impacts[there], whole.impacts[own])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("term", "impact"), [(VOCABULARY, 1), (-1, 1), (0, 256), (0, -1)])
def test_what_is_out_of_range_is_refused(tmp_path: Path, term: int, impact: int) -> None:
    terms, impacts = np.array([3, term], np.int32), np.array([7, impact], np.int32)
    bad = Postings.without_grounding(["a"], [{}], np.array([0, 2]), terms, impacts)
    with (
        closing(RowFiles(tmp_path, VOCABULARY, 8)) as files,
        pytest.raises(InputError, match="impacts from 0 to 255"),
    ):
        files.add(bad)


def test_no_file_of_postings_is_mapped(tmp_path: Path) -> None:
    """Pages of mapped files that were read count as memory, as many as there are postings."""
    mapped: list[str] = []
    with closing(RowFiles(tmp_path, VOCABULARY, 8)) as files:
        for chunk in chunks_of(random_rows(1000, 8, seed=2), 500):
            files.add(chunk)
        rows = files.rows()
        (tmp_path / "columns").mkdir()
        lay_out(
            tmp_path / "columns",
            rows,
            lambda *_: mapped.append(Path("/proc/self/maps").read_text()),
        )
    assert mapped
    assert not [text for text in mapped if str(rows.terms) in text or str(rows.impacts) in text]
