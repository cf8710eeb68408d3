"""A larger index to serve, made of the images of a small one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from eval.bench.query_latency.collections.corpus import CorpusRows
from eval.bench.query_latency.collections.enlarge import CollectionKind, enlarge
from eval.bench.query_latency.collections.impact_source import read_source
from indexer.index_writer import write_index
from indexer.manifest import OFFSETS, Manifest
from indexer.postings import Postings, PostingShard
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

METADATA = {"width": 500, "height": 375}  # of a usual photo


def enlarge_index(
    index: Path,
    out: Path,
    images: int,
    progress: Progress = no_progress,
    seed: int = 0,
    kind: CollectionKind = "copies",
    top_n: int | None = None,
) -> None:
    """Write an index of any size: images drawn with replacement, every impact perturbed by 15 %.

    Image ids are numbers, and no grounding is stored.

    Args:
        index: as `sparta index` makes it.
        out: must not exist.
        images: number to write.
        progress: of the stage "write", in images.
        seed: of the drawn images.
        kind: "copies" of images, or each "mixed" of two.
        top_n: terms an image keeps; None for all.

    Raises:
        InputError: if the folder is no index.
    """
    manifest = Manifest.open(index)
    write_index(
        out,
        _shards(enlarge(read_source(index), images, top_n, kind, seed), images, progress),
        WordPieceTokenizer.from_folder(index),
        IndexSettings(**{one.name: getattr(manifest, one.name) for one in fields(IndexSettings)}),
        np.load(index / OFFSETS, allow_pickle=False),
        manifest.scale,
        images=images,
    )


def image_id(number: int) -> str:
    """The id of an image; ids rise with the numbers."""
    return f"{number // 1000:06d}/{number:09d}.jpg"


def _shards(
    chunks: Iterator[CorpusRows], images: int, progress: Progress
) -> Iterator[PostingShard]:
    first = 0
    for rows in chunks:
        numbers = range(first, first + len(rows))
        first += len(rows)
        postings = Postings.without_grounding(
            ids=[image_id(number) for number in numbers],
            metadata=[METADATA] * len(rows),
            starts=rows.starts,
            terms=rows.terms,
            impacts=rows.impacts,
        )
        yield PostingShard(postings)
        progress("write", first, images)
