"""Writes impacts into Lucene indexes that Pyserini's own impact searchers can open too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from indexer.lucene.document import Documents, Texts, impact_analyzer
from indexer.lucene.jvm import declare, in_turn, java, java_errors, java_path
from indexer.postings import Postings

BUFFER_MB = 64.0
AT_ONCE = 128  # images whose documents are made at once


def write_segment(folder: Path, vocabulary: Sequence[str], shards: Iterable[Postings]) -> None:
    """Write some images as an index of one segment.

    Args:
        folder: where the index goes; must not exist.
        vocabulary: [V] terms in id order.
        shards: the images, in rising order of their ids.
    """
    with java_errors(), SegmentWriter(folder, vocabulary) as writer:
        for shard in shards:
            writer.add(shard)


class SegmentWriter:
    """Adds images to a new index; leaving the `with` block merges and commits.

    Args:
        folder: where the index goes; must not exist.
        vocabulary: [V] terms in id order, as `check_vocabulary` accepts them.

    Raises:
        FileExistsError: if the folder exists.
    """

    @in_turn
    def __init__(self, folder: Path, vocabulary: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._documents = Documents(Texts(vocabulary))
        self._writer = _open_writer(folder)

    @in_turn
    def add(self, images: Postings) -> None:
        """Add some images."""
        left = iter(images)
        while some := list(islice(left, AT_ONCE)):
            self._documents.fill(some)
            self._writer.addDocuments(self._documents.list)

    def __enter__(self) -> SegmentWriter:
        return self

    @in_turn
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._writer.rollback()
            return
        # One segment: Lucene's document number is then the image's place in id order, so
        # that Lucene's own rule for ties (lower number first) is "lower image id first".
        self._writer.forceMerge(1)
        _close(self._writer, self._folder)


@in_turn
def merge_segments(parts: Sequence[Path], folder: Path) -> None:
    """Make one index of one segment out of several.

    Args:
        parts: indexes, whose images follow one another in this order.
        folder: where the index goes; must not exist.
    """
    folder.mkdir(parents=True)
    with java_errors():
        _merge(parts, folder)


def _merge(parts: Sequence[Path], folder: Path) -> None:
    from jnius import cast

    # Parts are read like any file: mapped, all of their bytes would count as this process's
    # memory, and merging would be no more than a tenth faster.
    directory = java("org.apache.lucene.store.NIOFSDirectory")
    open_reader = java("org.apache.lucene.index.DirectoryReader").open
    readers = [open_reader(directory(java_path(part))) for part in parts]
    segments = [leaf.reader() for reader in readers for leaf in reader.leaves()]
    writer = _open_writer(folder)
    writer.addIndexes([cast("org.apache.lucene.index.CodecReader", one) for one in segments])
    for reader in readers:
        reader.close()
    _close(writer, folder)


def _open_writer(folder: Path) -> Any:
    options = java("org.apache.lucene.index.IndexWriterConfig")(impact_analyzer())
    options.setRAMBufferSizeMB(BUFFER_MB)
    options.setUseCompoundFile(False)
    # Merges neighbours only, where the default (tiered) policy would shuffle the image order;
    # on this thread, so that every run does the same.
    options.setMergePolicy(java("org.apache.lucene.index.LogDocMergePolicy")())
    options.setMergeScheduler(java("org.apache.lucene.index.SerialMergeScheduler")())
    directory = java("org.apache.lucene.store.FSDirectory").open(java_path(folder))
    return _writer_class()(directory, options)


def _close(writer: Any, folder: Path) -> None:
    writer.close()
    (folder / "write.lock").unlink(missing_ok=True)


@cache
def _writer_class() -> Any:
    index = "org/apache/lucene/index/"
    return declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        addDocuments="(Ljava/lang/Iterable;)J",
        addIndexes=f"([L{index}CodecReader;)J",
        forceMerge="(I)V",
        rollback="()V",
        close="()V",
    )
