"""Collections as columns, kept in a folder for the next measurement."""

from __future__ import annotations

from pathlib import Path

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.enlarge import CollectionKind, enlarge
from eval.bench.query_latency.collections.impact_source import ImpactSource
from indexer.columns.builder import build_columns
from indexer.columns.layout import Columns


def columns_of(
    source: ImpactSource, kind: CollectionKind, images: int, top_n: int | None, work: Path
) -> Columns:
    """The columns of a collection, made unless an earlier measurement has.

    Args:
        source: whose images it is made of.
        kind: of collection.
        images: how many it has.
        top_n: terms an image keeps, None for all.
        work: folder of the collections.
    """
    folder = work / f"{kind}-{images}-{top_n or 'all'}"
    columns = folder / "columns"
    if not columns.exists():
        corpus = Corpus.open(folder / "corpus") or Corpus.write(
            folder / "corpus", source.vocabulary, source.bits, enlarge(source, images, top_n, kind)
        )
        made = folder / "columns.making"
        build_columns(made, corpus.rows(), len(corpus.vocabulary), corpus.bits)
        made.rename(columns)
    return Columns.map(columns)
