"""Vectors of images: exact scores, ties, graphs; rows are whole or absent after a crash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.dense.vectors import ORIGINS as FILE
from indexer.dense.vectors import (
    AddedRows,
    ImageVectors,
    VectorIndexKind,
    read_origins,
    write_origins,
)
from sparta.errors import InputError
from tests.indexer.dense_parts import LETTERS, random_vectors


def filled(vectors: NDArray[np.float32], kind: VectorIndexKind = "flat") -> ImageVectors:
    made = ImageVectors.create(vectors.shape[2], vectors.shape[1], kind)
    for start in range(0, len(vectors), 17):
        made.add(vectors[start : start + 17])
    return made


@pytest.mark.parametrize("views", [1, 3])
def test_equal_vectors_tie_whatever_their_numbers_and_places(views: int) -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((300, views, 100)).astype(np.float32)
    twins = np.sort(random.choice(300, 40, replace=False))
    vectors[twins] = vectors[twins[0]]
    query = vectors[twins[0], -1] + random.standard_normal(100).astype(np.float32) * 0.1
    found = filled(vectors).nearest(query, 25)
    assert found.images.tolist() == twins[:25].tolist()
    assert len(set(found.scores.tolist())) == 1


def test_the_graph_finds_nearly_all_at_its_own_exact_scores() -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((2000, 2, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    exact, graph = filled(vectors), filled(vectors, "hnsw")
    shared = 0
    for query in random.standard_normal((20, 32)).astype(np.float32):
        right, found = exact.nearest(query, 10), graph.nearest(query, 10)
        assert len(set(found.images.tolist())) == 10
        assert found.scores == pytest.approx(exact.scores(query)[found.images].max(axis=1))
        assert (np.diff(found.scores) <= 0).all()
        shared += len(set(right.images) & set(found.images))
    assert shared > 0.9 * 200


def test_a_file_that_faiss_cannot_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_bytes(b"nothing of the kind")
    for path in (tmp_path / "vectors", tmp_path / "absent"):
        with pytest.raises(InputError, match=f"{path} cannot be read"):
            ImageVectors.open(path, views=1)


def test_vectors_of_another_shape_or_not_finite_are_refused() -> None:
    made = ImageVectors.create(8, 2)
    broken = random_vectors(3, 2)
    broken[1, 1, 3] = np.nan
    for wrong in (random_vectors(3, 1), np.zeros((3, 2, 7), np.float32), broken):
        with pytest.raises(ValueError, match=r"finite vectors \[B, 2, 8\]"):
            made.add(wrong)
    assert len(made) == 0


def test_missing_faiss_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"pip install 'visualsparta\[dense\]'"):
        ImageVectors.create(8, 1)


ORIGINS = [digit * 32 for digit in "0123456789"]
RECORD = 40  # bytes


@pytest.fixture
def rows(tmp_path: Path) -> AddedRows:
    (tmp_path / "manifest.json").write_text("{}")
    return AddedRows(tmp_path, 3, len(LETTERS))


def test_rows_follow_one_another_and_never_change(rows: AddedRows) -> None:
    vectors = random_vectors(10, 3)
    assert rows.origins() == []
    assert rows.vectors(0).shape == (0, 3, 8)
    rows.append(ORIGINS[:4], vectors[:4])
    before = rows.vectors(4)
    rows.append(ORIGINS[4:], vectors[4:])
    assert rows.origins() == ORIGINS
    assert (before == vectors[:4]).all()
    assert (rows.vectors(10, checked=4) == vectors).all()
    # Whoever knows of fewer rows maps these.
    assert (rows.vectors(7) == vectors[:7]).all()


def test_a_part_that_is_made_anew_has_none(rows: AddedRows, tmp_path: Path) -> None:
    rows.append(ORIGINS[:2], random_vectors(2, 3))
    (tmp_path / "manifest.json").write_text("{ }")
    assert AddedRows(tmp_path, 3, len(LETTERS)).origins() == []
    assert rows.origins() == ORIGINS[:2]


@pytest.mark.parametrize("cut", [1, RECORD - 1, RECORD])
def test_what_a_killed_writer_left_is_cut_off(rows: AddedRows, cut: int) -> None:
    """The vectors were written, their records not all of them."""
    vectors = random_vectors(10, 3)
    rows.append(ORIGINS[:4], vectors[:4])
    data = rows.origin_file.read_bytes()
    rows.origin_file.write_bytes(data[:-cut])
    assert rows.origins() == ORIGINS[:3]
    assert (rows.vectors(3) == vectors[:3]).all()
    rows.append(ORIGINS[8:], vectors[8:])
    assert rows.origins() == [*ORIGINS[:3], *ORIGINS[8:]]
    assert (rows.vectors(5) == vectors[[0, 1, 2, 8, 9]]).all()


def test_zeros_at_the_end_are_no_record(rows: AddedRows) -> None:
    """A file system may have made room before a power cut."""
    rows.append(ORIGINS[:2], random_vectors(2, 3))
    with rows.origin_file.open("ab") as file:
        file.write(bytes(2 * RECORD))
    assert rows.origins() == ORIGINS[:2]


def change(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (lambda rows: change(rows.origin_file, RECORD + 3), "origins"),
        (lambda rows: change(rows.vector_file, 3 * 8 * 4 + 3), "vectors"),
        (lambda rows: rows.vector_file.unlink(), "vectors"),
        (lambda rows: rows.vector_file.write_bytes(b"short"), "vectors"),
    ],
)
def test_damage_of_added_rows_is_reported(
    rows: AddedRows, damage: Callable[[AddedRows], object], file: str
) -> None:
    rows.append(ORIGINS[:4], random_vectors(4, 3))
    damage(rows)
    with pytest.raises(InputError, match=f"{file} is damaged: add the dense part again"):
        rows.vectors(len(rows.origins()))


def test_rows_that_were_compared_before_are_not_read_again(rows: AddedRows) -> None:
    rows.append(ORIGINS[:4], random_vectors(4, 3))
    change(rows.vector_file, 0)
    assert np.isfinite(rows.vectors(4, checked=1)).all()


def test_origins_of_rows_come_back(tmp_path: Path) -> None:
    for origins in ([], ["=é", "=a/b", "0" * 32]):
        write_origins(tmp_path, origins)
        assert read_origins(tmp_path).to_pylist() == origins


def test_missing_and_damaged_origins_are_reported(tmp_path: Path) -> None:
    for data in (None, b"", b"something else"):
        if data is not None:
            (tmp_path / FILE).write_bytes(data)
        with pytest.raises(InputError, match=r"origins\.arrow is damaged"):
            read_origins(tmp_path)
