"""Writes impacts into Lucene indexes that Pyserini's own impact searchers can open too."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from indexer.lucene.adding import add_documents
from indexer.lucene.document import Documents, Texts, impact_analyzer
from indexer.lucene.jvm import declare, in_turn, java, java_errors, java_path
from indexer.lucene.method_handles import as_callable, method
from indexer.postings import Postings

BUFFER_MB = 64.0
AT_ONCE = 128  # images whose documents are made at once
LONGEST_WAIT = 600  # seconds, for what cannot be stopped: the writing of one segment


class SegmentWriter:
    """Adds images to a new index of one segment, in a thread of Java's.

    pyjnius lets one thread of Python's at a time call Java. What that thread of Java's calls is
    made of method handles, in which there is nothing of Python's, so that the next documents are
    made meanwhile.

    Args:
        folder: where the index goes; must not exist.
        texts: makes the documents' texts.
        free: documents to fill, of which more are made as needed; they are returned at the end.

    Attributes:
        images: how many were added.
        postings: of these.

    Raises:
        FileExistsError: if the folder exists.
    """

    @in_turn
    def __init__(self, folder: Path, texts: Texts, free: list[Documents]) -> None:
        folder.mkdir(parents=True)
        self.images = self.postings = 0
        self._texts, self._free = texts, free
        self._writer = _open_writer(folder)
        self._thread = java("java.util.concurrent.Executors").newSingleThreadExecutor()
        self._used: list[Documents] = []
        self._begun: deque[Any] = deque()

    @in_turn
    def add(self, images: Postings) -> None:
        """Begin to add some images."""
        for first in range(0, len(images), AT_ONCE):
            documents = self._free.pop() if self._free else Documents(self._texts)
            self._used.append(documents)
            documents.fill(images.part(slice(first, first + AT_ONCE)))
            self._begin(add_documents(), documents.list)
        self.images += len(images)
        self.postings += len(images.terms)

    @in_turn
    def finish(self) -> None:
        """Begin to write the segment, after all that is being added."""
        # One segment: Lucene's document number is then the image's place in id order, so
        # that Lucene's own rule for ties (lower number first) is "lower image id first".
        self._begin(_method("forceMerge", "int"), 1)
        self._begin(_method("close"))
        self._thread.shutdown()

    def _begin(self, handle: Any, *arguments: Any) -> None:
        self._begun.append(self._thread.submit(as_callable(handle, self._writer, *arguments)))

    @in_turn
    def wait(self) -> None:
        """Wait until all that was begun is done.

        Raises:
            OSError: if Lucene cannot write.
        """
        with java_errors():
            while self._begun:
                self._begun[0].get()
                self._begun.popleft()
        self._free += self._used
        self._used = []

    @in_turn
    def abandon(self) -> None:
        """End without what was not finished."""
        for begun in self._begun:
            begun.cancel(False)
        self._thread.shutdown()
        self._thread.awaitTermination(LONGEST_WAIT, java("java.util.concurrent.TimeUnit").SECONDS)
        self._writer.rollback()


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
    remove_lock(folder)


def remove_lock(folder: Path) -> None:
    """Remove the file that Lucene's writers leave."""
    (folder / "write.lock").unlink(missing_ok=True)


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
    writer.close()


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


@cache
def _method(name: str, *arguments: str) -> Any:
    return method("org.apache.lucene.index.IndexWriter", name, "void", *arguments)


@cache
def _writer_class() -> Any:
    index = "org/apache/lucene/index/"
    return declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        addIndexes=f"([L{index}CodecReader;)J",
        rollback="()V",
        close="()V",
    )
