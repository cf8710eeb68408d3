"""The rank of the best right answer to each query, a block of queries at a time.

Conventions, the same in every protocol here:

- Hit rate: a query is answered well at k if any of its right items is among the first k. Only
  the best-ranked right item counts, and the other right items are no competitors of it.
- Ties count against the model: a wrong item with the same score is ranked ahead.
- NaN counts against the model: as a wrong item's score it is ranked ahead of every number, as a
  right item's behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LARGEST_BLOCK = 2**24  # scores: 64 MB of float32

Block = Callable[[slice], Tensor]


def best_ranks(
    block: Block,
    items: int,
    right: Sequence[Sequence[int]],
    *,
    without_self: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tensor:
    """Rank of each query's best right item among that item and all wrong ones.

    Args:
        block: the scores of some queries for all items, [q, items] float; never more than
            `LARGEST_BLOCK` of them are asked for at once, unless one query alone has more.
        items: searched among.
        right: of each query, its right items, each once. A query without any ranks last.
        without_self: query i is item i, which is then neither right nor wrong.
        progress: called with queries done and in all.

    Returns:
        [queries] int64 on the CPU, 1 for the best.
    """
    size = max(1, LARGEST_BLOCK // max(1, items))
    found = []
    for start in range(0, len(right), size):
        part = slice(start, min(start + size, len(right)))
        scores = block(part)
        itself = torch.arange(part.start, part.stop, device=scores.device)
        found.append(_ranks(scores, right[part], itself if without_self else None).cpu())
        progress(part.stop, len(right))
    return torch.cat(found) if found else torch.empty(0, dtype=torch.int64)


def _ranks(scores: Tensor, right: Sequence[Sequence[int]], itself: Tensor | None) -> Tensor:
    queries = torch.arange(len(right), device=scores.device)
    lengths = torch.tensor([len(own) for own in right], device=scores.device)
    rows = queries.repeat_interleave(lengths)
    columns = torch.tensor([item for own in right for item in own], device=scores.device).long()
    lowest = float("-inf")
    own_scores = scores[rows, columns].nan_to_num(lowest, float("inf"), lowest)
    best = scores.new_full((len(right),), lowest).scatter_reduce(0, rows, own_scores, "amax")
    below = scores < best[:, None]
    ahead = scores.shape[1] - below.sum(dim=1)
    ahead.index_add_(0, rows, below[rows, columns].long() - 1)
    if itself is not None:
        ahead += below[queries, itself].long() - 1
    return ahead + 1


class Recall(NamedTuple):
    """Text→image recall over Q queries with one right image each.

    Attributes:
        at_1: share of queries, in percent, whose right image comes first.
        at_5: ... among the first five.
        at_10: ... among the first ten.
        median_rank: 1 is best.
    """

    at_1: float
    at_5: float
    at_10: float
    median_rank: float

    def __str__(self) -> str:
        return f"{self.at_1:.1f} / {self.at_5:.1f} / {self.at_10:.1f}, {self.median_rank:g}"


def ranks(scores: Tensor, targets: Tensor) -> Tensor:
    """Rank of each query's right image; of equal scores the earlier column comes first.

    NaN ranks below every number, so that a diverged model cannot look good.

    Args:
        scores: [Q, N], columns in the order of image ids.
        targets: [Q] int64, the right column of each query.

    Returns:
        [Q] int64, 1 for the best.
    """
    scores = scores.nan_to_num(float("-inf"), float("inf"), float("-inf"))
    own = scores.gather(1, targets[:, None])
    columns = torch.arange(scores.shape[1], device=scores.device)
    ahead = (scores > own) | ((scores == own) & (columns < targets[:, None]))
    return ahead.sum(dim=1) + 1


def caption_ranks(scores: Tensor, targets: Tensor) -> Tensor:
    """Rank of each image's best own caption among the captions of other images.

    Of equal scores another image's caption comes first. NaN ranks below every number.

    Args:
        scores: [Q, N].
        targets: [Q] int64, the image of each caption; an image without any is left out.

    Returns:
        [images with captions] int64, 1 for the best.
    """
    scores = scores.nan_to_num(float("-inf"), float("inf"), float("-inf"))
    own = targets[:, None] == torch.arange(scores.shape[1], device=scores.device)
    best = scores.masked_fill(~own, float("-inf")).amax(dim=0)
    ahead = (scores >= best) & ~own
    return (ahead.sum(dim=0) + 1)[own.any(dim=0)]


def recall(rank: Tensor) -> Recall:
    """Summarise ranks [Q] (1 is best)."""
    at_1, at_5, at_10 = (100 * float((rank <= k).float().mean()) for k in (1, 5, 10))
    return Recall(at_1, at_5, at_10, float(rank.float().quantile(0.5)))
