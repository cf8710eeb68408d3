"""Which segments are merged: those of similar size, so that a search goes through few of them."""

from __future__ import annotations

from collections.abc import Mapping

from indexer.columns.live.newest import CAPACITY

FAN = 4  # segments of a tier that are merged; the next tier's are so many times as large
WASTE = 0.5  # share of deleted images from which a segment is written again


def to_merge(sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Which segments should be merged now, if any.

    Args:
        sizes: name → images, and how many of them are not deleted; where all are, the segment
            will not be listed again anyway.

    Returns:
        the segments of the lowest tier that is full, else one of mostly deleted images.
    """
    tiers: dict[int, list[str]] = {}
    sizes = {name: size for name, size in sizes.items() if size[1]}
    for name, (_, live) in sizes.items():
        tier = 0
        while live > CAPACITY * FAN**tier:
            tier += 1
        tiers.setdefault(tier, []).append(name)
    full = [names for _, names in sorted(tiers.items()) if len(names) >= FAN]
    wasteful = [[name] for name, (images, live) in sizes.items() if live < (1 - WASTE) * images]
    return next(iter(full + wasteful), [])
