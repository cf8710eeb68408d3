"""Groups of queries by the frequency of their words in the training captions."""

from __future__ import annotations

import pytest
import torch

from eval.pruning.caption_ranking import InMemoryRanking
from eval.pruning.query_groups import QueryGroups
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
