"""Queries of a study, their groups, and rankings in memory against one caption at a time."""

import numpy as np
import pytest
import torch

from eval.pruning import queries as module
from eval.pruning.queries import CaptionQueries, InMemoryRanking, QueryGroups, short_queries
from sparta.captions.read import CaptionedPhoto
from sparta.metrics import recall
from sparta.tokenizer import WordPieceTokenizer

PHOTOS = [
    CaptionedPhoto("a", "val", ("a dog on the beach", "the dog")),
    CaptionedPhoto("b", "val", ("red ball", "a red sky", "cat")),
]
FREQUENCIES = {"dog": 999, "beach": 9, "red": 10, "ball": 1, "sky": 1000}


@pytest.mark.parametrize("images", [4, 30])
def test_rank_against_one_at_a_time(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_BLOCK", 3 * images)
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


def test_queries_by_their_rarest_words(tokenizer: WordPieceTokenizer) -> None:
    counts = torch.tensor([FREQUENCIES.get(term, 0) for term in tokenizer.vocabulary])
    found = QueryGroups.of(tokenizer, PHOTOS, ["a", "b"], counts)
    # Short queries: dog; red, cat.
    assert (found.captions, len(found.queries.texts)) == (5, 8)
    assert {name: own.tolist() for name, own in found.others.items()} == {
        "short": [5, 6, 7],
        "captions 1-9": [0, 2],
        "captions 10-99": [2, 3],
        "captions 100-999": [0, 1],
        "short 10-99": [6],
        "short 100-999": [5],
    }
    ranks = torch.tensor([1, 2, 3, 4, 5, 6, 7, 30])
    recalls = found.recalls(InMemoryRanking(ranks, torch.empty(8, 0)))
    assert list(recalls["captions 1-9"]) == [50, 100, 100, 2]
    assert recalls["short"] == pytest.approx((0, 0, 200 / 3, 7))


def made_of(*captions: tuple[str, ...]) -> list[tuple[str, ...]]:
    photos = [CaptionedPhoto(f"{i}.jpg", "val", own) for i, own in enumerate(captions)]
    return [photo.captions for photo in short_queries(photos)]


def test_one_to_three_words_that_captions_share_the_rarest_first() -> None:
    captions = (
        "A brown dog runs on the beach.",
        "The dog runs along a sunny beach with its ball!",
        "Brown dog, ball; beach: dog runs",
        "beach dog",
        "two 2 animals by the sea",
    )
    others = ("a dog", "one dog"), ("dog on a beach", "a beach dog"), ("it runs", "he runs")
    assert made_of(captions, *others) == [
        # Brown and ball are in this photo alone, dog in three and beach in two.
        ("brown", "runs ball", "brown ball beach", "beach", "two animals"),
        ("dog",),
        ("beach", "beach dog"),
        ("runs",),
    ]


def test_captions_without_words_give_no_query() -> None:
    assert made_of(("It is on the 3 .", "a"), ("A sofa",)) == [("sofa",)]
