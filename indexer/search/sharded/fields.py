"""The typed fields of images that are in several shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from indexer.fields.kinds import Kind
from indexer.filters.expression import Filter


@dataclass(frozen=True)
class ShardsFilter:
    """What a filter lets through, wherever it is.

    Attributes:
        filter: for each shard to apply.
        images: that it let through when it was first applied.
    """

    filter: Filter
    images: int


@dataclass(frozen=True)
class ShardsFields:
    """The fields of all shards.

    Attributes:
        kinds: of each field.
        counted: applies a filter, and counts what it lets through.
    """

    kinds: Mapping[str, Kind]
    counted: Callable[[Filter], int]

    def allowed(self, whole: Filter) -> ShardsFilter:
        """What a filter lets through; see `Fields`."""
        return ShardsFilter(whole, self.counted(whole))

    def count(self, allowed: ShardsFilter) -> int:
        """How many images a filter lets through."""
        return allowed.images
