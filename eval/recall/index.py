"""Recall of an index by captions and judged queries, and its runs in the format of TREC."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import torch
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from rich.table import Table

from eval.recall.missing import check_missing, ids_of_index
from indexer.query.query import Query
from indexer.search.api import Searcher, UnknownImageError
from sparta.captions.matching import as_stored, stored_ids
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.metrics import Recall, recall
from sparta.progress import Progress, no_progress


def check_file(path: Path | None, option: str) -> None:
    """Refuse a file that could not be written when the work is done.

    Raises:
        InputError: if its folder does not exist.
    """
    if path is not None and not path.parent.is_dir():
        raise InputError(f"{option} {path}: the folder {path.parent} does not exist")


def write_run(
    searcher: Searcher,
    photos: Sequence[CaptionedPhoto],
    path: Path,
    depth: int,
    tag: str,
    substitute: bool = True,
    progress: Progress = no_progress,
) -> None:
    """Search for every caption and write the hits, `qid Q0 docid rank score tag` on each line.

    Args:
        searcher: of the index.
        photos: with captions.
        path: of the file, which is replaced.
        depth: hits per query at most.
        tag: name of the run, in the last column.
        substitute: whether words that the index lacks are replaced.
        progress: of the stage "run", in queries.
    """
    queries = list(_queries(photos))
    with path.open("w", encoding="ascii") as file:
        for done, (query_id, text, _) in enumerate(queries, 1):
            hits = searcher.search(Query.plain(text), depth, substitute=substitute).hits
            scores = strictly_falling([hit.score for hit in hits])
            for hit, score in zip(hits, scores, strict=True):
                document = encode_id(hit.image_id)
                file.write(f"{query_id} Q0 {document} {hit.rank} {score:.9g} {encode_id(tag)}\n")
            progress("run", done, len(queries))


def write_qrels(photos: Sequence[CaptionedPhoto], path: Path) -> None:
    """Write each caption's photo as its one relevant document, `qid 0 docid 1` on each line."""
    lines = (f"{query_id} 0 {document} 1\n" for query_id, _, document in _queries(photos))
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


def _queries(photos: Sequence[CaptionedPhoto]) -> Iterator[tuple[str, str, str]]:
    """Query id, text and document id of every caption."""
    for photo in photos:
        document = encode_id(photo.image_id)
        for number, text in enumerate(photo.captions):
            yield f"{document}#{number}", text, document


FIRST_HITS = 10  # enough for recall at 10; deeper searches only where the image is missing


@dataclass(frozen=True)
class SearcherRecall:
    """Recall of a searcher over Q captions.

    Attributes:
        recall: shares in percent, and the median rank.
        queries: Q.
        split: of the captioned photos.
        photos: that have captions.
        missing: photos of the split that were left out.
        images: in the gallery: all images of the searcher.
        seconds: in all, including deeper searches for images ranked low.
        query_ms: milliseconds of a search for ten hits, tokenising included, on average.
    """

    recall: Recall
    queries: int
    split: str
    photos: int
    missing: int
    images: int
    seconds: float
    query_ms: float

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        return vars(self) | {"recall": self.recall._asdict()}

    def table(self) -> Table:
        """The figures for a terminal."""
        figures = {
            "R@1": f"{self.recall.at_1:.1f}",
            "R@5": f"{self.recall.at_5:.1f}",
            "R@10": f"{self.recall.at_10:.1f}",
            "median rank": f"{self.recall.median_rank:g}",
            "queries": f"{self.queries:,}",
            "seconds": f"{self.seconds:.1f}",
            "ms per query": f"{self.query_ms:.2f}",
        }
        photos = f"{self.photos:,} photos of split {self.split}"
        table = Table(
            *figures,
            title=f"{photos} ranked among {self.images:,}",
            title_justify="left",
            caption_justify="left",
        )
        more = self.images > self.photos
        lines = ["--only-split ranks them among themselves"] if more else []
        if self.missing:
            total = self.photos + self.missing
            lines.append(f"Missing and left out: {self.missing:,} of {total:,} photos of the split")
        table.caption = "\n".join(lines)
        table.add_row(*figures.values())
        return table


@dataclass(frozen=True)
class IndexIds(Collection[str]):
    """The ids of an index's images; they are listed only where it is iterated over.

    Attributes:
        searcher: of the index.
        folder: of the index.
    """

    searcher: Searcher
    folder: Path

    def __contains__(self, image_id: object) -> bool:
        try:
            self.searcher.metadata(str(image_id))
        except UnknownImageError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return ids_of_index(self.folder)

    def __len__(self) -> int:
        return len(self.searcher)


def indexed(
    index: Path, searcher: Searcher, captions: Sequence[CaptionedPhoto], allow_missing: bool
) -> list[CaptionedPhoto]:
    """The captioned photos that an index has, under its ids.

    Raises:
        InputError: if some are missing and that is not allowed, or all are.
    """
    stored = IndexIds(searcher, index)
    found = as_stored(captions, stored, str(index))
    kept = [photo for photo in found if photo.image_id in stored]
    there = {photo.image_id for photo in kept}
    missing = [photo.image_id for photo in found if photo.image_id not in there]
    others = ids_of_index(index)
    check_missing(missing, len(captions), others, "captioned photos", index, allow_missing)
    return kept


