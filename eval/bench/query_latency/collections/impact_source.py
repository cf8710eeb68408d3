"""The impacts of a real index as a matrix, from which larger collections are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from sparta.tokenizer import WordPieceTokenizer

LARGEST = 10_000  # images; larger indexes are sampled


@dataclass(frozen=True)
class ImpactSource:
    """Some images' impacts.

    Attributes:
        name: kind of the vectors: how the index was pruned, or "synthetic".
        vocabulary: [V] terms in id order.
        terms: [A] int32, rising ids of the terms that any image has.
        impacts: [N, A] uint8 or uint16, 0 where an image lacks a term.
        bits: of an impact.
        about: their origin, for the results.
    """

    name: str
    vocabulary: list[str]
    terms: NDArray[np.int32]
    impacts: NDArray[np.unsignedinteger]
    bits: int
    about: dict[str, object]


def read_source(index: Path) -> ImpactSource:
    """Read the impacts out of an index folder, of 10,000 random images if it has more.

    Raises:
        InputError: if the folder is no index.
    """
    manifest = Manifest.open(index)
    tokenizer = WordPieceTokenizer.from_folder(index)
    manifest.check_vocabulary(index, tokenizer.vocabulary_hash)
    lucene = LuceneIndex(index / LUCENE)
    images = len(lucene)
    places = np.full(images, -1)
    chosen = np.random.default_rng(0).choice(images, min(images, LARGEST), replace=False)
    places[np.sort(chosen)] = np.arange(len(chosen))
    terms, columns = [], []
    for number, term in enumerate(tokenizer.vocabulary):
        # All images with a term are the answer to that term as a query.
        found = lucene.top(term, images) if lucene.document_frequency(term) else []
        if found:
            documents, impacts = np.array(found, np.int64).T
            column = np.zeros(len(chosen), np.uint8 if manifest.bits <= 8 else np.uint16)
            kept = places[documents] >= 0
            column[places[documents[kept]]] = impacts[kept]
            terms.append(number)
            columns.append(column)
    lucene.close()
    about = {
        "images": len(chosen),
        "models": manifest.models,
        "features": manifest.features,
        "offset": manifest.offset,
        "terms": manifest.terms,
        "asked": manifest.asked,
        "asked_power": manifest.asked_power,
        "top_n": manifest.top_n or "all",
        "bits": manifest.bits,
    }
    return ImpactSource(
        _name(manifest),
        tokenizer.vocabulary,
        np.array(terms, np.int32),
        np.ascontiguousarray(np.array(columns).T),
        manifest.bits,
        about,
    )


def _name(manifest: Manifest) -> str:
    """The offset, and how terms were chosen if frequencies weighed in the choice.

    Then an index has the terms of its own top-n alone: those of a smaller one are not the terms of
    its largest impacts.
    """
    if manifest.asked == "none":
        return manifest.offset
    asked = f"{manifest.asked[:12]} {manifest.asked_power:g}"
    return f"{manifest.offset}, {asked}, {manifest.top_n}, {manifest.bits} bits"
