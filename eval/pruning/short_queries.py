"""Queries of one to three words, as people type them, made of captions by a fixed rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from eval.recall.content_words import content_words
from sparta.captions.read import CaptionedPhoto

LONGEST = 3  # words of a query


def short_queries(photos: Sequence[CaptionedPhoto]) -> list[CaptionedPhoto]:
    """The same photos with short queries as captions.

    A photo's first caption gives one word, the second two, the third three, the fourth one, and so
    on: of its words that another caption of the photo contains too, those in the captions of the
    fewest photos, in the order of the caption. Stop words do not count. A caption that shares no
    word gives of all its words. Queries that an earlier caption of the photo gave are left out,
    and so are photos without any.
    """
    spread = Counter(word for photo in photos for word in set().union(*_words(photo)))
    short = (replace(photo, captions=tuple(_queries(photo, spread))) for photo in photos)
    return [photo for photo in short if photo.captions]


def _queries(photo: CaptionedPhoto, spread: Counter[str]) -> Iterator[str]:
    captions = _words(photo)
    given = set()
    for number, words in enumerate(captions):
        others = set[str]().union(*captions[:number], *captions[number + 1 :])
        shared = [word for word in words if word in others] or words
        rarest = sorted(shared, key=lambda word: spread[word])[: 1 + number % LONGEST]
        query = " ".join(word for word in words if word in rarest)
        if query and query not in given:
            given.add(query)
            yield query


def _words(photo: CaptionedPhoto) -> list[list[str]]:
    return [content_words(caption) for caption in photo.captions]
