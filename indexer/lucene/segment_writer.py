"""Writes impacts into Lucene indexes that Pyserini's own impact searchers can open too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from indexer.grounding import Grounding, pack
from indexer.lucene.jvm import declare, in_turn, java, start
from indexer.lucene.schema import CONTENTS, DELIMITER, GROUNDING, ID, RAW
from indexer.postings import ImagePostings, Postings
from sparta.errors import InputError, first_line

LONGEST_TOKEN = 255  # of Lucene's whitespace tokenizer, which cuts longer ones
BUFFER_MB = 64.0


def write_segment(folder: Path, vocabulary: Sequence[str], shards: Iterable[Postings]) -> None:
    """Write some images as an index of one segment.

    Args:
        folder: where the index goes; must not exist.
        vocabulary: [V] terms in id order.
        shards: the images, in rising order of their ids.
    """
    with _java_errors(), SegmentWriter(folder, vocabulary) as writer:
        for shard in shards:
            for image in shard:
                writer.add(image)


@contextmanager
def _java_errors() -> Iterator[None]:
    """Raise what Java could not write as an `OSError`, which can leave this process too."""
    try:
        yield
    except Exception as error:
        start()
        from jnius import JavaException

        if not isinstance(error, JavaException):
            raise
        raise OSError(f"Lucene cannot write: {first_line(error)}") from error


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
        # Strings of terms and impacts, so that a document's text is two look-ups and one join.
        self._terms = np.array([term + DELIMITER for term in vocabulary], dtype=object)
        self._numbers = _number_strings(255)
        self._writer = _open_writer(folder)
        self._make_document()

    def _make_document(self) -> None:
        """One document, refilled for every image: Lucene copies what it indexes."""
        field = "org.apache.lucene.document."
        stored = java(field + "StoredField")
        self._id = java(field + "StringField")(ID, "", java(field + "Field$Store").YES)
        self._id_values = java(field + "BinaryDocValuesField")(
            ID, java("org.apache.lucene.util.BytesRef")(b"")
        )
        self._raw, self._grounding = stored(RAW, ""), stored(GROUNDING, b"")
        # The signature is spelled out: pyjnius takes a str for the wrong overload here.
        self._contents = java(field + "Field")(
            CONTENTS,
            "",
            _impact_field_type(),
            signature="(Ljava/lang/String;Ljava/lang/CharSequence;"
            "Lorg/apache/lucene/index/IndexableFieldType;)V",
        )
        self._document = java(field + "Document")()
        # The grounding comes last, so that reading the id and metadata need not unpack it.
        for part in (self._id, self._id_values, self._raw, self._contents, self._grounding):
            self._document.add(part)

    @in_turn
    def add(self, image: ImagePostings) -> None:
        """Add one image."""
        self._id.setStringValue(image.image_id)
        self._id_values.setBytesValue(image.image_id.encode())
        self._raw.setStringValue(json.dumps(image.metadata))
        self._grounding.setBytesValue(pack(Grounding(image.terms, image.positions, image.inputs)))
        self._contents.setStringValue(self.text(image))
        self._writer.addDocument(self._document)

    def text(self, image: ImagePostings) -> str:
        """An image's terms and impacts as Lucene's tokenizer takes them apart."""
        largest = int(image.impacts.max(initial=0))
        if largest >= len(self._numbers):
            self._numbers = _number_strings(2 * largest)
        parts = np.empty((len(image.terms), 2), dtype=object)
        parts[:, 0], parts[:, 1] = self._terms[image.terms], self._numbers[image.impacts]
        return "".join(parts.ravel().tolist())

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
    with _java_errors():
        _merge(parts, folder)


def _merge(parts: Sequence[Path], folder: Path) -> None:
    from jnius import cast

    # Parts are read like any file: mapped, all of their bytes would count as this process's
    # memory, and merging would be no more than a tenth faster.
    directory = java("org.apache.lucene.store.NIOFSDirectory")
    open_reader = java("org.apache.lucene.index.DirectoryReader").open
    readers = [open_reader(directory(_java_path(part))) for part in parts]
    segments = [leaf.reader() for reader in readers for leaf in reader.leaves()]
    writer = _open_writer(folder)
    writer.addIndexes([cast("org.apache.lucene.index.CodecReader", one) for one in segments])
    for reader in readers:
        reader.close()
    _close(writer, folder)


def check_vocabulary(vocabulary: Sequence[str]) -> None:
    """Refuse terms that Lucene's tokenizer would not read back as they are.

    Raises:
        InputError: if there is such a term.
    """
    for number, term in enumerate(vocabulary):
        if not term or DELIMITER in term or len(term.split()) != 1 or term != term.strip():
            raise InputError(f"term {number} of the vocabulary, {term!r}, cannot be indexed: blank")
        if len(term) > LONGEST_TOKEN - 12:
            raise InputError(
                f"term {number} of the vocabulary has {len(term)} characters, over 243"
            )


def _number_strings(largest: int) -> np.ndarray:
    return np.array([f"{number} " for number in range(largest + 1)], dtype=object)


def _open_writer(folder: Path) -> Any:
    options = java("org.apache.lucene.index.IndexWriterConfig")(_analyzer())
    options.setRAMBufferSizeMB(BUFFER_MB)
    options.setUseCompoundFile(False)
    # Merges neighbours only, where the default (tiered) policy would shuffle the image order;
    # on this thread, so that every run does the same.
    options.setMergePolicy(java("org.apache.lucene.index.LogDocMergePolicy")())
    options.setMergeScheduler(java("org.apache.lucene.index.SerialMergeScheduler")())
    directory = java("org.apache.lucene.store.FSDirectory").open(_java_path(folder))
    return _writer_class()(directory, options)


def _close(writer: Any, folder: Path) -> None:
    writer.close()
    (folder / "write.lock").unlink(missing_ok=True)


def _java_path(path: Path) -> Any:
    return java("java.nio.file.Paths").get(str(path))


@cache
def _writer_class() -> Any:
    index = "org/apache/lucene/index/"
    return declare(
        index + "IndexWriter",
        f"(Lorg/apache/lucene/store/Directory;L{index}IndexWriterConfig;)V",
        addDocument="(Ljava/lang/Iterable;)J",
        addIndexes=f"([L{index}CodecReader;)J",
        forceMerge="(I)V",
        rollback="()V",
        close="()V",
    )


def _analyzer() -> Any:
    """Splits at white space and takes the number after the delimiter as the term frequency."""
    settings = java("java.util.HashMap")()
    settings.put("delimiter", DELIMITER)
    builder = java("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    builder = builder.withTokenizer("whitespace", java("java.util.HashMap")())
    return builder.addTokenFilter("delimitedTermFrequency", settings).build()


def _impact_field_type() -> Any:
    """Term and frequency, no norms: an image's length must not enter its score."""
    kind = java("org.apache.lucene.document.FieldType")()
    kind.setIndexOptions(java("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.setTokenized(True)
    kind.setOmitNorms(True)
    kind.freeze()
    return kind
