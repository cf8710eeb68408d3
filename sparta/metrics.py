"""Ranks of the best right item of each query, and recall.

Conventions, the same in every protocol:

- Hit rate: a query succeeds at k if any of its right items is among the first k. Only the
  best-ranked right item counts; the other right items do not compete with it.
- Ties: every function that ranks takes `ties`. "by_id" is the order in which every searcher
  returns images, by falling score and then by id: `sparta eval index` and `sparta eval pruning`
  report what a user of the index gets. "pessimistic" ranks wrong items with an equal score ahead:
  validation in training, `sparta eval model`, `transfer` and `cxc` must not credit a model that
  gives many items the same score.
- NaN counts against the model, whatever `ties` is: as a wrong item's score it ranks ahead of every
  number, as a right item's score behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sparta.progress import Progress, no_progress

LARGEST_BLOCK = 2**24  # scores: 64 MB of float32

Ties = Literal["by_id", "pessimistic"]
Block = Callable[[slice], Tensor]


def ranks(
    scores: Tensor, right: Sequence[Sequence[int]], *, ties: Ties, excluded: Tensor | None = None
) -> Tensor:
    """Rank of each query's best right item among that item and all wrong ones.

    Args:
        scores: [Q, N] float; with ties "by_id", columns in the order of ids.
        right: for each query the columns of its right items, each once. A query without any ranks
            behind all items.
        ties: see the module's conventions.
        excluded: [Q] int64, for each query a column that is neither right nor wrong.

    Returns:
        [Q] int64 on the scores' device, 1 for the best.
    """
    queries, items = scores.shape
    device, lowest = scores.device, float("-inf")
    lengths = torch.tensor([len(columns) for columns in right], device=device)
    rows = torch.arange(queries, device=device).repeat_interleave(lengths)
    places = torch.tensor([item for columns in right for item in columns], device=device).long()
    right_scores = scores[rows, places]
    valid = ~right_scores.isnan()
    right_scores = right_scores.nan_to_num(lowest, float("inf"), lowest)
    best = scores.new_full((queries,), lowest).scatter_reduce(0, rows, right_scores, "amax")
    # Of the right items with the best score, the first column; past the end if there is none.
    first = torch.full((queries,), items, device=device)
    at_best = valid & (right_scores == best[rows])
    first = first.scatter_reduce(0, rows[at_best], places[at_best], "amin")[:, None]
    best = best[:, None]
    # Written so that NaN is ahead of every number.
    if ties == "pessimistic":
        ahead = ~(scores < best)
    else:
        columns = torch.arange(items, device=device)
        ahead = ~(scores <= best) | ((scores == best) & (columns < first))
    ahead[rows, places] = False
    if excluded is not None:
        ahead[torch.arange(queries, device=device), excluded] = False
    return ahead.sum(dim=1) + 1


def ranks_by_block(
    block: Block,
    items: int,
    right: Sequence[Sequence[int]],
    *,
    ties: Ties,
    without_self: bool = False,
    progress: Progress = no_progress,
) -> Tensor:
    """The same as `ranks`, for scores that are computed some queries at a time.

    Args:
        block: the scores of some queries for all items, [q, items] float; called for at most
            `LARGEST_BLOCK` scores at once, unless a single query has more.
        items: searched among.
        right: as in `ranks`.
        ties: as in `ranks`.
        without_self: query i is item i, which is then neither right nor wrong.
        progress: of the stage "rank", in queries.

    Returns:
        [queries] int64 on the CPU, 1 for the best.
    """
    size = max(1, LARGEST_BLOCK // max(1, items))
    found = []
    for start in range(0, len(right), size):
        part = slice(start, min(start + size, len(right)))
        scores = block(part)
        itself = torch.arange(part.start, part.stop, device=scores.device)
        excluded = itself if without_self else None
        found.append(ranks(scores, right[part], ties=ties, excluded=excluded).cpu())
        progress("rank", part.stop, len(right))
    return torch.cat(found) if found else torch.empty(0, dtype=torch.int64)


def captions_of_images(targets: Tensor, images: int) -> list[list[int]]:
    """The captions of each image, by the image of each caption, [captions] int64."""
    found: list[list[int]] = [[] for _ in range(images)]
    for caption, image in enumerate(targets.tolist()):
        found[image].append(caption)
    return found


class Recall(NamedTuple):
    """Recall over Q queries: the hit rate, see the module's conventions.

    Attributes:
        at_1: share of queries, in percent, with a right item in the first place.
        at_5: ... among the first five.
        at_10: ... among the first ten.
        median_rank: of the best right item, 1 is best.
    """

    at_1: float
    at_5: float
    at_10: float
    median_rank: float

    def __str__(self) -> str:
        return f"{self.at_1:.1f} / {self.at_5:.1f} / {self.at_10:.1f}, {self.median_rank:g}"


def recall(rank: Tensor) -> Recall:
    """Summarise ranks [Q] (1 is best)."""
    at_1, at_5, at_10 = (100 * float((rank <= k).float().mean()) for k in (1, 5, 10))
    return Recall(at_1, at_5, at_10, float(rank.float().quantile(0.5)))
