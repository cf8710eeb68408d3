"""Rankings in memory against one image and caption at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eval.pruning import caption_ranking
from eval.pruning.caption_ranking import CaptionQueries, InMemoryRanking, overlap
from sparta.captions.read import CaptionedPhoto
from sparta.metrics import recall
from sparta.tokenizer import WordPieceTokenizer


def test_queries(tokenizer: WordPieceTokenizer) -> None:
    photos = [
        CaptionedPhoto("b", "val", ("dog dog cat", "qqq")),
        CaptionedPhoto("d", "val", ("cat",)),
    ]
    queries = CaptionQueries.of(tokenizer, photos, ["a", "b", "c", "d"])
    words = [tokenizer.vocabulary[term] for term in queries.terms]
    assert sorted(words) == ["cat", "dog"]
    assert [[words[place] for place in text] for text in queries.texts] == [
        ["dog", "dog", "cat"],
        [],
        ["cat"],
    ]
    assert queries.targets.tolist() == [1, 1, 3]


@pytest.mark.parametrize("images", [4, 30])
def test_rank_against_one_at_a_time(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caption_ranking, "LARGEST_BLOCK", 3 * images)
    random = np.random.default_rng(images)
    # Few small whole numbers: ties and images without any of the terms abound.
    weights = random.integers(0, 3, (6, images)) * random.integers(0, 2, (6, images))
    texts = [random.integers(0, 6, random.integers(0, 4)).tolist() for _ in range(50)]
    targets = random.integers(0, images, 50)
    found = CaptionQueries(torch.arange(6), texts, torch.from_numpy(targets)).rank(
        torch.from_numpy(weights).float()
    )
    places = []
    for text, target, first in zip(texts, targets, found.first, strict=True):
        scores = [sum(int(weights[term, image]) for term in text) for image in range(images)]
        order = sorted(range(images), key=lambda image: (-scores[image], image))
        hits = [image for image in order if scores[image]]
        assert first.nonzero()[:, 0].tolist() == sorted(hits[:10])
        places.append(hits.index(target) + 1 if target in hits else max(images, 10) + 1)
    assert found.recall == recall(torch.tensor(places))


def test_overlap() -> None:
    nothing = torch.empty(0)
    reference = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]).bool()
    found = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    # A half and the whole; the last caption finds nothing in the reference.
    assert overlap(
        InMemoryRanking(nothing, found), InMemoryRanking(nothing, reference)
    ) == pytest.approx(75)
