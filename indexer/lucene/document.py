"""Lucene documents of images, as the writers index them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

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
        # Strings of terms and impacts, so that a document's text is two look-ups and one join.
        self._terms = np.array([term + DELIMITER for term in vocabulary], dtype=object)
        self._numbers = _number_strings(255)
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
        if largest >= len(self._numbers):
            self._numbers = _number_strings(2 * largest)
        parts = np.empty((len(image.terms), 2), dtype=object)
        parts[:, 0], parts[:, 1] = self._terms[image.terms], self._numbers[image.impacts]
        return "".join(parts.ravel().tolist())


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
