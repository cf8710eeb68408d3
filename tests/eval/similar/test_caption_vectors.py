"""Caption vectors, computed by hand."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from eval.similar.caption_vectors import caption_vectors
from sparta.captions.read import CaptionedPhoto


def photo(image_id: str, *captions: str) -> CaptionedPhoto:
    return CaptionedPhoto(image_id, "val", captions)


def test_agreement_of_captions_done_by_hand() -> None:
    captions = [
        photo("c", "A cat."),
        photo("elsewhere", "a zebra"),
        photo("a", "A dog, a dog!", "a dog runs"),
        photo("b", "a DOG", "a cat"),
    ]
    words = caption_vectors(["a", "b", "c"], captions)
    found = (words @ words.T).toarray()
    dog, runs, cat = log(3 / 2), log(3), log(3 / 2)  # "a" is said of all, and so counts nothing
    a, b = sqrt((2 * dog) ** 2 + runs**2), sqrt(dog**2 + cat**2)
    right = [[1, 2 * dog**2 / (a * b), 0], [2 * dog**2 / (a * b), 1, cat / b], [0, cat / b, 1]]
    np.testing.assert_allclose(found, right)


def test_captions_that_say_nothing_agree_with_none() -> None:
    words = caption_vectors(["a", "b"], [photo("a", "a"), photo("b", "a", "...")])
    assert (words @ words.T).toarray().tolist() == [[0, 0], [0, 0]]
