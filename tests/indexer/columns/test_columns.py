"""Columns of random postings: what they hold and what they answer, against exact scores."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.columns.builder import lay_out, topical_order
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import (
    BITMAP_SHARE,
    BLOCK,
    LEVEL_SHARE,
    SUPERBLOCK,
    Columns,
    PostingRows,
    SpooledRows,
)
from indexer.columns.postings import rows_of
from sparta.errors import InputError
from tests.indexer.columns.corpus import (
    VOCABULARY,
    built,
    exact_top,
    random_rows,
    spooled,
    top,
)

# Images and bits: ends of blocks and superblocks, and enough of these that some are passed over.
SHAPES = [
    (1, 8),
    (BLOCK - 1, 10),
    (SUPERBLOCK, 4),
    (SUPERBLOCK + BLOCK + 1, 12),
    (9000, 6),
    (33_000, 8),
    (9000, 9),
    (20_000, 12),
    (700, 16),
]
Corpus = tuple[PostingRows, ColumnIndex]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    folder = tmp_path_factory.mktemp("columns")
    made = []
    for number, (images, bits) in enumerate(SHAPES):
        rows = random_rows(images, bits, seed=number)
        made.append((rows, built(folder / str(number), rows, bits)))
    return made


def matrix_of(rows: PostingRows) -> np.ndarray:
    """[N, V] impacts."""
    found = np.zeros((len(rows.starts) - 1, VOCABULARY), np.int64)
    found[np.repeat(np.arange(len(found)), np.diff(rows.starts)), rows.terms] = rows.impacts
    return found


def test_the_corpora_have_dense_columns_and_lists(corpora: list[Corpus]) -> None:
    large = [index.columns for rows, index in corpora if len(index) > SUPERBLOCK]
    assert large
    assert all(columns.dense and len(columns.postings) for columns in large)
    assert any(columns.anchors.shape[1] > 1 for columns in large)
    assert {columns.impacts.dtype for columns in large} == {np.dtype("u1"), np.dtype("u2")}


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_impacts_come_back_by_image_by_term_and_row_by_row(
    corpora: list[Corpus], share: float
) -> None:
    for rows, index in corpora:
        right, columns, rng = matrix_of(rows), index.columns, np.random.default_rng(0)
        terms, images = rng.permutation(VOCABULARY).tolist(), rng.permutation(len(right))[:100]
        found = index.impacts(images.tolist(), terms)
        np.testing.assert_array_equal(found, right[images][:, terms])
        for term in range(VOCABULARY):
            np.testing.assert_array_equal(index.term_impacts(term), right[:, term])
        live = rng.random(len(right)) < share
        parts = list(rows_of(columns, live))
        assert all(part.impacts.all() for part in parts)
        read = np.concatenate([matrix_of(part) for part in parts])
        np.testing.assert_array_equal(read, (right * live[:, np.newaxis])[columns.order])
    assert index.impacts([0], []).shape == (1, 0)
    assert index.impacts([], [0]).shape == (0, 1)


@settings(max_examples=400)
@given(data=st.data())
def test_answers_are_exact_and_in_order(corpora: list[Corpus], data: st.DataObject) -> None:
    rows, index = data.draw(st.sampled_from(corpora), label="corpus")
    term = st.integers(0, VOCABULARY - 1)
    terms = data.draw(st.dictionaries(term, st.integers(1, 4), max_size=20), label="terms")
    k = data.draw(st.sampled_from([1, 2, 10, 100, 1000]) | st.integers(1, 1000), label="k")
    share = data.draw(st.sampled_from([None, 0.0, 0.01, 0.5, 1.0]), label="share allowed")
    allowed = None
    if share is not None:
        allowed = np.random.default_rng(k).random(len(index)) < share
    assert top(index, terms, k, allowed) == exact_top(rows, terms, k, allowed)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    images=st.integers(1, 1200),
    bits=st.integers(4, 12),
    words=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=15),
    k=st.integers(1, 1000),
)
def test_any_corpus_is_answered_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    images: int,
    bits: int,
    words: list[int],
    k: int,
) -> None:
    rows = random_rows(images, bits, seed)
    index = built(tmp_path_factory.mktemp("any") / "columns", rows, bits)
    terms = Counter(words)
    assert top(index, terms, k) == exact_top(rows, terms, k)


def test_threads_may_ask_at_once(corpora: list[Corpus]) -> None:
    rows, index = corpora[4]
    queries = [{i % VOCABULARY: 1, (7 * i) % VOCABULARY: 2} for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda terms: top(index, terms, 10), queries))
    assert found == [exact_top(rows, terms, 10) for terms in queries]


def test_images_without_terms_are_never_found(tmp_path: Path) -> None:
    empty = PostingRows(np.zeros(4, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    index = built(tmp_path / "columns", empty, 8)
    assert len(index) == 3
    assert top(index, {0: 1, 5: 2}, 10) == []


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

    index = built(tmp_path / "columns", rows, 8, shares, ordered=unchanged)
    columns = index.columns
    assert len(columns.bitmaps) == (VOCABULARY if marked else 0)
    assert columns.sizes.max() == SUPERBLOCK
    assert columns.anchors.shape[1] > 1
    for term in range(VOCABULARY):
        last = (term + 1) * SUPERBLOCK - 1
        right = [(last - place, 2 * (SUPERBLOCK - place)) for place in range(SUPERBLOCK)]
        assert top(index, {term: 2}, SUPERBLOCK + 1) == right


def test_threads_change_no_byte(tmp_path: Path) -> None:
    made: list[dict[str, bytes]] = []
    told: dict[int, list[tuple[str, int, int]]] = {1: [], 3: []}
    for threads, done in told.items():
        folder = tmp_path / f"{threads}"
        folder.mkdir()
        with spooled(tmp_path, random_rows(60_000, 8, seed=3), 9_000) as rows:
            lay_out(folder, rows, lambda *step: done.append(step), threads=threads)  # noqa: B023
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1] and made[0].keys() == {f"{name}.npy" for name in Columns._fields}
    assert told[1] == told[3] and told[1][-1] == ("columns", 60_000, 60_000)


def test_images_alike_are_neighbours(tmp_path: Path) -> None:
    """Eight kinds of images, shuffled: the order brings each kind together again."""
    rng = np.random.default_rng(0)
    kinds = rng.permutation(np.repeat(np.arange(8), SUPERBLOCK))
    own = [rng.choice(np.arange(5 * kind, 5 * kind + 5), 4, replace=False) for kind in kinds]
    rows = PostingRows(
        np.arange(0, 4 * len(kinds) + 1, 4), np.concatenate(own), rng.integers(1, 9, 4 * len(kinds))
    )
    with spooled(tmp_path, rows, 300) as files:
        order = topical_order(files)
        np.testing.assert_array_equal(order, topical_order(files))
    assert sorted(order) == list(range(len(kinds)))
    of_superblocks = kinds[order].reshape(-1, SUPERBLOCK)
    assert np.mean([len(set(kinds_there)) for kinds_there in of_superblocks]) <= 3  # of 8


@pytest.mark.parametrize(("term", "impact"), [(VOCABULARY, 1), (-1, 1), (0, 256), (0, -1)])
def test_terms_and_impacts_out_of_range_are_refused(tmp_path: Path, term: int, impact: int) -> None:
    bad = PostingRows(np.array([0, 2]), np.array([3, term]), np.array([7, impact]))
    with pytest.raises(InputError, match="impacts from 0 to 255"):
        built(tmp_path / "columns", bad, 8)


def test_no_file_of_postings_is_mapped(tmp_path: Path) -> None:
    """Pages of mapped files that were read count as memory, as many as there are postings."""
    mapped: list[str] = []
    (tmp_path / "columns").mkdir()

    def look(stage: str, done: int, total: int) -> None:
        mapped.append(Path("/proc/self/maps").read_text())

    with spooled(tmp_path, random_rows(1000, 8, seed=2), 500) as rows:
        lay_out(tmp_path / "columns", rows, look)
    assert mapped and not list(tmp_path.glob("*.rows"))
    assert not [text for text in mapped if str(rows.terms) in text or str(rows.impacts) in text]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built(tmp_path / "columns", random_rows(3000, 8, 0), 8)
    return tmp_path / "columns"


@pytest.mark.parametrize(
    ("name", "at", "content"),
    [
        ("order", 40, b"\xff" * 64),
        ("order", 0, bytes(4) * 2),  # an image twice
        ("row_of", 16, b"\x07\0\0\0\x07\0\0\0"),
        ("sizes", 0, b"\1"),
        ("sizes", 31, b"\1"),  # of a superblock that is not there
        ("anchors", 0, b"\1"),
        ("bases", 8, b"\xff\xff"),
        ("steps", 0, b"\0\0"),
    ],
)
def test_damaged_references_between_columns_are_refused(
    folder: Path, name: str, at: int, content: bytes
) -> None:
    path = folder / f"{name}.npy"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - np.load(path).nbytes + at)
        file.write(content)
    with pytest.raises(InputError, match=r"\.npy is damaged: it does not fit the other columns"):
        ColumnIndex.open(folder)


@pytest.mark.parametrize("name", Columns._fields)
def test_columns_of_other_shapes_and_types_are_refused(folder: Path, name: str) -> None:
    path = folder / f"{name}.npy"
    array = np.load(path)
    for other in (array[..., np.newaxis], array.astype(np.float32), np.delete(array, 0, 0)):
        np.save(path, other)
        with pytest.raises(InputError, match=r"\.npy is damaged: it does not fit"):
            ColumnIndex.open(folder)
