"""Changes the images of a Lucene index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from indexer.lucene.adding import Adding
from indexer.lucene.document import check_vocabulary, impact_analyzer
from indexer.lucene.jvm import declare, in_turn, java, java_errors, java_path
from indexer.lucene.schema import ID
from indexer.postings import ImagePostings

BUFFER_MB = 64.0


class LuceneUpdater:
    """The one writer of a Lucene index; merges segments of similar size in threads of Java's.

    After an `OSError` the updater is of no use but to be abandoned.

    Args:
        folder: of the index, which exists.
        vocabulary: [V] terms in id order.

    Raises:
        InputError: if a term cannot be written as Lucene's tokenizer would read it back.
        OSError: if Lucene cannot open the folder.
    """

    @in_turn
    def __init__(self, folder: Path, vocabulary: Sequence[str]) -> None:
        check_vocabulary(vocabulary)
        self._folder = folder
        options = java("org.apache.lucene.index.IndexWriterConfig")(impact_analyzer())
        options.setRAMBufferSizeMB(BUFFER_MB)
        options.setCommitOnClose(False)  # whose commit would have the data of the one before
        self._merges = java("org.apache.lucene.index.ConcurrentMergeScheduler")()
        options.setMergeScheduler(self._merges)
        with java_errors():
            directory = java("org.apache.lucene.store.FSDirectory").open(java_path(folder))
            self._writer = _writer_class()(directory, options)
        self._adding = Adding(self._writer, vocabulary)

    @in_turn
    def replace(self, images: Sequence[ImagePostings]) -> None:
        """Add images, each in place of one with its id if there is one.

        Lucene indexes them in threads of Java's, until the next commit at the latest.

        Args:
            images: some hundred at most, since other callers of Java wait meanwhile; each of them
                the only change of its id since the last commit.

        Raises:
            OSError: if Lucene cannot write these images, or some before.
        """
        with java_errors():
            self._writer.deleteDocuments([_of(image.image_id) for image in images])
            self._adding.add(images)

    @in_turn
    def delete(self, image_id: str) -> None:
        """Delete an image, if there is one of that id."""
        with java_errors():
            self._writer.deleteDocuments([_of(image_id)])

    @in_turn
    def commit(self, data: Mapping[str, str]) -> None:
        """Sync everything to the disk, where new readers find it.

        Args:
            data: stored with the commit.

        Raises:
            OSError: if Lucene cannot write, be it an image that was added since the last commit.
        """
        stored = java("java.util.HashMap")()
        for name, value in data.items():
            stored.put(name, value)
        with java_errors():
            self._adding.wait()
            self._writer.setLiveCommitData(stored.entrySet())
            self._writer.commit()

    @in_turn
    def close(self, data: Mapping[str, str]) -> None:
        """Wait for merges and commit them too; the last call after a commit.

        Args:
            data: stored with that commit, if there is something to commit.
        """
        with java_errors():
            self._merges.sync()
            if self._writer.hasUncommittedChanges():
                self.commit(data)
            self._writer.close()
        (self._folder / "write.lock").unlink(missing_ok=True)

    @in_turn
    def abandon(self, in_place: bool = True) -> None:
        """Close without what was not committed.

        Args:
            in_place: whether the folder is still the one that was opened. Lucene removes from it
                what it does not know, unless it finds that its lock is gone.
        """
        if not in_place:
            (self._folder / "write.lock").unlink(missing_ok=True)
        try:
            with java_errors():
                self._writer.rollback()
        except OSError:
            if in_place:
                raise


def _of(image_id: str) -> Any:
    return _term_class()(ID, image_id)


@cache
def _term_class() -> Any:
    return declare("org/apache/lucene/index/Term", "(Ljava/lang/String;Ljava/lang/String;)V")


@cache
def _writer_class() -> Any:
    index = "org/apache/lucene/index/"
    return declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        deleteDocuments=f"([L{index}Term;)J",
        setLiveCommitData="(Ljava/lang/Iterable;)V",
        commit="()J",
        hasUncommittedChanges="()Z",
        close="()V",
        rollback="()V",
    )
