"""Shards of postings → an index folder: Lucene, columns, tokenizer, offsets, manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.row_files import SpooledRows
from indexer.columns.writer import ColumnWriter
from indexer.encoding.impacts import MEANS
from indexer.fields.kinds import Kind
from indexer.fields.store import save_kinds
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.manifest import FORMAT_VERSION, OFFSETS, Manifest
from indexer.parts import LUCENE, describe_parts
from indexer.postings import PostingShard, QuantisationReport
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress
from sparta.tokenizer import Tokenizer
from sparta.word_tables import WordTables


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
    tables: WordTables | None = None,
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
        tables: of words, copied; None for none.
        kinds: declared kinds of fields; those of others are inferred.
        progress: stages "write", "merge" and "columns", in images; the last two at once.
    """
    folder.mkdir(parents=True)
    save_kinds(folder, kinds or {})
    report = QuantisationReport()
    with ColumnWriter(folder, len(tokenizer.vocabulary), settings.bits) as columns:
        with LuceneWriter(folder / LUCENE, tokenizer.vocabulary, images, progress) as lucene:
            for shard in shards:
                lucene.add(shard.postings)
                columns.add(shard.postings)
                report += shard.report
            lucene.begin_merge()
            columns.lay_out(progress)  # on another core
        tokenizer.save(folder)
        if tables:
            tables.save(folder)
        np.save(folder / OFFSETS, offset)
        rows = columns.rows()
        if means is None:
            means = (columns.totals / max(1, len(rows))).astype(np.float32)
        np.save(folder / MEANS, means)
        manifest = _manifest(folder, rows, report, tokenizer.vocabulary_hash, settings, scale)
        manifest.save(folder)
        columns.publish()
    return manifest


def _manifest(
    folder: Path,
    rows: SpooledRows,
    report: QuantisationReport,
    vocabulary: str,
    settings: IndexSettings,
    scale: float,
) -> Manifest:
    postings = int(rows.frequencies.sum())
    return Manifest(
        format_version=FORMAT_VERSION,
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        vocabulary=vocabulary,
        scale=scale,
        images=len(rows),
        postings=postings,
        distinct_terms=int((rows.frequencies > 0).sum()),
        clipped=report.clipped,
        mean_error=report.total_error / max(1, postings),
        largest_error=report.largest_error,
        parts=describe_parts(folder),
        **vars(settings),
    )
