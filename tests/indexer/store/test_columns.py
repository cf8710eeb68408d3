"""Columns of random postings: what they hold, and the kernels in C and NumPy that search them."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.columns import builder
from indexer.columns import index as column_index
from indexer.columns import postings as in_numpy
from indexer.columns.builder import lay_out, topical_order
from indexer.columns.index import ColumnIndex, MaskCache
from indexer.columns.layout import (
    BITMAP_SHARE,
    BLOCK,
    LEVELS,
    NARROW,
    SUPERBLOCK,
    Columns,
    PostingRows,
    SpooledRows,
)
from indexer.columns.postings import rows_of
from indexer.store.memtable import Memtable
from sparta.errors import InputError
from tests.indexer.store.images import (
    VOCABULARY,
    built,
    exact_top,
    new_images,
    random_rows,
    spooled,
)

try:
    from indexer.columns import native
except ImportError:  # the package was built without a compiler
    native = None  # type: ignore[assignment]

pytestmark = pytest.mark.skipif(native is None, reason="needs the compiled kernel")
ENGINES = [pytest.param(in_numpy, id="NumPy"), pytest.param(native, id="C")]
KERNELS = [(in_numpy, True), (native, True), (native, False)]
ALL: NDArray[np.bool_] = np.empty(0, np.bool_)

# Images and bits: ends of blocks and superblocks, and enough of these that some are passed over.
SHAPES = [
    (1, 8),
    (BLOCK - 1, 10),
    (SUPERBLOCK, 4),
    (SUPERBLOCK + BLOCK + 1, 12),
    (9000, 6),
    (33_000, 8),
    (700, 8),
    (9000, 9),
    (20_000, 12),
    (5, 12),
    (700, 16),
    (9000, 16),
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


def best(
    one: ModuleType,
    avx2: bool,
    segments: Sequence[ColumnIndex],
    terms: Mapping[int, int],
    k: int,
    allowed: NDArray[np.bool_] | None = None,
    kind: Any = np.uint32,
) -> list[tuple[int, int]]:
    """Documents and scores by a kernel, in C with the processor's AVX2 or as without it."""
    firsts = np.cumsum([0, *map(len, segments)])
    parts = [] if allowed is None else np.split(allowed, firsts[1:-1])
    occupied = [
        in_numpy.occupied(index.columns.order, own)
        for index, own in zip(segments, parts, strict=False)
    ]
    former = native._native.use_avx2(avx2)
    documents, scores = one.best_documents(
        [one.open_columns(index.columns) for index in segments],
        firsts[:-1],
        np.array(list(terms), np.int64),
        np.array(list(terms.values()), kind),
        ALL if allowed is None else allowed,
        np.concatenate([ALL, *occupied]),
        k,
    )
    native._native.use_avx2(former)
    assert (documents.dtype, scores.dtype) == (np.int32, np.int64)
    return list(zip(documents.tolist(), scores.tolist(), strict=True))


