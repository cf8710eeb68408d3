"""Every pooling under its name."""

from __future__ import annotations

from inspect import signature
from typing import Any

from sparta.errors import InputError
from sparta.vse.pooling.adpool import ADPool
from sparta.vse.pooling.base import Pooling
from sparta.vse.pooling.contextual import GCN, GCNSeq2Seq, SelfAttention, Seq2Seq
from sparta.vse.pooling.fixed import (
    FirstPooling,
    KMaxPooling,
    LastPooling,
    MaxPooling,
    MeanPooling,
    SoftPooling,
)
from sparta.vse.pooling.gpo import GPO
from sparta.vse.pooling.learned import LIP, AdaPool, FSPool, GeM

__all__ = ["POOLINGS", "Pooling", "make_pooling"]

POOLINGS: dict[str, type[Pooling]] = {
    "mean": MeanPooling,
    "max": MaxPooling,
    "k-max": KMaxPooling,
    "gpo": GPO,
    "adpool": ADPool,
    "gem": GeM,
    "fspool": FSPool,
    "cls": FirstPooling,
    "last": LastPooling,
    "softpool": SoftPooling,
    "adapool": AdaPool,
    "lip": LIP,
    "self-attention": SelfAttention,
    "seq2seq": Seq2Seq,
    "gcn": GCN,
    "gcn-seq2seq": GCNSeq2Seq,
}


def make_pooling(name: str, dimension: int, **options: Any) -> Pooling:
    """Make a pooling by name.

    Args:
        name: a key of `POOLINGS`.
        dimension: d, the width of the vectors to pool.
        **options: the pooling's own, such as `k` of "k-max".

    Raises:
        InputError: if there is no such pooling, it has no such option, or a value is refused; the
            message lists what there is.
    """
    if name not in POOLINGS:
        raise InputError(f"there is no pooling {name!r}; there are: {', '.join(POOLINGS)}")
    known = [option for option in signature(POOLINGS[name]).parameters if option != "dimension"]
    for option in options:
        if option not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise InputError(f"pooling {name!r} has no option {option!r}; {has}")
    return POOLINGS[name](dimension, **options)
