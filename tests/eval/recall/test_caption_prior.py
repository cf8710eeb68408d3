"""Captions compared by probability, against the formula number by number."""

from __future__ import annotations

import math

import pytest
import torch

from eval.recall import caption_prior
from eval.recall.caption_prior import CaptionPosterior, ReferenceImages, log_mean_exp
from eval.recall.score_matrix import DenseScores, Scores, SparseScores
from sparta.metrics import LARGEST_BLOCK

TEXTS, IMAGES, OTHERS = 6, 4, 9


def pair(kind: str) -> tuple[Scores, Scores]:
    """Scores of the same texts for images and for other images."""
    random = torch.Generator().manual_seed(3)
    if kind == "dense":
        texts = torch.randn(TEXTS, 5, generator=random)
        whole: Scores = DenseScores(texts, torch.randn(IMAGES + OTHERS, 2, 5, generator=random))
    else:
        weights = torch.rand(7, IMAGES + OTHERS, generator=random) + 2
        whole = SparseScores.of([[0], [1, 1, 2], [3, 4, 5, 6], [], [2, 6], [5]], weights)
    return whole.select(slice(None), slice(IMAGES)), whole.select(slice(None), slice(IMAGES, None))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("block", [LARGEST_BLOCK, 2 * OTHERS])
def test_parts_of_the_matrix(
    kind: str, temperature: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caption_prior, "LARGEST_BLOCK", block)
    images, others = pair(kind)
    found = CaptionPosterior.of(images, others, temperature)
    expected = torch.empty(TEXTS, IMAGES)
    f, g = images.rows(slice(None)).tolist(), others.rows(slice(None)).tolist()
    for q in range(TEXTS):
        mean = sum(math.exp(g[q][u] / temperature) for u in range(OTHERS)) / OTHERS
        for v in range(IMAGES):
            expected[q, v] = temperature * math.log(math.exp(f[q][v] / temperature) / mean)
    assert found.shape == (TEXTS, IMAGES)
    torch.testing.assert_close(found.rows(slice(1, 4)), expected[1:4], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.columns(slice(2, 4)), expected[:, 2:].T, atol=1e-5, rtol=1e-5)
    some = found.select(slice(2, 6), slice(1, 3))
    assert some.shape == (4, 2)
    torch.testing.assert_close(some.rows(slice(1, 3)), expected[3:5, 1:3], atol=1e-5, rtol=1e-5)


def test_what_all_images_share_plays_no_part() -> None:
    """A term that adds the same to every image changes no caption's place, however often used."""
    random = torch.Generator().manual_seed(0)
    weights = torch.rand(3, IMAGES + OTHERS, generator=random)
    weights[2] = 4.0
    short, long = [[0], [1]], [[0, 2, 2], [1, 2]]
    found = []
    for texts in (short, long):
        whole = SparseScores.of(texts, weights)
        every, own, rest = slice(None), slice(IMAGES), slice(IMAGES, None)
        scores = CaptionPosterior.of(whole.select(every, own), whole.select(every, rest), 0.5)
        found.append(scores.columns(every))
    torch.testing.assert_close(found[0], found[1])


def test_a_large_temperature_takes_the_mean() -> None:
    _, others = pair("sparse")
    mean = others.rows(slice(None)).mean(dim=1)
    torch.testing.assert_close(log_mean_exp(others, 1e4), mean, atol=1e-2, rtol=0)
    assert (log_mean_exp(others, 0.1) > mean + 0.01).sum() == TEXTS - 1  # the empty text has 0


def test_large_scores_do_not_overflow() -> None:
    weights = torch.full((1, 3), 900.0)
    found = log_mean_exp(SparseScores.of([[0, 0]], weights), 0.5)
    torch.testing.assert_close(found, torch.tensor([1800.0]))


def test_a_sample_of_the_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:03}.jpg" for number in range(50)]
    assert ReferenceImages.sample(names, 0.5) == ReferenceImages(names, 0.5)
    monkeypatch.setattr(caption_prior, "SAMPLE", 20)
    chosen = ReferenceImages.sample(names, 0.5).image_ids
    assert len(set(chosen)) == 20 and set(chosen) < set(names) and list(chosen) == sorted(chosen)
    assert ReferenceImages.sample(names, 2.0).image_ids == chosen
