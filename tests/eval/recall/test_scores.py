"""Score matrices and captions compared by probability, against the formulas number by number."""

import math

import pytest
import torch
from torch import Tensor

from eval.recall import scores as module
from eval.recall.scores import (
    ReferenceImages,
    Scores,
    caption_posterior,
    dense_scores,
    mean_scores,
    sparse_scores,
)
from sparta.metrics import LARGEST_BLOCK

TEXTS, IMAGES, VIEWS, DIMENSION, TERMS = 7, 12, 3, 4, 6
WORDS = [[0, 3], [5, 5, 1], [], [2], [4, 0, 1, 1, 1], [], []]
ALL = slice(None)


def dense(seed: int = 0) -> tuple[Scores, Tensor]:
    """Scores, and each number of them by its own loop."""
    random = torch.Generator().manual_seed(seed)
    texts = torch.randn(TEXTS, 1, DIMENSION, generator=random)
    images = torch.randn(IMAGES, VIEWS, DIMENSION, generator=random)
    slow = [[max(float(text[0] @ view) for view in own) for own in images] for text in texts]
    return dense_scores(texts, images), torch.tensor(slow)


def sparse() -> tuple[Scores, Tensor]:
    weights = torch.rand(TERMS, IMAGES, generator=torch.Generator().manual_seed(1)) + 0.5
    slow = [[sum(float(weights[t, j]) for t in text) for j in range(IMAGES)] for text in WORDS]
    return sparse_scores(WORDS, weights), torch.tensor(slow)


def ensemble() -> tuple[Scores, Tensor]:
    members = dense(), sparse(), dense(2)
    slow = torch.stack([slow for _, slow in members])
    return mean_scores([scores for scores, _ in members]), slow.mean(dim=0)


CASES = pytest.mark.parametrize(
    ("scores", "matrix"), [dense(), sparse(), ensemble()], ids=["dense", "sparse", "mean"]
)


def agree(scores: Scores, matrix: Tensor) -> None:
    assert scores.shape == matrix.shape
    for part in (slice(0, 2), slice(2, 3), slice(3, None), ALL):
        torch.testing.assert_close(scores.rows(part), matrix[part], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scores.columns(part), matrix[:, part].T, atol=1e-5, rtol=1e-5)


@CASES
def test_parts_of_the_matrix(scores: Scores, matrix: Tensor) -> None:
    agree(scores, matrix)
    for texts, images in ((slice(1, 6), slice(2, 12)), (slice(0, 5), slice(0, 6))):
        some = scores.select(texts, images)
        agree(some, matrix[texts, images])
        agree(some.select(slice(1, 5), ALL), matrix[texts, images][1:5])


@CASES
@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("block", [LARGEST_BLOCK, 16])
def test_parts_of_the_posterior(
    scores: Scores, matrix: Tensor, temperature: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_BLOCK", block)
    shown, others = scores.select(ALL, slice(4)), scores.select(ALL, slice(4, None))
    found = caption_posterior(shown, others, temperature)
    expected = torch.empty(TEXTS, 4)
    for q, row in enumerate(matrix.tolist()):
        mean = sum(math.exp(one / temperature) for one in row[4:]) / len(row[4:])
        for v in range(4):
            expected[q, v] = temperature * math.log(math.exp(row[v] / temperature) / mean)
    agree(found, expected)
    agree(found.select(slice(1, 6), ALL), expected[1:6])


def test_an_image_that_is_not_a_number_stays_so() -> None:
    images = torch.randn(5, VIEWS, DIMENSION)
    images[2, 1] = float("nan")
    found = dense_scores(torch.randn(TEXTS, 1, DIMENSION), images).rows(slice(0, 2))
    assert found[:, 2].isnan().all() and not found[:, 1].isnan().any()


def test_large_scores_do_not_overflow() -> None:
    scores = sparse_scores([[0, 0]], torch.full((1, 3), 900.0))
    found = caption_posterior(scores, scores, 0.5)
    torch.testing.assert_close(found.rows(ALL), torch.zeros(1, 3))


def test_a_sample_of_the_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:03}.jpg" for number in range(50)]
    assert ReferenceImages.sample(names, 0.5) == ReferenceImages(names, 0.5)
    monkeypatch.setattr(module, "SAMPLE", 20)
    chosen = ReferenceImages.sample(names, 0.5).image_ids
    assert len(set(chosen)) == 20 and set(chosen) < set(names) and list(chosen) == sorted(chosen)
    assert ReferenceImages.sample(names, 2.0).image_ids == chosen
