"""Collections of any size made of given images: near-copies, mixtures, or drawn like them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.corpus import CorpusRows
from eval.bench.query_latency.collections.draw import Distribution
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.keep_top import keep_top

CollectionKind = Literal["copies", "mixed", "drawn"]
KINDS: tuple[CollectionKind, ...] = get_args(CollectionKind)
NOISE = 0.15  # standard deviation of what every weight is multiplied by
CHUNK = 2_000  # images made at once


def enlarge(
    source: ImpactSource, images: int, top_n: int | None, kind: CollectionKind, seed: int = 0
) -> Iterator[CorpusRows]:
    """Make images of given ones, and keep each one's n largest impacts.

    "copies" draws one image with replacement for each new one, as the paper's million does, and
    perturbs its impacts by 15 %. An engine may profit from copies that lie together, so "mixed"
    draws two, takes each term from either and perturbs likewise: no image is near another, the
    terms keep their document frequencies, but half of what ties terms to one another is lost.
    "drawn" draws from a distribution fitted to the images, which keeps both.

    Args:
        source: the images there are.
        images: how many to make.
        top_n: terms an image keeps; None keeps all.
        kind: of collection.
        seed: the same seed gives the same collection.

    Yields:
        rows of some thousand images.
    """
    make = _MAKERS[kind](source, top_n)
    for start in range(0, images, CHUNK):
        yield make(min(CHUNK, images - start), np.random.default_rng((seed, start)))


def _copies(source: ImpactSource, top_n: int | None) -> Maker:
    kept = _rows(keep_top(source.impacts, top_n), source)

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        return _perturbed(_picked(kept, rng.integers(len(kept), size=size)), source.bits, rng)

    return make


def _mixed(source: ImpactSource, top_n: int | None) -> Maker:
    impacts = source.impacts

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        first, second = (impacts[rng.integers(len(impacts), size=size)] for _ in range(2))
        mixed = np.where(_coins(rng, first.shape), first, second)
        return _perturbed(_rows(keep_top(mixed, top_n), source), source.bits, rng)

    return make


def _drawn(source: ImpactSource, top_n: int | None) -> Maker:
    distribution = Distribution.of(source.impacts)

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        return _rows(keep_top(distribution.draw(size, rng), top_n), source)

    return make


Maker = Callable[[int, np.random.Generator], CorpusRows]
_MAKERS: dict[CollectionKind, Callable[[ImpactSource, int | None], Maker]] = {
    "copies": _copies,
    "mixed": _mixed,
    "drawn": _drawn,
}


def _coins(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    count = int(np.prod(shape))
    bits = np.unpackbits(np.frombuffer(rng.bytes(count // 8 + 1), np.uint8))
    return bits[:count].reshape(shape).astype(bool)


def _rows(impacts: NDArray[np.unsignedinteger], source: ImpactSource) -> CorpusRows:
    """A matrix of impacts as postings."""
    places = np.flatnonzero(impacts)
    lengths = np.count_nonzero(impacts, axis=1)
    return CorpusRows(
        np.concatenate([[0], np.cumsum(lengths)]),
        source.terms[places % impacts.shape[1]],
        impacts.ravel()[places].astype(np.int32),
    )


def _picked(rows: CorpusRows, chosen: NDArray[np.integer]) -> CorpusRows:
    """Some rows, one after the other."""
    lengths = (rows.starts[1:] - rows.starts[:-1])[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(starts[-1]) + np.repeat(rows.starts[chosen] - starts[:-1], lengths)
    return CorpusRows(starts, rows.terms[places], rows.impacts[places])


def _perturbed(rows: CorpusRows, bits: int, rng: np.random.Generator) -> CorpusRows:
    factors = 1 + NOISE * rng.standard_normal(len(rows.impacts), dtype=np.float32)
    changed = np.rint(rows.impacts * factors)
    return CorpusRows(rows.starts, rows.terms, np.clip(changed, 1, 2**bits - 1).astype(np.int32))
