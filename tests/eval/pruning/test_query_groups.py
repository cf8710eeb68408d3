"""Groups of queries, and the short queries of captions."""

from __future__ import annotations

import pytest
import torch

from eval.pruning.caption_ranking import InMemoryRanking
from eval.pruning.query_groups import QueryGroups, short_queries
from sparta.captions.read import CaptionedPhoto
from sparta.tokenizer import WordPieceTokenizer

PHOTOS = [
    CaptionedPhoto("a", "val", ("a dog on the beach", "the dog")),
    CaptionedPhoto("b", "val", ("red ball", "a red sky", "cat")),
]
FREQUENCIES = {"dog": 999, "beach": 9, "red": 10, "ball": 1, "sky": 1000}


def groups(tokenizer: WordPieceTokenizer, frequencies: dict[str, int]) -> QueryGroups:
    counts = torch.tensor([frequencies.get(term, 0) for term in tokenizer.vocabulary])
    return QueryGroups.of(tokenizer, PHOTOS, ["a", "b"], counts)


def test_queries_by_their_rarest_words(tokenizer: WordPieceTokenizer) -> None:
    found = groups(tokenizer, FREQUENCIES)
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


def test_without_frequencies_there_are_no_rare_words(tokenizer: WordPieceTokenizer) -> None:
    assert list(groups(tokenizer, {}).others) == ["short"]


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
