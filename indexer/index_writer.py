"""Shards of postings → an index folder: Lucene, columns, tokenizer, offsets, manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.writer import ColumnWriter
from indexer.drift import MEANS
from indexer.fields.kinds import Kind
from indexer.fields.store import save_kinds
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.manifest import FORMAT_VERSION, OFFSETS, Manifest
from indexer.parts import LUCENE, describe_parts
from indexer.postings import PostingShard
from indexer.quantisation import QuantisationReport
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress
from sparta.substitutes import SubstituteTable
from sparta.tokenizer import Tokenizer


def write_index(
    folder: Path,
    shards: Iterable[PostingShard],
    tokenizer: Tokenizer,
    settings: IndexSettings,
    offset: NDArray[np.float32],
    scale: float,
    *,
    images: int,
    means: NDArray[np.float32] | None = None,
    substitutes: SubstituteTable | None = None,
    kinds: Mapping[str, Kind] | None = None,
    progress: Progress = no_progress,
) -> Manifest:
    """Write a whole index folder.

    Args:
        folder: must not exist.
        shards: postings in ascending order of image ids; taken one by one while earlier ones are
            being written.
        tokenizer: whose vocabulary [V] the postings' terms index.
        settings: recorded.
        offset: [V] float32, stored for images added later.
        scale: the term score one impact stands for, recorded.
        images: of all shards together, for progress.
        means: [V] mean impact of each term over the images that the offsets are of; by default
            these images.
        substitutes: for words of queries that the index lacks; None or empty: no table is written.
        kinds: declared kinds of fields; those of others are inferred.
        progress: stages "write", "merge" and "columns", in images; the last two at once.
    """
    folder.mkdir(parents=True)
    save_kinds(folder, kinds or {})
    counts = _Counts(len(tokenizer.vocabulary))
    with ColumnWriter(folder, len(tokenizer.vocabulary), settings.bits) as columns:
        with LuceneWriter(folder / LUCENE, tokenizer.vocabulary, images, progress) as lucene:
            for shard in shards:
                lucene.add(shard.postings)
                columns.add(shard.postings)
                counts.add(shard)
            lucene.begin_merge()
            columns.lay_out(progress)  # on another core
        tokenizer.save(folder)
        if substitutes:
            substitutes.save(folder)
        np.save(folder / OFFSETS, offset)
        np.save(folder / MEANS, counts.means if means is None else means)
        manifest = counts.manifest(folder, tokenizer.vocabulary_hash, settings, scale)
        manifest.save(folder)
        columns.publish()
    return manifest


class _Counts:
    """What a manifest states about all shards."""

    def __init__(self, vocabulary: int) -> None:
        self._images = self._postings = 0
        self._frequencies = np.zeros(vocabulary, np.int64)
        self._impacts = np.zeros(vocabulary, np.float64)
        self._report = QuantisationReport()

    def add(self, shard: PostingShard) -> None:
        postings = shard.postings
        self._images += len(postings)
        self._postings += len(postings.terms)
        self._frequencies += np.bincount(postings.terms, minlength=len(self._frequencies))
        self._impacts += np.bincount(postings.terms, postings.impacts, len(self._impacts))
        self._report += shard.report

    @property
    def means(self) -> NDArray[np.float32]:
        """[V] mean impact of each term."""
        return (self._impacts / max(1, self._images)).astype(np.float32)

    def manifest(
        self, folder: Path, vocabulary: str, settings: IndexSettings, scale: float
    ) -> Manifest:
        return Manifest(
            format_version=FORMAT_VERSION,
            package_version=version("visualsparta"),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            vocabulary=vocabulary,
            scale=scale,
            images=self._images,
            postings=self._postings,
            distinct_terms=int((self._frequencies > 0).sum()),
            clipped=self._report.clipped,
            mean_error=self._report.total_error / max(1, self._postings),
            largest_error=self._report.largest_error,
            parts=describe_parts(folder),
            **vars(settings),
        )
