"""Blocks of scores against the whole matrix, computed pair by pair."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eval.recall.score_matrix import DenseScores, MeanScores, Scores, SparseScores

TEXTS, IMAGES, VIEWS, DIMENSION, TERMS = 7, 5, 3, 4, 6


def dense(seed: int = 0) -> DenseScores:
    random = torch.Generator().manual_seed(seed)
    texts = torch.randn(TEXTS, DIMENSION, generator=random)
    return DenseScores(texts, torch.randn(IMAGES, VIEWS, DIMENSION, generator=random))


def sparse() -> SparseScores:
    weights = torch.rand(TERMS, IMAGES, generator=torch.Generator().manual_seed(1))
    return SparseScores.of([[0, 3], [5, 5, 1], [], [2], [4, 0, 1, 1, 1], [], []], weights)


def slow_dense(scores: DenseScores) -> Tensor:
    matrix = torch.zeros(TEXTS, IMAGES)
    for i, text in enumerate(scores.texts):
        for j, views in enumerate(scores.images):
            matrix[i, j] = max(float((text * view).sum()) for view in views)
    return matrix


def slow_sparse(scores: SparseScores) -> Tensor:
    texts = [[0, 3], [5, 5, 1], [], [2], [4, 0, 1, 1, 1], [], []]
    matrix = torch.zeros(TEXTS, IMAGES)
    for i, terms in enumerate(texts):
        for term in terms:
            for j in range(IMAGES):
                matrix[i, j] += scores.weights[term, j]
    return matrix


def ensemble() -> MeanScores:
    return MeanScores([dense(), sparse(), dense(2)])


CASES = [
    (dense(), slow_dense(dense())),
    (sparse(), slow_sparse(sparse())),
    (ensemble(), (slow_dense(dense()) + slow_sparse(sparse()) + slow_dense(dense(2))) / 3),
]


@pytest.mark.parametrize(("scores", "matrix"), CASES, ids=["dense", "sparse", "mean"])
def test_parts_of_the_matrix(scores: Scores, matrix: Tensor) -> None:
    assert scores.shape == (TEXTS, IMAGES)
    for part in (slice(0, 3), slice(2, 3), slice(4, 7), slice(None)):
        torch.testing.assert_close(scores.rows(part), matrix[part])
    for part in (slice(0, 2), slice(4, 5), slice(None)):
        torch.testing.assert_close(scores.columns(part), matrix[:, part].T)
    for texts, images in ((slice(1, 6), slice(2, 5)), (slice(0, 2), slice(0, 1))):
        some = scores.select(texts, images)
        expected = matrix[texts, images]
        assert some.shape == expected.shape
        torch.testing.assert_close(some.rows(slice(0, 2)), expected[:2])
        torch.testing.assert_close(some.columns(slice(0, 2)), expected[:, :2].T)


def test_texts_without_a_known_term_score_zero() -> None:
    scores = SparseScores.of([[], []], torch.rand(3, 4))
    assert torch.equal(scores.rows(slice(0, 2)), torch.zeros(2, 4))
    assert torch.equal(scores.columns(slice(1, 3)), torch.zeros(2, 2))


def test_an_image_that_is_not_a_number_stays_so() -> None:
    scores = dense()
    scores.images[2, 1] = float("nan")
    assert scores.rows(slice(0, 2))[:, 2].isnan().all()
    assert not scores.rows(slice(0, 2))[:, 1].isnan().any()
