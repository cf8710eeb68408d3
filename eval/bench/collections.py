"""Collections of impacts of any size, made of the images of an index or of synthetic ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eval.bench.corpus import CorpusRows, TermQuery
from eval.bench.draw import Distribution
from indexer.index_writer import write_index
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import OFFSETS, Manifest
from indexer.parts import LUCENE
from indexer.postings import Postings, PostingShard
from indexer.pruning import largest
from indexer.settings import IndexSettings
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

CollectionKind = Literal["copies", "mixed", "drawn"]
KINDS: tuple[CollectionKind, ...] = get_args(CollectionKind)
NOISE = 0.15  # standard deviation of what every weight is multiplied by
CHUNK = 2_000  # images made at once
LARGEST = 10_000  # images of a source; larger indexes are sampled
METADATA = {"width": 500, "height": 375}  # of a usual photo

Impacts = NDArray[np.unsignedinteger]


# ---- the images that collections are made of ---------------------------------------------------


@dataclass(frozen=True)
class ImpactSource:
    """Some images' impacts.

    Attributes:
        name: how the index was pruned, or "synthetic".
        vocabulary: [V] terms in id order.
        terms: [A] int32, rising ids of the terms that any image has.
        impacts: [N, A] uint8 or uint16, 0 where an image lacks a term.
        bits: of an impact.
        about: their origin, for the results.
    """

    name: str
    vocabulary: list[str]
    terms: NDArray[np.int32]
    impacts: Impacts
    bits: int
    about: dict[str, object]


def read_source(index: Path) -> ImpactSource:
    """Read the impacts of an index folder, of 10,000 random images if it has more.

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


# ---- synthetic images and queries ---------------------------------------------------------------

# Terms by how often captions use them: rank of the group's last term; the group's share of the
# captions' word pieces; mean and standard deviation of its terms' document frequencies; mean
# impact where there is one, and shape of the gamma distribution with that mean and the impacts'
# variance. Measured on 25,014 captions of COCO val2017 and on the impacts (mean offset, trained
# terms, 8 bits, nothing pruned) of 7,091 photos of Flickr8k.
GROUPS = np.array(
    [
        [1, 0.139, 0.535, 0.000, 3.5, 2.1],
        [2, 0.064, 0.488, 0.000, 4.8, 1.7],
        [4, 0.060, 0.507, 0.016, 9.8, 2.0],
        [8, 0.097, 0.487, 0.008, 7.4, 1.5],
        [16, 0.070, 0.520, 0.018, 14.7, 0.8],
        [32, 0.074, 0.456, 0.119, 23.4, 1.0],
        [64, 0.081, 0.336, 0.181, 32.1, 1.0],
        [128, 0.095, 0.333, 0.175, 32.3, 1.0],
        [256, 0.099, 0.311, 0.183, 33.6, 1.1],
        [512, 0.081, 0.313, 0.173, 36.5, 1.4],
        [1024, 0.057, 0.274, 0.161, 39.6, 1.7],
        [2048, 0.036, 0.239, 0.145, 41.1, 1.9],
        [4096, 0.018, 0.233, 0.146, 39.9, 1.9],
        [6666, 0.001, 0.220, 0.156, 38.0, 1.9],
    ]
)
BITS = 8
IMAGES = 5_000
# Word pieces of a caption: 7 and a Poisson variable, 11.8 on average, 17 in one of a hundred.
LEAST_PIECES, MORE_PIECES = 7, 4.8


def synthetic_source(images: int = IMAGES, seed: int = 0) -> ImpactSource:
    """Images with independent terms, unlike those of photos."""
    rng = np.random.default_rng((seed, 0))
    last, _, mean, deviation, impact, shape = GROUPS.T
    group = np.repeat(np.arange(len(GROUPS)), np.diff(last, prepend=0).astype(int))
    frequencies = np.clip(rng.normal(mean[group], deviation[group]), 0.005, 0.95)
    present = rng.random((images, len(group)), np.float32) < frequencies
    own = group[present.nonzero()[1]]
    impacts = present.astype(np.uint8)
    drawn = rng.gamma(shape[own], (impact / shape)[own])
    impacts[present] = np.clip(np.rint(drawn), 1, 2**BITS - 1)
    terms = np.arange(len(group), dtype=np.int32)
    vocabulary = [f"term{rank}" for rank in range(1, len(group) + 1)]
    about: dict[str, object] = {"images": images, "bits": BITS, "seed": seed}
    return ImpactSource("synthetic", vocabulary, terms, impacts, BITS, about)


def synthetic_queries(count: int, seed: int = 0) -> list[TermQuery]:
    """Queries as long as captions, of terms as frequent as theirs."""
    rng = np.random.default_rng((seed, 1))
    last, share, *_ = GROUPS.T
    made = []
    for number in range(count):
        length = LEAST_PIECES + rng.poisson(MORE_PIECES)
        group = rng.choice(len(GROUPS), size=length, p=share / share.sum())
        first = np.concatenate([[0], last[:-1]])[group]
        terms = rng.integers(first, last[group])
        text = " ".join(f"term{term + 1}" for term in terms)
        made.append(TermQuery(number, text, text, dict(Counter(terms.tolist()))))
    return made


# ---- larger collections ------------------------------------------------------------------------


