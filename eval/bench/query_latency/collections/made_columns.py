"""Columns of a made collection in a work folder, which the next measurement takes again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eval.bench.query_latency.collections.bisection import bisected_order
from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.enlarge import CollectionKind, enlarge
from eval.bench.query_latency.collections.impact_source import ImpactSource
from indexer.columns.builder import Order, build_columns
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import LEVEL_SHARE
from indexer.columns.ordering import DIMENSIONS, topical_order

# In how many dimensions images are halved, or by what else.
ORDERS: dict[str, Order] = {
    "16": partial(topical_order, dimensions=16),
    f"{DIMENSIONS}": topical_order,
    "128": partial(topical_order, dimensions=128),
    "bisected": bisected_order,
}


@dataclass(frozen=True)
class Layout:
    """How columns are built.

    Attributes:
        level_share: of the images, from which on a term's row has levels.
        bitmap_share: the same of bitmaps, None for what suits the postings.
        order: of images, a key of `ORDERS`.
    """

    level_share: float = LEVEL_SHARE
    bitmap_share: float | None = None
    order: str = f"{DIMENSIONS}"

    @property
    def folder(self) -> str:
        """Name of their folder, "columns" for those of an index."""
        if self == SHIPPED:
            return "columns"
        bitmaps = "" if self.bitmap_share is None else f"-{self.bitmap_share:.4f}"
        return f"columns-{self.level_share:.4f}{bitmaps}-{self.order}"


SHIPPED = Layout()


def made_columns(
    source: ImpactSource,
    kind: CollectionKind,
    images: int,
    top_n: int | None,
    work: Path,
    layout: Layout = SHIPPED,
) -> ColumnIndex:
    """Open the columns of a collection, read into memory; make what is not in the work folder yet.

    Args:
        source: whose images the collection is made of.
        kind: of collection.
        images: of it.
        top_n: terms an image keeps, None for all.
        work: folder of all collections.
        layout: of the columns.
    """
    folder = work / f"{kind}-{images}-{top_n or 'all'}"
    columns = folder / layout.folder
    if not columns.exists():
        corpus = Corpus.open(folder / "corpus") or Corpus.write(
            folder / "corpus", source.vocabulary, source.bits, enlarge(source, images, top_n, kind)
        )
        made = columns.with_name(f"{columns.name}.making")
        build_columns(
            made,
            corpus.rows(),
            len(corpus.vocabulary),
            corpus.bits,
            shares=(layout.level_share, layout.bitmap_share),
            ordered=ORDERS[layout.order],
        )
        made.rename(columns)
    index = ColumnIndex.open(columns)
    index.read_ahead()
    return index
