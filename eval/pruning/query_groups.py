"""Groups of queries whose recall is reported apart: captions, short queries, rare words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eval.pruning.caption_ranking import CaptionQueries, InMemoryRanking
from eval.pruning.short_queries import short_queries
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
