"""Recall of an index by captions and judged queries, and its runs in the format of TREC."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import numpy as np
import torch
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from rich.table import Table

from eval.recall.photos import missing_of
from eval.recall.scores import recall_table
from indexer.answer import Hit
from indexer.query import Query
from indexer.search.searcher import Searcher
from indexer.store.images import UnknownImageError
from sparta.captions.read import CaptionedPhoto
from sparta.captions.record import as_stored, stored_ids
from sparta.errors import InputError
from sparta.json_values import Json
from sparta.metrics import Recall, recall
from sparta.progress import Progress, no_progress
from sparta.readers.base import read_lines


@dataclass(frozen=True)
class IndexIds(Collection[str]):
    """The ids of an index's images; they are listed only where it is iterated over."""

    searcher: Searcher
    folder: Path  # of the index, in shards or not

    def __contains__(self, image_id: object) -> bool:
        try:
            self.searcher.metadata(str(image_id))
        except UnknownImageError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.searcher.ids())

    def __len__(self) -> int:
        return len(self.searcher)


# ---- captions ------------------------------------------------------------------------------------

FIRST_HITS = 10  # enough for recall at 10; deeper searches only where the image is missing


@dataclass(frozen=True)
class Gallery:
    """Captioned photos, and the images among which their captions search."""

    searcher: Searcher  # has all the photos
    photos: Sequence[CaptionedPhoto]  # of one split, at least one
    substitute: bool = True  # whether words that the index lacks are replaced
    # Whether only the photos are ranked, not all images; substitutes are those of the whole index
    # in both cases.
    alone: bool = False
    missing: int = 0  # photos of the split that were left out
    rerank: int = 0  # first hits that a dual encoder orders

    def __len__(self) -> int:
        """How many images are ranked."""
        return len(self.photos) if self.alone else len(self.searcher)

    @cached_property
    def _own(self) -> set[str]:
        return {photo.image_id for photo in self.photos}

    def queries(self) -> list[tuple[str, str, str]]:
        """Query id, text and right image of every caption; the id is for TREC's files."""
        return [
            (f"{encode_id(photo.image_id)}#{number}", text, photo.image_id)
            for photo in self.photos
            for number, text in enumerate(photo.captions)
        ]

    def search(self, text: str, k: int) -> tuple[list[Hit], float]:
        """The first k hits, and the milliseconds of the search."""
        every = max(1, len(self.searcher))
        depth = min(k, every)
        while True:
            result = self.searcher.search(
                Query.plain(text), depth, substitute=self.substitute, rerank=self.rerank
            )
            hits = [one for one in result.hits if not self.alone or one.image_id in self._own]
            if len(hits) >= k or depth == every or len(result.hits) < depth:
                return hits[:k], result.timings.total_ms
            depth = min(10 * depth, every)

    def rank(self, text: str, image_id: str) -> tuple[int, float]:
        """Rank of an image, 1 for the best, and the milliseconds of the search for ten hits.

        An image that is not found ranks behind all images, and behind the first ten hits.
        """
        k, first = FIRST_HITS, None
        while True:
            hits, milliseconds = self.search(text, k)
            first = milliseconds if first is None else first
            for place, hit in enumerate(hits, 1):
                if hit.image_id == image_id:
                    return place, first
            if len(hits) < k or k >= len(self):
                return max(len(self), FIRST_HITS) + 1, first
            k = min(10 * k, len(self))


def gallery_of(
    images: IndexIds,
    photos: list[CaptionedPhoto],
    allow_missing: bool,
    substitute: bool,
    alone: bool,
    rerank: int = 0,
) -> Gallery:
    """The photos that an index has, under the ids it has them by, and its images.

    Raises:
        InputError: as of `missing_of`.
    """
    photos = as_stored(photos, images, str(images.folder))
    wanted = [one.image_id for one in photos]
    missing = missing_of(wanted, images, images, images.folder, allow_missing)
    kept = [photo for photo in photos if photo.image_id not in missing]
    return Gallery(images.searcher, kept, substitute, alone, len(missing), rerank)


@dataclass(frozen=True)
class SearcherRecall:
    """Recall of a searcher over Q captions."""

    recall: Recall
    queries: int
    split: str
    photos: int  # of the split, with captions
    missing: int  # photos of the split that were left out
    images: int  # that are ranked: all of the searcher, or the photos
    seconds: float  # in all, deeper searches for images ranked low included
    query_ms: float  # mean of a search for ten hits, tokenising included

    def record(self) -> Json:
        """The figures for programs."""
        return vars(self) | {"recall": self.recall._asdict()}

    def table(self) -> Table:
        """The figures for a terminal."""
        photos = f"{self.photos:,} photos of split {self.split}"
        lines = [f"{self.queries:,} queries in {self.seconds:.1f} s, {self.query_ms:.2f} ms each"]
        if self.images > self.photos:
            lines.append("--only-split ranks them among themselves")
        if self.missing:
            total = self.photos + self.missing
            lines.append(f"Missing and left out: {self.missing:,} of {total:,} photos of the split")
        title = f"{photos} ranked among {self.images:,}"
        return recall_table(title, {"text → image": self.recall}, lines)


