"""Lucene documents of images, as the writers index them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, repeat
from typing import Any

import numpy as np

from indexer.grounding import pack_all
from indexer.lucene.jvm import declare, java
from indexer.lucene.schema import CONTENTS, DELIMITER, GROUNDING, ID, ORIGIN, RAW
from indexer.postings import Postings
from sparta.errors import InputError

_FIELD, _BYTES, _TEXT = (
    "org/apache/lucene/document/",
    "org/apache/lucene/util/BytesRef",
    "Ljava/lang/String;",
)
LONGEST_TOKEN = 255  # of Lucene's whitespace tokenizer, which cuts longer ones


class Texts:
    """Makes the texts of documents: terms and impacts as Lucene's tokenizer takes them apart.

    Args:
        vocabulary: [V] terms in id order, as `check_vocabulary` accepts them.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        # Strings of terms and impacts, so that a document's text is two look-ups and one join.
        self._terms = np.array([term + DELIMITER for term in vocabulary], dtype=object)
        self._numbers = _number_strings(255)

    def of(self, images: Postings) -> list[str]:
        """The text of each image."""
        largest = int(images.impacts.max(initial=0))
        if largest >= len(self._numbers):
            self._numbers = _number_strings(2 * largest)
        parts = np.empty((len(images.terms), 2), dtype=object)
        parts[:, 0], parts[:, 1] = self._terms[images.terms], self._numbers[images.impacts]
        joined, starts = parts.ravel().tolist(), (2 * images.starts).tolist()
        return ["".join(joined[start:end]) for start, end in pairwise(starts)]


class Documents:
    """Documents of some images, refilled for the next ones: Lucene copies what it indexes.

    Args:
        texts: makes the documents' texts.

    Attributes:
        list: the documents, a `java.util.List`.
    """

    def __init__(self, texts: Texts) -> None:
        self.list = java("java.util.ArrayList")()
        self._texts = texts
        self._made: list[_Document] = []
        self._length = 0

    def fill(self, images: Postings, origins: Sequence[str] | None = None) -> None:
        """Let the list have the documents of these images, and of where they come from."""
        self._resize(len(images))
        for document, *content in zip(
            self._made,
            images.ids,
            map(json.dumps, images.metadata),
            repeat("") if origins is None else origins,
            self._texts.of(images),
            pack_all(images),
            strict=False,
        ):
            document.fill(*content)

    def _resize(self, length: int) -> None:
        if length == self._length:
            return
        self._made += [_Document() for _ in range(length - len(self._made))]
        self.list.clear()
        for document in self._made[:length]:
            self.list.add(document.java)
        self._length = length


class _Document:
    """A document of Lucene's and its fields."""

    def __init__(self) -> None:
        yes = java("org.apache.lucene.document.Field$Store").YES
        self._id = _text_field("StringField", f"L{_FIELD}Field$Store;")(ID, "", yes)
        no_bytes = java("org.apache.lucene.util.BytesRef")(b"")
        self._id_values = _bytes_field("BinaryDocValuesField", f"L{_BYTES};")(ID, no_bytes)
        self._raw = _text_field("StoredField")(RAW, "")
        self._origin, self._last_origin = _text_field("StoredField")(ORIGIN, ""), ""
        self._grounding = _bytes_field("StoredField", "[B")(GROUNDING, b"")
        kind = "Lorg/apache/lucene/index/IndexableFieldType;"
        self._contents = _text_field("Field", kind)(CONTENTS, "", _impact_field_type())
        self.java = java("org.apache.lucene.document.Document")()
        # The grounding comes last, so that reading the id and metadata need not unpack it.
        for part in (self._id, self._id_values, self._raw, self._origin, self._contents):
            self.java.add(part)
        self.java.add(self._grounding)

    def fill(self, image_id: str, metadata: str, origin: str, text: str, grounding: bytes) -> None:
        self._id.setStringValue(image_id)
        self._id_values.setBytesValue(image_id.encode())
        self._raw.setStringValue(metadata)
        if origin != self._last_origin:
            self._origin.setStringValue(origin)
            self._last_origin = origin
        self._contents.setStringValue(text)
        self._grounding.setBytesValue(grounding)


# What is called for each image is spelled out, so that pyjnius looks nothing up.
@cache
def _text_field(kind: str, *more: str) -> Any:
    text = "Ljava/lang/CharSequence;" if kind == "Field" else _TEXT
    constructor = f"({_TEXT}{text}{''.join(more)})V"
    return declare(_FIELD + kind, constructor, setStringValue=f"({_TEXT})V")


@cache
def _bytes_field(kind: str, content: str) -> Any:
    return declare(_FIELD + kind, f"({_TEXT}{content})V", setBytesValue="([B)V")


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


@cache
def _impact_field_type() -> Any:
    """Term and frequency, no norms: an image's length must not enter its score."""
    kind = java("org.apache.lucene.document.FieldType")()
    kind.setIndexOptions(java("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.setTokenized(True)
    kind.setOmitNorms(True)
    kind.freeze()
    return kind
