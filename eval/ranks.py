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