def measure_index_recall(
    searcher: Searcher,
    captions: Sequence[CaptionedPhoto],
    substitute: bool = True,
    progress: Progress = no_progress,
    missing: int = 0,
) -> SearcherRecall:
    """Search with every caption; its one right image is its photo.

    Args:
        searcher: all its images take part, captioned or not.
        captions: the target photos of a split, at least one; the index has all of them.
        substitute: whether words that the index lacks are replaced.
        progress: of the stage "search", in queries.
        missing: photos of the split that were left out.
    """
    queries = [(text, photo.image_id) for photo in captions for text in photo.captions]
    ranks, spent = [], 0.0
    start = time.perf_counter()
    for done, (text, image_id) in enumerate(queries, 1):
        rank, milliseconds = _rank(searcher, text, image_id, substitute)
        ranks.append(rank)
        spent += milliseconds
        progress("search", done, len(queries))
    seconds = time.perf_counter() - start
    return SearcherRecall(
        recall=recall(torch.tensor(ranks)),
        queries=len(queries),
        split=captions[0].split,
        photos=len(captions),
        missing=missing,
        images=len(searcher),
        seconds=seconds,
        query_ms=spent / len(queries),
    )


def _rank(searcher: Searcher, query: str, image_id: str, substitute: bool) -> tuple[int, float]:
    """Rank of an image, 1 for the best, and the milliseconds of the first search.

    An image that is not found counts as ranked behind all images, and behind the first hits.
    """
    images = len(searcher)
    k = min(FIRST_HITS, max(1, images))  # no image of the index may have a vector
    result = searcher.search(Query.plain(query), k, substitute=substitute)
    first = result.timings.total_ms
    while True:
        for hit in result.hits:
            if hit.image_id == image_id:
                return hit.rank, first
        if k == images or len(result.hits) < k:
            return max(images, FIRST_HITS) + 1, first
        k = min(10 * k, images)
        result = searcher.search(Query.plain(query), k, substitute=substitute)


class JudgedQuery(BaseModel):
    """A line of a file of queries.

    Attributes:
        query: the text.
        images: ids of all images that answer it, each counted once.
        kind: a name by which results are grouped.
    """

    query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    images: frozenset[str] = Field(min_length=1)
    kind: str = "query"


@dataclass(frozen=True)
class FirstHits:
    """How many first hits are right.

    Attributes:
        right: by kind of query.
        queries: by kind of query.
        chance: share in percent that images in random order would reach.
        missing: ids of right images that were left out.
        left_out: queries that were left out, as all their right images are missing.
    """

    right: dict[str, int]
    queries: dict[str, int]
    chance: float
    missing: int = 0
    left_out: int = 0

    @property
    def share(self) -> float:
        """Share of all queries in percent."""
        return 100 * sum(self.right.values()) / sum(self.queries.values())

    def record(self) -> dict[str, Any]:
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
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if lines == [""]:
        raise InputError(f"{path} has no query: give one JSON object a line")
    queries = []
    for number, line in enumerate(lines, 1):
        try:
            queries.append(JudgedQuery.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                f"{path}, line {number}: {'.'.join(map(str, first['loc'])) or 'the line'}: "
                f"{first['msg']}; expected an object with query (text) and images (a list of ids, "
                "at least one)"
            ) from error
    return queries


def answerable(
    index: Path, searcher: Searcher, queries: Sequence[JudgedQuery], allow_missing: bool
) -> tuple[list[JudgedQuery], int]:
    """The queries with those of their right images that the index has; and how many it lacks.

    Raises:
        InputError: if some are missing and that is not allowed, or all are.
    """
    ids = sorted(frozenset[str]().union(*(query.images for query in queries)))
    there = stored_ids(ids, IndexIds(searcher, index), str(index))
    missing = [image_id for image_id in ids if image_id not in there]
    others, remedy = ids_of_index(index), "correct the ids"
    check_missing(missing, len(ids), others, "right images", index, allow_missing, remedy)
    kept = [
        query.model_copy(
            update={"images": frozenset(there[one] for one in query.images if one in there)}
        )
        for query in queries
    ]
    return [query for query in kept if query.images], len(missing)


def measure_first_hits(
    searcher: Searcher,
    queries: Sequence[JudgedQuery],
    progress: Progress = no_progress,
    missing: int = 0,
    left_out: int = 0,
) -> FirstHits:
    """Search with every query; the first hit is right if it is one of the query's images.

    Args:
        searcher: with all images, right or not.
        queries: with the images that answer them, all in the index.
        progress: of the stage "search", in queries.
        missing: right images that the index lacks.
        left_out: queries that have no other right images.
    """
    kinds = dict.fromkeys(query.kind for query in queries)
    right, number = (dict.fromkeys(kinds, 0) for _ in range(2))
    for done, query in enumerate(queries, 1):
        hits = searcher.search(Query.plain(query.query), 1).hits
        right[query.kind] += bool(hits) and hits[0].image_id in query.images
        number[query.kind] += 1
        progress("search", done, len(queries))
    chance = sum(len(query.images) for query in queries) / len(queries) / len(searcher)
    return FirstHits(right, number, 100 * chance, missing, left_out)
