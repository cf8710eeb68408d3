"""Lucene documents of images, as the writers index them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import Grounding, pack
from indexer.lucene.jvm import java
from indexer.lucene.schema import CONTENTS, DELIMITER, GROUNDING, ID, ORIGIN, RAW
from indexer.postings import ImagePostings
from sparta.errors import InputError

LONGEST_TOKEN = 255  # of Lucene's whitespace tokenizer, which cuts longer ones


class DocumentMaker:
    """Makes one document, refilled for every image: Lucene copies what it indexes.

    Args:
        vocabulary: [V] terms in id order, as `check_vocabulary` accepts them.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._terms = [term + DELIMITER for term in vocabulary]
        self._largest = 255  # impact that has a piece
        self._pieces = _Pieces([*self._terms, *_numbers(self._largest)])
        field = "org.apache.lucene.document."
        stored = java(field + "StoredField")
        self._id = java(field + "StringField")(ID, "", java(field + "Field$Store").YES)
        self._id_values = java(field + "BinaryDocValuesField")(
            ID, java("org.apache.lucene.util.BytesRef")(b"")
        )
        self._raw, self._grounding = stored(RAW, ""), stored(GROUNDING, b"")
        self._origin = stored(ORIGIN, "")
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
        for part in (self._id, self._id_values, self._raw, self._origin, self._contents):
            self._document.add(part)
        self._document.add(self._grounding)

    def of(self, image: ImagePostings) -> Any:
        """The document of an image, until the next call."""
        self._id.setStringValue(image.image_id)
        self._id_values.setBytesValue(image.image_id.encode())
        self._raw.setStringValue(json.dumps(image.metadata))
        self._origin.setStringValue(image.origin)
        self._grounding.setBytesValue(pack(Grounding(image.terms, image.positions, image.inputs)))
        self._contents.setStringValue(self.text(image))
        return self._document

    def text(self, image: ImagePostings) -> str:
        """An image's terms and impacts as Lucene's tokenizer takes them apart."""
        largest = int(image.impacts.max(initial=0))
        if largest > self._largest:
            self._largest = 2 * largest
            self._pieces = _Pieces([*self._terms, *_numbers(self._largest)])
        pairs = np.stack([image.terms, len(self._terms) + image.impacts], axis=1)
        return self._pieces.joined(pairs.ravel())


class _Pieces:
    """Short texts, many of which are joined at once.

    Args:
        texts: [n] of them.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        encoded = [text.encode() for text in texts]
        self._lengths = np.array([len(one) for one in encoded])
        self._starts = self._lengths.cumsum() - self._lengths
        self._data = np.frombuffer(b"".join(encoded), np.uint8)

    def joined(self, numbers: NDArray[np.integer]) -> str:
        """The texts of these numbers, one after another."""
        lengths = self._lengths[numbers]
        ends = lengths.cumsum()
        places = np.repeat(self._starts[numbers] - (ends - lengths), lengths)
        places += np.arange(len(places))
        return self._data[places].tobytes().decode()


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


def _numbers(largest: int) -> Iterator[str]:
    return (f"{number} " for number in range(largest + 1))


def impact_analyzer() -> Any:
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
