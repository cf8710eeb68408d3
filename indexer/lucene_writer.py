"""Writes impacts into a Lucene index that Pyserini's own impact searchers can open too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from indexer.grounding import pack
from indexer.jvm import in_turn, java
from indexer.postings import ImagePostings
from sparta.errors import InputError

# Fields by the names Anserini gives them, and one of ours.
ID, CONTENTS, RAW = "id", "contents", "raw"
GROUNDING = "grounding"

# Stands between a term and its impact in the text handed to Lucene; not white space to Java.
DELIMITER = "\x01"
LONGEST_TOKEN = 255  # of Lucene's whitespace tokenizer, which cuts longer ones
BUFFER_MB = 256.0


class LuceneWriter:
    """Adds images to a new index; leaving the `with` block merges and commits.

    Args:
        folder: where the index goes; must not exist.
        vocabulary: [V] terms in id order.

    Raises:
        InputError: if a term cannot be written as Lucene's tokenizer would read it back.
        FileExistsError: if the folder exists.
    """

    @in_turn
    def __init__(self, folder: Path, vocabulary: Sequence[str]) -> None:
        _check_vocabulary(vocabulary)
        folder.mkdir(parents=True)
        self._folder, self._last = folder, ""
        # Term and impact strings, so that a document's text is two look-ups and one join.
        self._terms = np.array([term + DELIMITER for term in vocabulary], dtype=object)
        self._numbers = np.array([str(i) for i in range(256)], dtype=object)
        self._writer = _open_writer(folder)
        self._make_document()

    def _make_document(self) -> None:
        """One document, filled anew for every image: Lucene copies what it indexes."""
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
        """Add one image.

        Raises:
            ValueError: if its id does not come after the one before.
        """
        if image.image_id <= self._last:
            raise ValueError(f"image {image.image_id!r} comes after {self._last!r}: not rising")
        self._last = image.image_id
        tokens = self._terms[image.terms] + self._impact_strings(image)
        self._id.setStringValue(image.image_id)
        self._id_values.setBytesValue(image.image_id.encode())
        self._raw.setStringValue(json.dumps(image.metadata))
        self._grounding.setBytesValue(pack(image.terms, image.regions, image.boxes))
        self._contents.setStringValue(" ".join(tokens))
        self._writer.addDocument(self._document)

    def _impact_strings(self, image: ImagePostings) -> np.ndarray:
        largest = int(image.impacts.max(initial=0))
        if largest >= len(self._numbers):
            self._numbers = np.array([str(i) for i in range(2 * largest)], dtype=object)
        return self._numbers[image.impacts]

    def __enter__(self) -> LuceneWriter:
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
        self._writer.close()
        (self._folder / "write.lock").unlink(missing_ok=True)


def _open_writer(folder: Path) -> Any:
    index = "org.apache.lucene.index."
    options = java(index + "IndexWriterConfig")(_analyzer())
    options.setRAMBufferSizeMB(BUFFER_MB)
    options.setUseCompoundFile(False)
    # Merges neighbours only, where the default (tiered) policy would shuffle the image order;
    # on this thread, so that every run does the same.
    options.setMergePolicy(java(index + "LogDocMergePolicy")())
    options.setMergeScheduler(java(index + "SerialMergeScheduler")())
    path = java("java.nio.file.Paths").get(str(folder))
    return java(index + "IndexWriter")(
        java("org.apache.lucene.store.FSDirectory").open(path), options
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


def _check_vocabulary(vocabulary: Sequence[str]) -> None:
    for number, term in enumerate(vocabulary):
        if not term or DELIMITER in term or len(term.split()) != 1 or term != term.strip():
            raise InputError(f"term {number} of the vocabulary, {term!r}, cannot be indexed: blank")
        if len(term) > LONGEST_TOKEN - 12:
            raise InputError(
                f"term {number} of the vocabulary has {len(term)} characters, over 243"
            )
