"""TREC run and qrels files of an index's answers to captions.

A query id is the caption's image id, `#` and the caption's number from 0 (as in Flickr8k's own
files); a document id is an image id. Ids are percent-encoded: spaces, which separate columns, and
every character but letters, digits and `_.-~/`; `urllib.parse.unquote` restores them.

Tools such as trec_eval ignore the rank column, sort by score and break ties by document id in
descending order. Here equal scores are in ascending order of image id. So that both agree, a score
that is not below the one before it is lowered to the next smaller number in float32, the precision
trec_eval reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from indexer.query.query import Query
from indexer.search.api import Searcher
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
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
