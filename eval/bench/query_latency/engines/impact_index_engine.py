"""impact-index: pruning while searching, over compressed lists or blocks of images."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from itertools import pairwise
from pathlib import Path
from typing import Any

import impact_index
import numpy as np

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise

PACKED, BLOCKS = "packed", "blocks.bmp"
BLOCK = 64  # images of a block of BMP, as in the package's example


def raw_index(corpus: Corpus, folder: Path) -> Any:
    """The package's plain index, which it makes the others from; some 12 bytes a posting."""
    builder = impact_index.IndexBuilder(str(folder))
    number = 0
    for rows in corpus.rows():
        terms, impacts = rows.terms.astype(np.uintp), rows.impacts.astype(np.float32)
        for first, last in pairwise(rows.starts):
            builder.add(number, terms[first:last], impacts[first:last])
            number += 1
    return builder.build(False)


class _Converted(Engine[Corpus]):
    """One of the package's indexes, made from the plain one, which is then deleted."""

    @abstractmethod
    def convert(self, raw: Any) -> None:
        """Make the index from the plain one."""

    def build(self) -> None:
        """Build, convert, delete."""
        raw = self.folder / "raw"
        self.convert(raw_index(self.data, raw))
        shutil.rmtree(raw)


class MaxScore(_Converted):
    """Block-max MaxScore."""

    settings = (
        "impact-index 1.7: MaxScore over lists compressed without loss in blocks of 128 "
        "postings, memory-mapped"
    )
    promise = Promise.SCORES

    def convert(self, raw: Any) -> None:
        """Whole numbers are packed as they are."""
        raw.compress(str(self.folder / PACKED), in_memory=False)

    def open(self) -> None:
        """Map the lists."""
        self._index = impact_index.Index.load(str(self.folder / PACKED), False)

    def search(self, query: TermQuery, k: int) -> Answer:
        """Ask with the terms' counts as weights."""
        return _answer(self._index.search_maxscore(query.terms, k))


class Wand(MaxScore):
    """Block-max WAND."""

    settings = MaxScore.settings.replace("MaxScore", "block-max WAND")

    def search(self, query: TermQuery, k: int) -> Answer:
        """Ask with the terms' counts as weights."""
        return _answer(self._index.search_wand(query.terms, k))


class BlockMaxPruning(_Converted):
    """BMP."""

    settings = (
        f"impact-index 1.7: BMP with blocks of {BLOCK} images, compressed ranges, alpha = beta = "
        "1, at which no block that may matter is skipped; it rounds a query's weights to 32 levels"
    )
    promise = Promise.NEAR

    def convert(self, raw: Any) -> None:
        """By the way that needs little memory."""
        raw.to_bmp_streaming(str(self.folder / BLOCKS), BLOCK, True)

    def open(self) -> None:
        """Read the blocks, and which terms there are: it cannot be asked without any."""
        self._known = np.zeros(len(self.data.vocabulary), bool)
        for rows in self.data.rows():
            self._known[rows.terms] = True
        self._index = impact_index.BmpSearcher(str(self.folder / BLOCKS))

    def search(self, query: TermQuery, k: int) -> Answer:
        """Terms are text to it, and so are images."""
        counts = query.terms.items()
        terms = {str(term): float(count) for term, count in counts if self._known[term]}
        if len(terms) < 2:  # without any it crashes, and with one that is nowhere above its bound
            return _answer([])
        documents, scores = self._index.search(terms, k)
        return Answer(np.array(documents, np.int32), np.array(scores))


def _answer(found: list[Any]) -> Answer:
    return Answer(
        np.array([one.docid for one in found], np.int32),
        np.array([one.score for one in found], np.float32),
    )
