"""Short queries made of captions by a fixed rule."""

from __future__ import annotations

from eval.pruning.short_queries import short_queries
from sparta.captions.read import CaptionedPhoto


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
