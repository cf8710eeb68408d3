"""How much is written and searched in a measurement of a live index."""

from __future__ import annotations

from dataclasses import dataclass

from eval.bench.query_latency.collections.enlarge import CollectionKind

TURNS = 5  # of searches beside steady writes and with nothing beside them


@dataclass(frozen=True)
class LivePlan:
    """The steps of a measurement.

    Attributes:
        images: of the index before anything is written.
        kind: of collection they are.
        top_n: terms an image keeps; None for all.
        k: hits of a search.
        seconds: that searches are timed at rest, beside steady writes and between them, and after
            deletions.
        rate: writes a second, one image each.
        singles: images added one by one, each awaited.
        batched: images added in batches.
        batch: images of one.
        seed: of the images that are drawn.
    """

    images: int
    kind: CollectionKind = "mixed"
    top_n: int | None = None
    k: int = 10
    seconds: float = 20
    rate: int = 100
    singles: int = 50
    batched: int = 20_000
    batch: int = 512
    seed: int = 0