def ordered(scores: dict[int, int]) -> list[tuple[int, int]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


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


@pytest.mark.parametrize("marked", [False, True])
def test_superblocks_that_are_full_of_a_rare_term(tmp_path: Path, marked: bool) -> None:
    """Each term in all images of one superblock and no others, over more than one group of them."""
    images = VOCABULARY * SUPERBLOCK
    terms = np.arange(images, dtype=np.int32) // SUPERBLOCK
    impacts = 1 + np.arange(images) % SUPERBLOCK
    rows = PostingRows(np.arange(images + 1), terms, impacts)

    def unchanged(rows: SpooledRows) -> np.ndarray:
        return np.arange(len(rows), dtype=np.int32)

    bitmaps = 0.02 if marked else BITMAP_SHARE
    index = built(tmp_path / "columns", rows, 8, bitmaps, unchanged)
    columns = index.columns
    assert len(columns.bitmaps) == (VOCABULARY if marked else 0)
    assert columns.sizes.max() == SUPERBLOCK
    assert columns.anchors.shape[1] > 1
    for term in range(VOCABULARY):
        last = (term + 1) * SUPERBLOCK - 1
        right = [(last - rank, 2 * (SUPERBLOCK - rank)) for rank in range(SUPERBLOCK)]
        for one, avx2 in KERNELS[1:]:  # NumPy takes long
            assert best(one, avx2, [index], {term: 2}, SUPERBLOCK + 1) == right


@pytest.mark.parametrize("bits", [8, 12])
def test_neither_threads_nor_kernels_change_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    made: list[dict[str, bytes]] = []
    told: list[list[tuple[str, int, int]]] = []
    monkeypatch.setattr(builder, "BITMAP_SHARE", 0.02)
    monkeypatch.setattr(builder, "MOST_IN_LEVELS", 1)
    for number, (threads, kernel) in enumerate([(1, native), (3, native), (2, in_numpy)]):
        folder, done = tmp_path / f"{number}", list[tuple[str, int, int]]()
        folder.mkdir()
        own = {"survey": kernel.survey, "fill": kernel.fill}  # NumPy's projections round otherwise
        monkeypatch.setattr(builder, "kernel", SimpleNamespace(**vars(native) | own))
        with spooled(tmp_path, random_rows(60_000, bits, seed=3), 9_000, bits) as rows:
            lay_out(folder, rows, lambda *step: done.append(step), threads=threads)  # noqa: B023
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
        told.append(done)
    assert made[0] == made[1] == made[2]
    assert made[0].keys() == {f"{name}.npy" for name in Columns._fields}
    columns = Columns.map(tmp_path / "0")
    assert all(len(part) for part in (columns.levels, columns.bitmaps, columns.postings))
    assert told[0] == told[1] == told[2] and told[0][-1] == ("columns", 60_000, 60_000)


@pytest.mark.parametrize("one", ENGINES)
def test_products_and_transposes_are_those_of_matrices(one: ModuleType) -> None:
    rows = random_rows(500, 8, seed=4)
    rows = PostingRows(rows.starts, rows.terms.astype(np.uint16), rows.impacts.astype(np.uint8))
    matrix, rng = matrix_of(rows).astype(np.float64), np.random.default_rng(0)
    directions = rng.standard_normal((VOCABULARY, 5), np.float32)
    points = one.project(rows, directions)
    np.testing.assert_allclose(points, matrix @ directions, rtol=1e-3, atol=1e-2)
    back = one.project_back(rows, points, VOCABULARY)
    np.testing.assert_allclose(back, matrix.T @ points.astype(np.float64), rtol=1e-3, atol=1)
    assert points.dtype == back.dtype == np.float32
    numbers, values = rows.terms.astype(np.int32), rows.impacts.astype(np.uint16)
    starts, images, impacts = one.transpose(rows.starts, numbers, values, VOCABULARY)
    made = np.zeros((VOCABULARY, 500), np.int64)
    made[np.repeat(np.arange(VOCABULARY), np.diff(starts)), images] = impacts
    np.testing.assert_array_equal(made, matrix.T)
    for term in range(VOCABULARY):
        assert (np.diff(images[starts[term] : starts[term + 1]]) > 0).all()


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


# ---- kernels -------------------------------------------------------------------------------------


def test_the_compiled_engine_is_used() -> None:
    assert column_index.kernel is native


@pytest.mark.parametrize("clone", [True, False])
def test_without_it_one_warning_says_what_to_do(clone: bool, tmp_path: Path) -> None:
    code = """
import sys
sys.modules["indexer.columns.native._native"] = None
from indexer.columns import index
from indexer.columns import postings as in_numpy
from indexer import grounding
from indexer.filters import evaluate
from indexer.store import segment
assert segment.kernel is in_numpy and grounding.find_winners is None
"""
    for room in ("indexer", "sparta"):
        (tmp_path / room).symlink_to(Path(native.__file__).parents[3] / room)
    if clone:
        (tmp_path / "pyproject.toml").touch()
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    remedy = (
        f"these are the sources in {tmp_path}: run in another folder if VisualSparta is installed, "
        f"else pip install --editable {tmp_path}, which needs a C compiler"
        if clone
        else "install a wheel of VisualSparta, or a C compiler and then VisualSparta again"
    )
    assert run.stderr == (
        f"the search kernel is missing, and a search takes some 400 times as long: {remedy}\n"
    )


@settings(max_examples=400)
@given(data=st.data())
def test_the_best_of_segments_are_exact(corpora: list[Corpus], data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from(sorted({bits for _, bits in SHAPES})), label="bits")
    own = [one for one, (_, kind) in zip(corpora, SHAPES, strict=True) if kind == bits]
    segments = data.draw(st.permutations(own), label="order")[: data.draw(st.integers(0, 4))]
    term = st.integers(0, VOCABULARY - 1)
    terms = data.draw(st.dictionaries(term, st.integers(1, 4), max_size=20), label="terms")
    k = data.draw(st.sampled_from([1, 2, 10, 400, 1000]) | st.integers(1, 40), label="k")
    share = data.draw(st.sampled_from([None, 0.0, 0.01, 0.5, 1.0]), label="share allowed")
    fits = sum(terms.values()) * (2**bits - 1 + LEVELS) < NARROW
    kind = data.draw(st.sampled_from([np.uint16, np.uint32] if fits else [np.uint32]), label="sums")
    first, right, allowed = 0, list[tuple[int, int]](), None
    if share is not None:
        images = sum(len(index) for _, index in segments)
        allowed = np.random.default_rng(k).random(images) < share
    for rows, index in segments:
        some = None if allowed is None else allowed[first : first + len(index)]
        right += [(first + place, score) for place, score in exact_top(rows, terms, k, some)]
        first += len(index)
    for one, avx2 in KERNELS:
        found = best(one, avx2, [index for _, index in segments], terms, k, allowed, kind)
        assert ordered(dict(found))[:k] == ordered(dict(right))[:k]
        assert len(segments) > 1 or found == ordered(dict(right))[:k]


def test_threads_may_ask_at_once(corpora: list[Corpus]) -> None:
    rows, index = corpora[4]
    queries = [{i % VOCABULARY: 1, (7 * i) % VOCABULARY: 2} for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda terms: best(native, True, [index], terms, 10), queries))
    assert found == [exact_top(rows, terms, 10) for terms in queries]


