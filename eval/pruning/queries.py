"""Queries of a pruning study, and the ranking of images for them by weights in memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from eval.recall.scores import sparse_scores
from indexer.encoding.impacts import largest
from sparta.captions.read import CaptionedPhoto
from sparta.metrics import LARGEST_BLOCK, Recall, ranks, recall
from sparta.tokenizer import WordPieceTokenizer

FIRST = 10
# Of a term in the training captions; a term in more of them is hardly rare.
BANDS = {"1-9": (1, 10), "10-99": (10, 100), "100-999": (100, 1000)}


class Ranking(NamedTuple):
    """Rankings of N images for Q queries."""

    ranks: Tensor  # [Q] int64, of each query's photo, 1 for the best
    first: Tensor  # [captions, N] bool, the first ten images, fewer where fewer are found

    def overlap(self, reference: Ranking) -> float:
        """Overlap of the captions' first ten images with those of a reference ranking.

        Returns:
            Percent, the mean over the captions for which the reference finds anything.
        """
        wanted = reference.first.sum(dim=1)
        both = (self.first & reference.first).sum(dim=1)
        answered = wanted > 0
        return 100 * float((both[answered] / wanted[answered]).double().mean())


@dataclass(frozen=True)
class StudyQueries:
    """Captions and short queries of the same photos, each with its photo as the target."""

    terms: Tensor  # [U] int64, the queries' vocabulary ids, each once, rising
    # Each query's terms, as positions in `terms`; repeated terms are repeated. Captions come first.
    texts: list[list[int]]
    targets: Tensor  # [Q] int64, the photos' positions among the images searched
    captions: int  # how many of the queries are captions
    groups: dict[str, Tensor]  # name → [q] int64, the queries of every other group

    @classmethod
    def of(
        cls,
        tokenizer: WordPieceTokenizer,
        photos: Sequence[CaptionedPhoto],
        image_ids: Sequence[str],
        frequencies: Tensor,
    ) -> StudyQueries:
        """Tokenise captions, make short queries, and group all by the rarity of their words.

        The photos are among the images searched. Of terms, frequencies [V] int64 are those in the
        training captions; without any there are no groups of rare words.
        """
        every = [*photos, *short_queries(photos)]
        ids = [tokenizer.encode_ids(text) for photo in every for text in photo.captions]
        terms = sorted({term for text in ids for term in text})
        places = {term: place for place, term in enumerate(terms)}
        texts = [[places[term] for term in text] for text in ids]
        columns = {image_id: column for column, image_id in enumerate(image_ids)}
        targets = [columns[photo.image_id] for photo in every for _ in photo.captions]
        captions = sum(len(photo.captions) for photo in photos)
        is_short = torch.arange(len(texts)) >= captions
        groups = {"short": is_short.nonzero()[:, 0]}
        own = frequencies[torch.tensor(terms, dtype=torch.int64)]
        for name, kind in (("captions", ~is_short), ("short", is_short)):
            for band, (least, below) in BANDS.items():
                rare = ((own >= least) & (own < below)).tolist()
                with_rare = torch.tensor([any(rare[place] for place in text) for text in texts])
                if len(chosen := (kind & with_rare).nonzero()[:, 0]):
                    groups[f"{name} {band}"] = chosen
        return cls(torch.tensor(terms), texts, torch.tensor(targets), captions, groups)

    def rank(self, weights: Tensor) -> Ranking:
        """Sum each query's weights (equation 15) and order the images by them.

        As in an index, equal scores go by column, and an image without any of a query's terms
        is not found: it ranks behind all images, and behind the tenth in any case.

        Args:
            weights: [U, N] float32, at least 0, of the terms in every image; whole numbers are
                summed exactly up to 2^24. Columns in the order of image ids.
        """
        scores = sparse_scores(self.texts, weights)
        images = weights.shape[1]
        behind = max(images, FIRST) + 1
        rank, first = [], []
        for own in torch.arange(len(self.texts)).split(max(1, LARGEST_BLOCK // images)):
            block = scores.rows(slice(int(own[0]), int(own[-1]) + 1))
            targets = self.targets[own]
            missed = block.gather(1, targets[:, None])[:, 0] == 0
            found = ranks(block, targets[:, None].tolist(), ties="by_id")
            rank.append(found.masked_fill(missed, behind))
            # `largest` breaks ties as searchers do: by column.
            first.append(torch.from_numpy(largest(block.numpy(), FIRST)))
        return Ranking(torch.cat(rank), torch.cat(first)[: self.captions])

    def recall(self, ranking: Ranking) -> Recall:
        """Text→image recall of the captions."""
        return recall(ranking.ranks[: self.captions])

    def recalls(self, ranking: Ranking) -> dict[str, Recall]:
        """Recall of every other group."""
        return {name: recall(ranking.ranks[own]) for name, own in self.groups.items()}


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
