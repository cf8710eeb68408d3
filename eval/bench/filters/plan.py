"""What a measurement of filters covers."""

from __future__ import annotations

from dataclasses import dataclass

from eval.bench.query_latency.collections.enlarge import CollectionKind


@dataclass(frozen=True)
class FilterPlan:
    """The index and the searches of a measurement.

    Attributes:
        images: of the index.
        kinds: of collections that are measured, each in an index of its own.
        top_n: terms an image keeps; None for all.
        k: hits of a search.
        queries: that are timed, each once a filter.
        shares: of the images that filters let through.
        seed: of the images, of those let through, and of the metadata.
    """

    images: int
    kinds: tuple[CollectionKind, ...] = ("copies", "mixed")
    top_n: int | None = None
    k: int = 10
    queries: int = 200
    shares: tuple[float, ...] = (0.5, 0.01, 0.0001)
    seed: int = 0
