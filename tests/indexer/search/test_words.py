"""Completions and corrections from the words that an index holds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.search.words import Completion, HeldWord, HeldWords, WordList

IMAGES = {"beach": 8, "bench": 9, "bear": 9, "beard": 0, "be": 3, "##ach": 7, "b2": 5, "été": 2}


def held(images: Mapping[str, int]) -> HeldWords:
    """Words that are in these numbers of images."""
    known = WordList(images)
    counts = np.array([images[word] for word in known.words], np.int64)
    return HeldWords(known, counts, lambda word: images[word] > 0)


@pytest.fixture
def words() -> HeldWords:
    return held(IMAGES)


def test_the_last_word_is_completed(words: HeldWords) -> None:
    found = words.complete("two dogs on a Be", 3)
    assert found == [
        Completion("two dogs on a bear", "bear", 9),
        Completion("two dogs on a bench", "bench", 9),
        Completion("two dogs on a beach", "beach", 8),
    ]
    assert [one.text for one in words.complete('dog -"bear', 5)] == ['dog -"bear']
    assert [one.word for one in words.complete("é", 5)] == ["été"]


@pytest.mark.parametrize("text", ["", "dog ", "dog -", "7", "犬"])
def test_nothing_to_complete(words: HeldWords, text: str) -> None:
    assert words.complete(text, 5) == []


def test_a_beginning_of_no_word_is_corrected(words: HeldWords) -> None:
    assert words.complete("a beahc", 5) == [Completion("a beach", "beach", 8)]
    assert words.complete("a benhc", 1) == [Completion("a bench", "bench", 9)]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("Beech", ["bench", "beach"]),
        ("bech", ["bench", "beach"]),
        ("beaches", ["beach"]),
        ("bea", ["bear", "be"]),
        ("ebar", ["bear"]),
        ("bu", []),
        ("xylophone", []),
        ("bear", []),
    ],
)
def test_misspelt_words_are_corrected(words: HeldWords, word: str, near: list[str]) -> None:
    assert [one.word for one in words.correct(word, 3)] == near


def edits(a: str, b: str) -> int:
    """The optimal string alignment distance by its definition."""
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i, j in product(range(1, len(a) + 1), range(1, len(b) + 1)):
        table[i, j] = min(
            table[i - 1, j] + 1,
            table[i, j - 1] + 1,
            table[i - 1, j - 1] + (a[i - 1] != b[j - 1]),
        )
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a), len(b)]


LETTERS = st.text("abc", min_size=1, max_size=9)


@settings(max_examples=300)
@given(word=LETTERS, others=st.lists(LETTERS, unique=True, min_size=1, max_size=12))
def test_corrections_are_the_nearest_words(word: str, others: list[str]) -> None:
    most = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    right = sorted((edits(word, other), other) for other in others)
    near = [other for distance, other in right if 0 < distance <= most]
    found = held(dict.fromkeys(others, 1)).correct(word, 12)
    assert found == [HeldWord(other, 1) for other in near]
