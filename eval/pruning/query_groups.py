"""Groups of queries whose recall is reported apart: captions, short queries, rare words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eval.pruning.caption_ranking import CaptionQueries, InMemoryRanking
from sparta.captions.read import CaptionedPhoto
from sparta.metrics import Recall, recall
from sparta.tokenizer import Tokenizer

# Of a term in the training captions; a term in more of them is hardly rare.
BANDS = {"1-9": range(1, 10), "10-99": range(10, 100), "100-999": range(100, 1000)}


@dataclass(frozen=True)
class QueryGroups:
    """Captions and short queries of the same photos, and which of them are reported together.

    Attributes:
        queries: Q, the captions before the short queries.
        captions: how many of them are captions.
        others: name → [q] int64, the queries of every other group.
    """

    queries: CaptionQueries
    captions: int
    others: dict[str, Tensor]

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        photos: Sequence[CaptionedPhoto],
        image_ids: Sequence[str],
        frequencies: Tensor,
    ) -> QueryGroups:
        """Make short queries, and sort all queries by the rarity of their words.

        Args:
            tokenizer: of the models.
            photos: with their captions.
            image_ids: of the images searched.
            frequencies: [V] int64, of terms in the training captions; without any there are no
                groups of rare words.
        """
        queries = CaptionQueries.of(tokenizer, [*photos, *short_queries(photos)], image_ids)
        captions = sum(len(photo.captions) for photo in photos)
        every = torch.arange(len(queries.texts))
        others = {"short": every[captions:]}
        for name, kinds in (("captions", every < captions), ("short", every >= captions)):
            for band, own in BANDS.items():
                chosen = (kinds & _with_a_word(queries, frequencies, own)).nonzero()[:, 0]
                if len(chosen):
                    others[f"{name} {band}"] = chosen
        return cls(queries, captions, others)

    def recalls(self, ranking: InMemoryRanking) -> dict[str, Recall]:
        """Recall of every other group, from the rankings of all queries."""
        return {name: recall(ranking.ranks[own]) for name, own in self.others.items()}


def _with_a_word(queries: CaptionQueries, frequencies: Tensor, band: range) -> Tensor:
    """[Q] bool: queries with at least one term of a frequency in the band."""
    own = frequencies[queries.terms]
    wanted = ((own >= band.start) & (own < band.stop)).tolist()
    return torch.tensor([any(wanted[place] for place in text) for text in queries.texts])


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


def content_words(caption: str) -> list[str]:
    """A caption's words of two letters and more, each once, without stop words."""
    return [
        word
        for word in dict.fromkeys(re.findall(r"[^\W\d_]+", caption.lower()))
        if len(word) > 1 and word not in STOP_WORDS
    ]