@pytest.mark.parametrize("one", ENGINES)
@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("floor", [0, 1, 40, 10**6])
def test_the_best_of_the_newest_and_all_that_tie_with_the_last(
    one: ModuleType, bits: int, floor: int
) -> None:
    own = new_images(300, bits)
    newest = Memtable.empty(VOCABULARY, bits).after(own[:17]).after(own[17:])
    impacts = newest.impacts(range(300), range(VOCABULARY)).astype(np.int64)
    for image, row in zip(own, impacts, strict=True):
        assert row[image.terms].tolist() == image.impacts.tolist()
        assert row.sum() == image.impacts.sum()
    rng = np.random.default_rng(bits)
    for draw in range(16):
        terms = rng.permutation(VOCABULARY)[: draw % 9]
        kind: Any = np.uint16 if draw % 2 and bits < 16 else np.uint32
        counts = rng.integers(1, 4, len(terms)).astype(kind)
        allowed = rng.random(300) < 0.3 if draw % 3 else ALL
        k = [1, 3, 50, 300][draw % 4]
        numbers, scores = one.best_of_newest(newest.columns, 300, terms, counts, allowed, k, floor)
        sums = (impacts[:, terms] @ counts) * (allowed if len(allowed) else 1)
        least = max(1, floor, np.sort(sums)[-k])
        right = {image: int(sums[image]) for image in np.flatnonzero(sums >= least).tolist()}
        found = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        assert ordered(found)[:k] == ordered(right)[:k]
        assert found == right or one is in_numpy  # which may return more
        assert (numbers.dtype, scores.dtype) == (np.int32, np.int64)


def test_wrong_arguments_of_the_kernel_are_refused(corpora: list[Corpus]) -> None:
    index = corpora[SHAPES.index((33_000, 8))][1]
    for term in (-1, VOCABULARY):
        with pytest.raises(ValueError, match=f"{term} is not from 0 to {VOCABULARY - 1}"):
            best(native, True, [index], {term: 1}, 3)
    positions, row_of = np.array([0], np.int32), np.zeros(1, np.int32)
    for term, place, message in ((1, 0, "do not fit the columns"), (0, -1, "fit together")):
        rows = PostingRows(np.array([0, 1]), np.array([term], np.uint16), np.ones(1, np.uint8))
        maxima, sizes = np.zeros((1, 1), np.uint8), np.zeros((1, 32), np.uint8)
        with pytest.raises(ValueError, match=message):
            native.survey(positions + np.int32(place), rows, 0, row_of, maxima, sizes)
    with pytest.raises(ValueError, match="PyCapsule"):
        none = np.empty(0, np.int64)
        native.best_documents([index.columns], none, none, none, ALL, ALL, 3)
    with pytest.raises(ValueError, match="is not from"):
        native.impacts_at(index.columns, np.array([len(index)]), np.array([0]))
    with pytest.raises(ValueError, match="is not from"):
        native.impacts_of_row(index.columns, len(index.columns.maxima))


def test_only_masks_that_stay_as_they_are_are_remembered() -> None:
    remembered: MaskCache[int] = MaskCache()
    mask = np.ones(3, np.bool_)
    assert remembered.of(mask, np.count_nonzero) == 3
    mask[0] = False
    mask.flags.writeable = False
    assert remembered.of(mask, np.count_nonzero) == 2
    assert remembered.of(mask, Mock(side_effect=AssertionError)) == 2
