"""Columns hold what went into them, whatever order the images stand in."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from indexer.columns.builder import build_columns, lay_out, topical_order
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import (
    BITMAP_SHARE,
    BLOCK,
    GROUP,
    LEVEL_SHARE,
    PLACE_BITS,
    PLACE_MASK,
    PLACES,
    SUPERBLOCK,
    Columns,
)
from indexer.columns.row_files import PostingRows, RowFiles, SpooledRows
from sparta.errors import InputError
from tests.indexer.columns.corpus import VOCABULARY, built, chunks_of, random_rows


def impacts_of(columns: Columns) -> np.ndarray:
    """[N, V] impacts, read entry by entry."""
    found = np.zeros((len(columns.order), VOCABULARY), np.int64)
    for term, row in enumerate(columns.row_of):
        for superblock in range(columns.maxima.shape[1]):
            documents = columns.order[superblock * SUPERBLOCK : (superblock + 1) * SUPERBLOCK]
            if row < 0:
                continue
            first = begins(columns, row, superblock)
            last = first + int(columns.sizes[row, superblock])
            if row < columns.dense:
                levels = levels_of(columns, row, superblock)[: len(documents)]
                impacts = columns.impacts[first:last]
                if row >= len(columns.levels):  # bit by bit, eight images of a byte after another
                    places = np.flatnonzero(levels)
                    impacts = impacts[np.argsort(np.argsort(places % 32 * 8 + places // 32))]
                found[documents[levels > 0], term] = impacts
                own = np.zeros(PLACES, np.int64)
                own[np.flatnonzero(levels)] = np.ceil(impacts / columns.steps[row])
                if row >= len(columns.levels):  # a block has the level of its largest impact
                    own = np.repeat(own.reshape(-1, BLOCK).max(axis=1), BLOCK)
                np.testing.assert_array_equal(
                    levels, np.where(levels > 0, own[: len(documents)], 0)
                )
            else:
                for posting in columns.postings[first:last]:
                    found[documents[posting & PLACE_MASK], term] = posting >> PLACE_BITS
    return found


def begins(columns: Columns, row: int, superblock: int) -> int:
    """Where a superblock of a row begins."""
    group = superblock // GROUP
    before = columns.sizes[row, group * GROUP : superblock].tolist()
    return int(columns.bases[row]) + int(columns.anchors[row, group]) + sum(before)


def levels_of(columns: Columns, row: int, superblock: int) -> np.ndarray:
    """[256] what a dense row says of the images of a superblock."""
    if row < len(columns.levels):
        pairs = columns.levels[row, superblock]
        return np.concatenate([pairs & 15, pairs >> 4])
    row -= len(columns.levels)
    tops, bits = np.split(columns.bitmaps[row, superblock], [4])
    bits = np.unpackbits(bits[:, None], axis=1, bitorder="little").T.ravel()
    return bits * np.repeat(np.stack([tops & 15, tops >> 4], axis=1).ravel(), BLOCK)


@pytest.mark.parametrize(("images", "bits"), [(1, 8), (700, 8), (33_000, 8), (1500, 12)])
def test_every_posting_is_there(tmp_path: Path, images: int, bits: int) -> None:
    rows = random_rows(images, bits, seed=images)
    columns = built(tmp_path / "columns", rows, bits).columns
    right = np.zeros((images, VOCABULARY), np.int64)
    right[np.repeat(np.arange(images), np.diff(rows.starts)), rows.terms] = rows.impacts
    np.testing.assert_array_equal(impacts_of(columns), right)
    frequencies = (right > 0).sum(axis=0)
    for share, rows_of_it in ((LEVEL_SHARE, len(columns.levels)), (BITMAP_SHARE, columns.dense)):
        terms = {term for term, row in enumerate(columns.row_of) if 0 <= row < rows_of_it}
        # A term in no image is no column, however few the images.
        assert terms == set(np.flatnonzero((frequencies >= share * images) & (frequencies > 0)))
    for term, row in enumerate(columns.row_of):
        assert (row < 0) == (frequencies[term] == 0)
        if row >= 0:
            assert columns.maxima[row].max() == right[:, term].max()
    for superblock in range(columns.maxima.shape[1]):
        own = columns.order[superblock * SUPERBLOCK : (superblock + 1) * SUPERBLOCK]
        for term, row in enumerate(columns.row_of):
            if row >= 0:
                assert columns.maxima[row, superblock] == right[own, term].max()


@pytest.mark.parametrize("marked", [False, True])
def test_superblocks_that_are_full_of_a_rare_term(tmp_path: Path, marked: bool) -> None:
    """Each term in all images of one superblock and no others, over more than one group of them."""
    images = VOCABULARY * SUPERBLOCK
    terms = np.arange(images, dtype=np.int32) // SUPERBLOCK
    impacts = 1 + np.arange(images) % SUPERBLOCK
    rows = PostingRows(np.arange(images + 1), terms, impacts)
    shares = (LEVEL_SHARE, 0.02 if marked else BITMAP_SHARE)

    def unchanged(rows: SpooledRows) -> np.ndarray:
        return np.arange(len(rows), dtype=np.int32)

    build_columns(tmp_path / "columns", [rows], VOCABULARY, 8, shares=shares, ordered=unchanged)
    index = ColumnIndex.open(tmp_path / "columns")
    columns = index.columns
    assert len(columns.bitmaps) == (VOCABULARY if marked else 0)
    assert columns.sizes.max() == SUPERBLOCK
    assert columns.anchors.shape[1] > 1
    right = np.zeros((images, VOCABULARY), np.int64)
    right[np.arange(images), terms] = impacts
    np.testing.assert_array_equal(impacts_of(columns), right)
    for term in range(VOCABULARY):
        documents, scores = index.top({term: 2}, SUPERBLOCK + 1)
        last = (term + 1) * SUPERBLOCK - 1
        assert documents.tolist() == list(range(last, last - SUPERBLOCK, -1))
        assert scores.tolist() == list(range(2 * SUPERBLOCK, 0, -2))


def test_threads_change_no_byte(tmp_path: Path) -> None:
    made: list[dict[str, bytes]] = []
    told: dict[int, list[tuple[str, int, int]]] = {1: [], 3: []}
    for threads, done in told.items():
        folder = tmp_path / f"{threads}"
        folder.mkdir()
        with closing(RowFiles(tmp_path, VOCABULARY, 8)) as files:
            for chunk in chunks_of(random_rows(60_000, 8, seed=3), 9_000):
                files.add(chunk)
            lay_out(folder, files.rows(), lambda *step: done.append(step), threads=threads)  # noqa: B023
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1] and made[0].keys() == {f"{name}.npy" for name in Columns._fields}
    assert told[1] == told[3] and told[1][-1] == ("columns", 60_000, 60_000)


@pytest.mark.parametrize(("frequent", "bitmaps"), [(2, 30), (10, 0)])
def test_bitmaps_are_for_postings_that_levels_do_not_have(
    tmp_path: Path, frequent: int, bitmaps: int
) -> None:
    """30 terms in a tenth of the images, and some in half of them, of the postings 1/4 or 5/8."""
    images = np.arange(1000)
    terms = [images % 2 == term % 2 for term in range(frequent)]
    terms += [images % 10 == term % 10 for term in range(30)]
    matrix = csr_array(np.array(terms, np.int64).T)
    rows = PostingRows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
    build_columns(tmp_path / "columns", chunks_of(rows, 300), VOCABULARY, 8)
    columns = Columns.map(tmp_path / "columns")
    assert (len(columns.levels), len(columns.bitmaps)) == (frequent, bitmaps)


def spooled(folder: Path, rows: PostingRows) -> RowFiles:
    files = RowFiles(folder, VOCABULARY, 8)
    for chunk in chunks_of(rows, 300):
        files.add(chunk)
    return files


def test_images_alike_are_neighbours(tmp_path: Path) -> None:
    """Eight kinds of images, shuffled: the order brings each kind together again."""
    rng = np.random.default_rng(0)
    kinds = rng.permutation(np.repeat(np.arange(8), SUPERBLOCK))
    own = [rng.choice(np.arange(5 * kind, 5 * kind + 5), 4, replace=False) for kind in kinds]
    rows = PostingRows(
        np.arange(0, 4 * len(kinds) + 1, 4), np.concatenate(own), rng.integers(1, 9, 4 * len(kinds))
    )
    files = spooled(tmp_path, rows)
    order = topical_order(files.rows())
    assert sorted(order) == list(range(len(kinds)))
    np.testing.assert_array_equal(order, topical_order(files.rows()))
    files.close()
    of_superblocks = kinds[order].reshape(-1, SUPERBLOCK)
    assert np.mean([len(set(kinds_there)) for kinds_there in of_superblocks]) <= 3  # of 8


def test_terms_and_impacts_out_of_range_are_refused(tmp_path: Path) -> None:
    starts = np.array([0, 1])
    for term, impact, name in ((VOCABULARY, 1, "terms"), (-1, 1, "terms"), (0, 256, "impacts")):
        chunk = PostingRows(starts, np.array([term]), np.array([impact]))
        with pytest.raises(InputError, match=name):
            build_columns(tmp_path / f"{term} {impact}", [chunk], VOCABULARY, 8)
