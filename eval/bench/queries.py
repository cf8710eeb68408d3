"""Queries of the speed benchmark, and recall of captions by a full scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eval.bench.collections import ImpactSource, keep_top
from indexer.dense.vectors import best
from indexer.manifest import index_folders
from sparta.captions.read import read_captions
from sparta.captions.record import as_stored, some_of
from sparta.errors import InputError
from sparta.metrics import Recall, ranks_by_block, recall
from sparta.query_text import searched
from sparta.readers.base import read_lines
from sparta.tokenizer import TermTokenizer

MOST_QUERIES = 5_000  # as many as the paper asks
COMPARED, AT = 1_000, 10  # queries by terms and by vectors, and their best images
# Word pieces of a caption: 7 and a Poisson variable, 11.8 on average over 25,014 captions of COCO.
LEAST_PIECES, MORE_PIECES = 7, 4.8


@dataclass(frozen=True)
class TermQuery:
    """One query, tokenised."""

    number: int  # its row in the vectors of dense models
    text: str  # as typed
    pieces: str  # its word pieces with a blank between, as Lucene takes them
    terms: dict[int, int]  # term id → how often it occurs


@dataclass(frozen=True)
class QuerySet:
    """The queries that all engines answer."""

    queries: Sequence[TermQuery]  # at least two, to time
    # Captions and their photos' places in the source, to measure recall; empty where no captions
    # are given.
    judged: Sequence[tuple[TermQuery, int]]
    origin: str  # in words


def ask(
    index: Path, source: ImpactSource, file: Path | None, captions: Path | None, split: str
) -> QuerySet:
    """Queries of a file, captions of photos in the source, or drawn ones where neither is given."""
    if file is not None and captions is not None:
        raise InputError("--queries and --captions: give one of them; captions are queries")
    tokenizer = TermTokenizer.from_folder(index_folders(index)[0])
    if file is not None:
        return QuerySet(choose_queries(tokenise(read_queries(file), tokenizer)), [], file.name)
    if captions is None:
        drawn = draw_queries(source, MOST_QUERIES)
        return QuerySet(drawn, [], "words drawn as often as captions have them")
    places = {image_id: place for place, image_id in enumerate(source.ids)}
    every = as_stored(read_captions(captions, split), places, str(index))
    photos = [one for one in every if one.image_id in places]
    if not photos:
        raise InputError(
            f"--captions {captions}: none of its photos is in the index, which has "
            f"{some_of(source.ids)}, the captions {some_of(one.image_id for one in every)}"
        )
    texts = tokenise([text for photo in photos for text in photo.captions], tokenizer)
    own = [places[photo.image_id] for photo in photos for _ in photo.captions]
    origin = f"{captions.name}, {len(photos):,} of {len(every):,} photos of split {split}"
    return QuerySet(choose_queries(texts), list(zip(texts, own, strict=True)), origin)


def read_queries(path: Path) -> list[str]:
    """A file's distinct lines that are not blank."""
    return [line for line in dict.fromkeys(read_lines(path)) if line.strip()]


def tokenise(texts: Sequence[str], tokenizer: TermTokenizer) -> list[TermQuery]:
    """Texts as queries, numbered in their order; some may have no word piece of the index."""
    ids = {term: number for number, term in enumerate(tokenizer.vocabulary)}
    found = []
    for number, text in enumerate(texts):
        parsed = tokenizer.encode_query(searched(text))
        terms = {ids[term]: count for term, count in parsed.terms.items()}
        found.append(TermQuery(number, text, " ".join(parsed.pieces), terms))
    return found


def choose_queries(queries: Sequence[TermQuery], limit: int = MOST_QUERIES) -> list[TermQuery]:
    """Some queries that have a word piece of the index, in random order (seed 0).

    A file has the captions of one photo together; in that order, each would find the postings of
    the one before in the processor's cache.
    """
    order = np.random.default_rng(0).permutation(len(queries))
    chosen = [queries[place] for place in order if queries[place].terms][:limit]
    if len(chosen) < 2:
        raise InputError(f"{len(chosen)} queries with a word of the index: give at least two")
    return [replace(query, number=number) for number, query in enumerate(chosen)]


def draw_queries(source: ImpactSource, count: int) -> list[TermQuery]:
    """Queries as long as captions: independent terms, as frequent as the source says."""
    rng = np.random.default_rng(0)
    share = source.frequencies / source.frequencies.sum()
    made = []
    for number in range(count):
        terms = rng.choice(source.terms, LEAST_PIECES + rng.poisson(MORE_PIECES), p=share).tolist()
        text = " ".join(source.vocabulary[term] for term in terms)
        made.append(TermQuery(number, text, text, dict(Counter(terms))))
    return made


def query_matrix(queries: Sequence[TermQuery], vocabulary: int) -> csr_array:
    """How often each query has each term, int32 [Q, V]."""
    rows = np.repeat(np.arange(len(queries)), [len(query.terms) for query in queries])
    terms = [term for query in queries for term in query.terms]
    counts = [count for query in queries for count in query.terms.values()]
    return csr_array((np.array(counts, np.int32), (rows, terms)), (len(queries), vocabulary))


def measure_recall(
    source: ImpactSource, top_n: int | None, judged: Sequence[tuple[TermQuery, int]]
) -> Recall:
    """Recall of captions among the source's own images, pruned, by a full scan.

    The captions come with the places of their images in the source.
    """
    kept = keep_top(source, source.impacts, top_n)
    counts = query_matrix([query for query, _ in judged], len(source.vocabulary))
    own = [place for _, place in judged]

    def block(part: slice) -> torch.Tensor:
        return torch.from_numpy((counts[part] @ kept.T).toarray().astype(np.float32))

    rank = ranks_by_block(block, len(source.ids), [[place] for place in own], ties="by_id")
    # A search does not return images without any of the words.
    rank[torch.from_numpy((counts * kept[own]).sum(axis=1) == 0)] = len(source.ids) + 1
    return recall(rank)


def share_kept(
    source: ImpactSource,
    top_n: int | None,
    queries: Sequence[TermQuery],
    dense: NDArray[np.float32],
    images: NDArray[np.float32],
) -> float:
    """The share of a query's ten best images by vectors that are among its ten best by impacts.

    Of the source's own N images, by vectors [N, D]; the mean of the first 1,000 queries [Q, D].
    """
    kept = keep_top(source, source.impacts, top_n).T
    shares = []
    for query in queries[:COMPARED]:
        scores = (query_matrix([query], len(source.vocabulary)) @ kept).toarray()[0]
        ours = best(scores.astype(np.float32), AT)
        theirs = best(images @ dense[query.number], AT)
        shares.append(np.isin(theirs.images, ours.images[ours.scores > 0]).mean())
    return float(np.mean(shares))
