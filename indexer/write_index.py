"""Shards of postings → an index folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.folder import ColumnGatherer
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.manifest import FORMAT_VERSION, LUCENE, OFFSETS, Manifest, is_index, part_sizes
from indexer.postings import Postings
from indexer.quantisation import QuantisationReport
from sparta.atomic import finish_replacement
from sparta.errors import InputError
from sparta.tokenizer import Tokenizer


@dataclass(frozen=True)
class IndexSettings:
    """All that decides an index's content, and where its photos are; see `Manifest`."""

    models: list[str]
    features: list[str]
    photos: str | None
    top_n: int | None
    bits: int
    offset: str
    offset_images: int
    terms: str


def write_index(
    folder: Path,
    shards: Iterable[Postings],
    tokenizer: Tokenizer,
    offset: NDArray[np.float32],
    settings: IndexSettings,
    scale: float,
    report: Callable[[], QuantisationReport] = QuantisationReport,
    progress: Callable[[str, int], None] = lambda stage, done: None,
) -> Manifest:
    """Write a whole index folder.

    Args:
        folder: must not exist.
        shards: postings in rising order of image ids; asked for one by one while earlier ones
            are being written.
        tokenizer: whose vocabulary the postings' terms index.
        offset: [V] float32, kept for images added later.
        settings: recorded.
        scale: the term score one impact stands for, recorded.
        report: gives the quantisation's cost, recorded; asked when all shards have come.
        progress: called with a stage ("write", "merge", "columns") and the images so far.
    """
    folder.mkdir(parents=True)
    images = postings = 0
    frequencies = np.zeros(len(tokenizer.vocabulary), np.int64)
    with ColumnGatherer(folder, len(tokenizer.vocabulary), settings.bits) as columns:
        with LuceneWriter(folder / LUCENE, tokenizer.vocabulary, progress) as lucene:
            for shard in shards:
                lucene.add(shard)
                columns.add(shard)
                images += len(shard)
                postings += len(shard.terms)
                frequencies += np.bincount(shard.terms, minlength=len(frequencies))
        cost = report()
        tokenizer.save(folder)
        np.save(folder / OFFSETS, offset)
        manifest = Manifest(
            format_version=FORMAT_VERSION,
            package_version=version("visualsparta"),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            vocabulary=tokenizer.vocabulary_hash,
            scale=scale,
            images=images,
            postings=postings,
            distinct_terms=int((frequencies > 0).sum()),
            clipped=cost.clipped,
            mean_error=cost.total_error / max(1, postings),
            largest_error=cost.largest_error,
            parts=part_sizes(folder),
            **vars(settings),
        )
        manifest.save(folder)
        columns.write(folder, lambda stage, done, total: progress(stage, done))
    return manifest


def check_target(out: Path) -> None:
    """Refuse to replace anything but an index.

    Raises:
        InputError: if `out` is a file, or a folder with something else in it.
    """
    finish_replacement(out, is_index)
    if out.exists() and not (out.is_dir() and (is_index(out) or not any(out.iterdir()))):
        raise InputError(f"{out} exists and is not an index: choose another --out or remove it")
