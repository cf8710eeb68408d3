"""Score matrices and captions compared by probability, against the formulas number by number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from eval.recall import scores as module
from eval.recall.scores import (
    CaptionPosterior,
    DenseScores,
    MeanScores,
    ReferenceImages,
    Scores,
    SparseScores,
    log_mean_exp,
)
from sparta.metrics import LARGEST_BLOCK

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


def test_an_image_that_is_not_a_number_stays_so() -> None:
    scores = dense()
    scores.images[2, 1] = float("nan")
    assert scores.rows(slice(0, 2))[:, 2].isnan().all()
    assert not scores.rows(slice(0, 2))[:, 1].isnan().any()


ASKED, SHOWN, OTHERS = 6, 4, 9


def pair(kind: str) -> tuple[Scores, Scores]:
    """Scores of the same texts for images and for other images."""
    random = torch.Generator().manual_seed(3)
    if kind == "dense":
        texts = torch.randn(ASKED, 5, generator=random)
        whole: Scores = DenseScores(texts, torch.randn(SHOWN + OTHERS, 2, 5, generator=random))
    else:
        weights = torch.rand(7, SHOWN + OTHERS, generator=random) + 2
        whole = SparseScores.of([[0], [1, 1, 2], [3, 4, 5, 6], [], [2, 6], [5]], weights)
    return whole.select(slice(None), slice(SHOWN)), whole.select(slice(None), slice(SHOWN, None))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("block", [LARGEST_BLOCK, 2 * OTHERS])
def test_parts_of_the_posterior(
    kind: str, temperature: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_BLOCK", block)
    images, others = pair(kind)
    found = CaptionPosterior.of(images, others, temperature)
    expected = torch.empty(ASKED, SHOWN)
    f, g = images.rows(slice(None)).tolist(), others.rows(slice(None)).tolist()
    for q in range(ASKED):
        mean = sum(math.exp(g[q][u] / temperature) for u in range(OTHERS)) / OTHERS
        for v in range(SHOWN):
            expected[q, v] = temperature * math.log(math.exp(f[q][v] / temperature) / mean)
    assert found.shape == (ASKED, SHOWN)
    torch.testing.assert_close(found.rows(slice(1, 4)), expected[1:4], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.columns(slice(2, 4)), expected[:, 2:].T, atol=1e-5, rtol=1e-5)
    some = found.select(slice(2, 6), slice(1, 3))
    assert some.shape == (4, 2)
    torch.testing.assert_close(some.rows(slice(1, 3)), expected[3:5, 1:3], atol=1e-5, rtol=1e-5)


def test_large_scores_do_not_overflow() -> None:
    weights = torch.full((1, 3), 900.0)
    found = log_mean_exp(SparseScores.of([[0, 0]], weights), 0.5)
    torch.testing.assert_close(found, torch.tensor([1800.0]))


def test_a_sample_of_the_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:03}.jpg" for number in range(50)]
    assert ReferenceImages.sample(names, 0.5) == ReferenceImages(names, 0.5)
    monkeypatch.setattr(module, "SAMPLE", 20)
    chosen = ReferenceImages.sample(names, 0.5).image_ids
    assert len(set(chosen)) == 20 and set(chosen) < set(names) and list(chosen) == sorted(chosen)
    assert ReferenceImages.sample(names, 2.0).image_ids == chosen
