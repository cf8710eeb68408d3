"""Images like an image: how well their captions agree, by how many terms are asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from scipy.sparse import csr_array

from indexer.columns.lucene_postings import read_images, read_rows
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import LUCENE, Manifest
from indexer.search.query_by_image import COUNTS
from indexer.search.query_by_image import TERMS as SERVED
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

# How often the query holds a term: once, as often as its impact, or in proportion to it and at
# most 256 times in all, which is what searchers do.
Counting = Literal["once", "impact", "share"]

TERMS = (5, 10, 20, 50, 100, None)  # None: all
HITS = 10
BLOCK = 256  # photos asked about at once

Matrix = csr_array[Any, tuple[int, int]]


@dataclass(frozen=True)
class QueryByImageRow:
    """One way to make a query of a photo.

    Attributes:
        terms: that it keeps, None for all.
        counting: how often the query holds each.
        agreement: of the captions of a photo and its first ten hits, on average.
        error: standard error of its difference from what searchers do, photo by photo.
    """

    terms: int | None
    counting: Counting
    agreement: float
    error: float


@dataclass(frozen=True)
class QueryByImageResult:
    """What was found for P photos among N.

    Attributes:
        photos: P.
        images: N.
        random: agreement with any other photo.
        best: with the ten photos whose captions agree most.
        rows: of every way.
    """

    photos: int
    images: int
    random: float
    best: float
    rows: Sequence[QueryByImageRow]

    def share(self, row: QueryByImageRow) -> float:
        """Where a row lies between random (0) and best (100)."""
        return 100 * (row.agreement - self.random) / (self.best - self.random)

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        rows = [
            {
                "terms": row.terms or "all",
                "counting": row.counting,
                "agreement": row.agreement,
                "error_of_difference": row.error,
                "share": self.share(row),
            }
            for row in self.rows
        ]
        return vars(self) | {"rows": rows}

    def table(self) -> Table:
        """The figures for a terminal."""
        ways = get_args(Counting)
        table = Table("terms", *ways, title="Agreement of captions, and share of what is possible")
        for terms in TERMS:
            own = [row for row in self.rows if row.terms == terms]
            cells = [
                f"{row.agreement:.4f} ± {row.error:.4f} ({self.share(row):.1f} %)" for row in own
            ]
            table.add_row(str(terms or "all"), *cells)
        table.caption = (
            f"{self.photos:,} photos among {self.images:,}; random {self.random:.4f}, "
            f"best {self.best:.4f}; ± standard error of the difference from {SERVED} terms by share"
        )
        return table


def measure_query_by_image(
    index: Path,
    captions: Sequence[CaptionedPhoto],
    asked: Sequence[str],
    progress: Progress = no_progress,
) -> QueryByImageResult:
    """Ask an index for images like some of its own, in every way, by sparse products in memory.

    Args:
        index: folder of at most some ten thousand images.
        captions: of all its images.
        asked: ids of the photos to ask about.
        progress: of the stage "search", in photos.

    Raises:
        InputError: if the folder is no index, or an image has no captions or is not indexed.
    """
    ids, impacts = read_impacts(index)
    places = {image_id: place for place, image_id in enumerate(ids)}
    missing = [image_id for image_id in asked if image_id not in places]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(asked)} captioned photos are not in {index}, "
            f"{missing[0]!r} for one: choose the --split that the index holds"
        )
    by_term = impacts.T.tocsr()
    words = caption_vectors(ids, captions)
    rows = np.array([places[image_id] for image_id in asked])
    ways = [(terms, counting) for terms in TERMS for counting in get_args(Counting)]
    found = np.zeros((len(ways), len(rows)))
    random = best = 0.0
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        agreement = (words[block] @ words.T).toarray()
        agreement[np.arange(len(block)), block] = 0
        random += float(agreement.sum()) / (len(ids) - 1)
        best += float(np.sort(agreement, axis=1)[:, -HITS:].mean(axis=1).sum())
        for way, (terms, counting) in enumerate(ways):
            hits = best_hits(by_term, block, photo_queries(impacts[block], terms, counting))
            found[way, start : start + len(block)] = agreement_of(agreement, hits)
        progress("search", start + len(block), len(rows))
    apart = found - found[ways.index((SERVED, "share"))]
    means, errors = found.mean(axis=1).tolist(), (apart.std(axis=1) / len(rows) ** 0.5).tolist()
    measured = [QueryByImageRow(*way, *one) for way, *one in zip(ways, means, errors, strict=True)]
    return QueryByImageResult(len(rows), len(ids), random / len(rows), best / len(rows), measured)


def read_impacts(index: Path) -> tuple[list[str], Matrix]:
    """Ids of an index's N images and their impacts [N, V] int64.

    Raises:
        InputError: if the folder is no index.
    """
    manifest = Manifest.open(index)
    vocabulary = WordPieceTokenizer.from_folder(index).vocabulary
    with closing(LuceneIndex(index / LUCENE)) as lucene, TemporaryDirectory() as folder:
        ids = [stored.image_id for batch in read_images(lucene) for stored in batch]
        starts, terms, impacts = read_rows(lucene, vocabulary, manifest.bits, Path(folder))
        arrays = impacts.astype(np.int64), terms.astype(np.int32), starts
    return ids, csr_array(arrays, shape=(len(ids), len(vocabulary)))


def caption_vectors(ids: Sequence[str], captions: Sequence[CaptionedPhoto]) -> Matrix:
    """What is said of N images: [N, W] float64 of length 1, so that products are cosines.

    A word counts by how many of an image's captions hold it, times log(N / images that have it).

    Raises:
        InputError: if an image has no captions.
    """
    said = {photo.image_id: photo.captions for photo in captions}
    silent = [image_id for image_id in ids if image_id not in said]
    if silent:
        raise InputError(
            f"{len(silent)} of the index's {len(ids)} images have no captions, {silent[0]!r} for "
            "one: give captions of all of them"
        )
    places: dict[str, int] = {}
    counts: list[Counter[int]] = []
    for image_id in ids:
        texts = [set(re.findall(r"\w+", text.lower())) for text in said[image_id]]
        words = (places.setdefault(word, len(places)) for text in texts for word in sorted(text))
        counts.append(Counter(words))
    starts = np.cumsum([0, *map(len, counts)])
    terms = np.array([word for count in counts for word in count], np.int32)
    values = np.array([times for count in counts for times in count.values()], np.float64)
    values *= np.log(len(ids) / np.bincount(terms, minlength=len(places)))[terms]
    lengths = np.sqrt([(part**2).sum() for part in np.split(values, starts[1:-1])])
    values /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(starts))
    return csr_array((values, terms, starts), shape=(len(ids), len(places)))


def photo_queries(impacts: Matrix, terms: int | None, counting: Counting) -> Matrix:
    """Queries [B, V] of B images, whose impacts are given; see `query_by_image.photo_query`."""
    queries = impacts.copy()
    for start, end in zip(queries.indptr[:-1], queries.indptr[1:], strict=True):
        own = queries.data[start:end]
        own[np.argsort(-own, kind="stable")[terms or len(own) :]] = 0
        if counting == "once":
            own[:] = own > 0
        elif counting == "share":
            own[:] = own * COUNTS // max(1, own.sum())
    queries.eliminate_zeros()
    return queries


def best_hits(by_term: Matrix, asked: NDArray[np.int64], queries: Matrix) -> NDArray[np.int64]:
    """The best ten images for queries made of B images, without these.

    Args:
        by_term: [V, N] impacts.
        asked: [B] the images.
        queries: [B, V] made of them.

    Returns:
        [B, 10] in no order, -1 where fewer share a term with the query; [B, N] for smaller N.
    """
    scores = (queries @ by_term).toarray()
    scores[np.arange(len(asked)), asked] = 0
    # Of equal scores the image that comes first, without sorting all of them.
    keys = np.arange(scores.shape[1]) - scores * scores.shape[1]
    hits = np.argpartition(keys, min(HITS, scores.shape[1]) - 1, axis=1)[:, :HITS]
    return np.where(np.take_along_axis(scores, hits, axis=1) > 0, hits, -1)


def agreement_of(agreement: NDArray[np.float64], hits: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean agreement [B] of B images with their hits; where one is missing, it is 0."""
    found = np.take_along_axis(agreement, np.maximum(hits, 0), axis=1)
    return np.where(hits >= 0, found, 0).mean(axis=1)
