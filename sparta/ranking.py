"""Ranks and recall from a score matrix, with the tie rule every searcher keeps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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