def enlarge(
    source: ImpactSource, images: int, top_n: int | None, kind: CollectionKind, seed: int = 0
) -> Iterator[CorpusRows]:
    """Make images of given ones, and keep each one's n largest impacts.

    "copies" draws one image with replacement for each new one, as the paper's million does, and
    perturbs its impacts by 15 %. An engine may profit from copies that lie together, so "mixed"
    draws two, takes each term from either and perturbs likewise: no image is near another, the
    terms keep their document frequencies, but half of what ties terms to one another is lost.
    "drawn" draws from a distribution fitted to the images, which keeps both.

    Args:
        source: the images there are.
        images: how many to make.
        top_n: terms an image keeps; None keeps all.
        kind: of collection.
        seed: the same seed gives the same collection.

    Yields:
        rows of some thousand images.
    """
    make = _MAKERS[kind](source, top_n)
    for start in range(0, images, CHUNK):
        yield make(min(CHUNK, images - start), np.random.default_rng((seed, start)))


def check_kind(name: str) -> CollectionKind:
    """Accept the name of a kind of collection.

    Raises:
        InputError: for anything else.
    """
    for kind in KINDS:
        if kind == name:
            return kind
    raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {name!r}")


def keep_top(impacts: Impacts, top_n: int | None) -> Impacts:
    """Each row's n largest impacts, 0 elsewhere; of equals those of lower term ids.

    Args:
        impacts: [images, terms].
        top_n: n; None keeps all.
    """
    if top_n is None or top_n >= impacts.shape[1]:
        return impacts
    return impacts * largest(impacts.astype(np.float32), top_n)


def _copies(source: ImpactSource, top_n: int | None) -> Maker:
    kept = _rows(keep_top(source.impacts, top_n), source)

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        return _perturbed(_picked(kept, rng.integers(len(kept), size=size)), source.bits, rng)

    return make


def _mixed(source: ImpactSource, top_n: int | None) -> Maker:
    impacts = source.impacts

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        first, second = (impacts[rng.integers(len(impacts), size=size)] for _ in range(2))
        mixed = np.where(_coins(rng, first.shape), first, second)
        return _perturbed(_rows(keep_top(mixed, top_n), source), source.bits, rng)

    return make


def _drawn(source: ImpactSource, top_n: int | None) -> Maker:
    distribution = Distribution.of(source.impacts)

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        return _rows(keep_top(distribution.draw(size, rng), top_n), source)

    return make


Maker = Callable[[int, np.random.Generator], CorpusRows]
_MAKERS: dict[CollectionKind, Callable[[ImpactSource, int | None], Maker]] = {
    "copies": _copies,
    "mixed": _mixed,
    "drawn": _drawn,
}


def _coins(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    count = int(np.prod(shape))
    bits = np.unpackbits(np.frombuffer(rng.bytes(count // 8 + 1), np.uint8))
    return bits[:count].reshape(shape).astype(bool)


def _rows(impacts: Impacts, source: ImpactSource) -> CorpusRows:
    """A matrix of impacts as postings."""
    places = np.flatnonzero(impacts)
    lengths = np.count_nonzero(impacts, axis=1)
    return CorpusRows(
        np.concatenate([[0], np.cumsum(lengths)]),
        source.terms[places % impacts.shape[1]],
        impacts.ravel()[places].astype(np.int32),
    )


def _picked(rows: CorpusRows, chosen: NDArray[np.integer]) -> CorpusRows:
    """Some rows, one after the other."""
    lengths = (rows.starts[1:] - rows.starts[:-1])[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(starts[-1]) + np.repeat(rows.starts[chosen] - starts[:-1], lengths)
    return CorpusRows(starts, rows.terms[places], rows.impacts[places])


def _perturbed(rows: CorpusRows, bits: int, rng: np.random.Generator) -> CorpusRows:
    factors = 1 + NOISE * rng.standard_normal(len(rows.impacts), dtype=np.float32)
    changed = np.rint(rows.impacts * factors)
    return CorpusRows(rows.starts, rows.terms, np.clip(changed, 1, 2**bits - 1).astype(np.int32))


def postings_of(rows: CorpusRows, ids: list[str]) -> Postings:
    """Rows as an index stores images: with the size of a usual photo, without grounding."""
    return Postings.without_grounding(
        ids=ids,
        metadata=[METADATA] * len(rows),
        starts=rows.starts,
        terms=rows.terms,
        impacts=rows.impacts,
    )


def enlarge_index(
    index: Path,
    out: Path,
    images: int,
    progress: Progress = no_progress,
) -> None:
    """Write an index of any size, made of near-copies of the images of a small one.

    Image ids are those of `image_id`, and no grounding is stored.

    Args:
        index: as `sparta index` makes it.
        out: must not exist.
        images: number to write.
        progress: of the stage "write", in images.

    Raises:
        InputError: if the folder is no index.
    """
    manifest = Manifest.open(index)

    def shards() -> Iterator[PostingShard]:
        first = 0
        for rows in enlarge(read_source(index), images, None, "copies"):
            ids = [image_id(first + place) for place in range(len(rows))]
            yield PostingShard(postings_of(rows, ids))
            first += len(rows)
            progress("write", first, images)

    write_index(
        out,
        shards(),
        WordPieceTokenizer.from_folder(index),
        IndexSettings(**{one.name: getattr(manifest, one.name) for one in fields(IndexSettings)}),
        np.load(index / OFFSETS, allow_pickle=False),
        manifest.scale,
        images=images,
    )


def image_id(number: int) -> str:
    """The id of an image in an enlarged index; ids rise with the numbers."""
    return f"{number // 1000:06d}/{number:09d}.jpg"
