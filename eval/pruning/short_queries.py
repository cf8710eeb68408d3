"""Queries of one to three words, as people type them, made of captions by a fixed rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparta.captions.read import CaptionedPhoto

LONGEST = 3  # words of a query
_FUNCTION_WORDS = """
a about above across after against all along also among an and another any are around as at away
back be been before behind being below beside between both but by can do does doing down each for
from front has have having he her hers herself him himself his if in inside into is it its itself
just like many more most near next no not of off on onto or other others out outside over past
several she so some something than that the their them themselves then there these they this those
through to together toward towards under up upon very was were what when where which while who whose
with within without
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


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
    """Each caption's words, each once, without stop words."""
    return [
        [
            word
            for word in dict.fromkeys(re.findall(r"[^\W\d_]+", caption.lower()))
            if len(word) > 1 and word not in STOP_WORDS
        ]
        for caption in photo.captions
    ]