def measure_index_recall(gallery: Gallery, progress: Progress = no_progress) -> SearcherRecall:
    """Search with every caption; its one right image is its photo.

    Reports progress of the stage "search", in queries.
    """
    queries, ranks, spent = gallery.queries(), [], 0.0
    start = time.perf_counter()
    for done, (_, text, image_id) in enumerate(queries, 1):
        rank, milliseconds = gallery.rank(text, image_id)
        ranks.append(rank)
        spent += milliseconds
        progress("search", done, len(queries))
    return SearcherRecall(
        recall=recall(torch.tensor(ranks)),
        queries=len(queries),
        split=gallery.photos[0].split,
        photos=len(gallery.photos),
        missing=gallery.missing,
        images=len(gallery),
        seconds=time.perf_counter() - start,
        query_ms=spent / len(queries),
    )


def write_run(
    gallery: Gallery, path: Path, depth: int, tag: str, progress: Progress = no_progress
) -> None:
    """Search for every caption and write the hits, `qid Q0 docid rank score tag` on each line.

    The tag, in the last column, is the name of the run. Reports progress of the stage "run", in
    queries.
    """
    queries = gallery.queries()
    with path.open("w", encoding="ascii") as file:
        for done, (query_id, text, _) in enumerate(queries, 1):
            hits, _ = gallery.search(text, depth)
            scores = strictly_falling([hit.score for hit in hits])
            for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), 1):
                document = encode_id(hit.image_id)
                file.write(f"{query_id} Q0 {document} {rank} {score:.9g} {encode_id(tag)}\n")
            progress("run", done, len(queries))


def write_qrels(gallery: Gallery, path: Path) -> None:
    """Write each caption's photo as its one relevant document, `qid 0 docid 1` on each line."""
    lines = (f"{query_id} 0 {encode_id(one)} 1\n" for query_id, _, one in gallery.queries())
    path.write_text("".join(lines), encoding="ascii")


def encode_id(image_id: str) -> str:
    """An image id without spaces, in ASCII."""
    return quote(image_id, safe="/")


def strictly_falling(scores: Sequence[float]) -> list[float]:
    """Falling scores as float32, each below the one before it."""
    found: list[float] = []
    for score in np.asarray(scores, np.float32):
        if found and score >= found[-1]:
            score = np.nextafter(np.float32(found[-1]), np.float32(-np.inf))
        found.append(float(score))
    return found


# ---- judged queries ------------------------------------------------------------------------------


EMPTY = ("too_short", "string_too_short")  # pydantic's names of these errors


class JudgedQuery(BaseModel):
    """A line of a file of queries."""

    query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    images: frozenset[str] = Field(min_length=1)  # ids of all that answer it
    kind: str = "query"  # by which results are grouped


@dataclass(frozen=True)
class FirstHits:
    """How many first hits are right."""

    right: dict[str, int]  # by kind of query
    queries: dict[str, int]  # by kind of query
    chance: float  # share in percent that images in random order would reach
    missing: int  # right images that were left out
    left_out: int  # queries whose right images are all missing

    @property
    def share(self) -> float:
        """Share of all queries in percent."""
        return 100 * sum(self.right.values()) / sum(self.queries.values())

    def record(self) -> Json:
        """The figures for programs."""
        return vars(self) | {"share": self.share}

    def table(self) -> Table:
        """The figures for a terminal."""
        table = Table("queries", "number", "first hit right")
        for kind, number in self.queries.items():
            table.add_row(kind, f"{number:,}", f"{100 * self.right[kind] / number:.1f} %")
        table.add_row("all", f"{sum(self.queries.values()):,}", f"{self.share:.1f} %")
        table.add_row("images in random order", "", f"{self.chance:.1f} %")
        if self.missing:
            table.caption = (
                f"Missing: {self.missing:,} right images; left out: {self.left_out:,} queries"
            )
        return table


def read_judged_queries(path: Path) -> list[JudgedQuery]:
    """Read one JSON object a line: `query`, `images`, and optionally `kind`.

    Raises:
        InputError: if the file cannot be read, has no query, or a line is malformed.
    """
    lines = read_lines(path)
    if not any(map(str.strip, lines)):
        raise InputError(f"{path} has no query: give one JSON object a line")
    queries = []
    for number, line in enumerate(lines, 1):
        try:
            queries.append(JudgedQuery.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            problem = "it is empty" if first["type"] in EMPTY else first["msg"]
            raise InputError(
                f"{path}, line {number}: {where}: {problem}; expected an object with query (text) "
                "and images (a list of ids, at least one)"
            ) from error
    return queries


def measure_first_hits(
    images: IndexIds,
    queries: Sequence[JudgedQuery],
    allow_missing: bool = False,
    progress: Progress = no_progress,
) -> FirstHits:
    """Search with every query; the first hit is right if it is one of the query's images.

    With `allow_missing`, images that the index lacks are left out, and the queries that have no
    others. Reports progress of the stage "search", in queries.

    Raises:
        InputError: as of `missing_of`.
    """
    searcher, index = images.searcher, images.folder
    ids = sorted(frozenset[str]().union(*(one.images for one in queries)))
    found, words = stored_ids(ids, images, str(index)), ("right images", "correct the ids")
    missing = missing_of(ids, found, images, index, allow_missing, *words)
    answers = ((one, {found[own] for own in one.images - missing}) for one in queries)
    kept = [(query, own) for query, own in answers if own]
    right = dict.fromkeys((query.kind for query, _ in kept), 0)
    number = right.copy()
    for done, (query, own) in enumerate(kept, 1):
        hits = searcher.search(Query.plain(query.query), 1).hits
        right[query.kind] += bool(hits) and hits[0].image_id in own
        number[query.kind] += 1
        progress("search", done, len(kept))
    chance = 100 * sum(len(own) for _, own in kept) / len(kept) / len(searcher)
    return FirstHits(right, number, chance, len(missing), len(queries) - len(kept))
