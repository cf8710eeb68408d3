"""In-batch negatives across processes: each process scores its photos against all captions."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn as dist_nn
from torch import Tensor
from torch.nn.functional import pad


def gather_columns(columns: Tensor) -> Tensor:
    """Concatenate the [R, b] tensors of all processes to [R, B]; gradients flow back.

    Every process then computes the same loss over all B columns. A column's gradient is summed
    over the processes and data-parallel training divides it by their number, which gives the
    exact gradient of the whole batch.
    """
    if not dist.is_initialized():
        return columns
    columns = columns.contiguous()
    if columns.requires_grad:
        return torch.cat(dist_nn.all_gather(columns), dim=1)
    parts = [torch.empty_like(columns) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, columns)
    return torch.cat(parts, dim=1)


def gather_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenate the captions [q, L] of all processes to [Q, longest L]; ids and mask."""
    if not dist.is_initialized():
        return ids, mask
    longest = torch.tensor(ids.shape[1], device=ids.device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    width = (0, int(longest) - ids.shape[1])
    rows = [gather_columns(pad(part.long(), width).T).T for part in (ids, mask)]
    return rows[0], rows[1].bool()
