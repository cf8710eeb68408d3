"""Collections of impacts of any size, made of the images of an index, and queries for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eval.bench.corpus import (
    MOST_QUERIES,
    CorpusRows,
    TermQuery,
    choose_queries,
    read_queries,
    tokenise,
)
from eval.bench.draw import Distribution
from indexer.encoding.encoder import ImageEncoder, parameters_of
from indexer.encoding.impacts import ImpactParameters, largest
from indexer.encoding.models import load_models, model_fingerprint
from indexer.index_writer import write_index
from indexer.manifest import OFFSETS, Manifest, index_folders
from indexer.postings import Postings, PostingShard
from indexer.settings import ASKED_KINDS, IndexSettings
from indexer.store.snapshot import Snapshot
from sparta.captions.read import read_captions
from sparta.captions.record import as_stored, some_of
from sparta.errors import InputError
from sparta.features.store import HEADER, FeatureStore
from sparta.metrics import Recall, ranks, recall
from sparta.model_id import PHOTOS, SAMPLE
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

CollectionKind = Literal["copies", "mixed", "drawn"]
KINDS: tuple[CollectionKind, ...] = get_args(CollectionKind)
NOISE = 0.15  # standard deviation of what every weight is multiplied by
CHUNK = 2_000  # images made at once
LARGEST = 10_000  # images of a source; larger indexes are sampled
QUERIES_AT_ONCE = 500
METADATA = {"width": 500, "height": 375}  # of a usual photo

Impacts = NDArray[np.unsignedinteger]


# ---- the images that collections are made of ---------------------------------------------------


@dataclass(frozen=True)
class ImpactSource:
    """Some images of an index with their impacts."""

    vocabulary: list[str]  # [V] terms in id order
    ids: list[str]  # [N] of the images, rising
    terms: NDArray[np.int32]  # [A] int32, rising ids of the terms that any image has
    impacts: Impacts  # [N, A] uint8 or uint16, 0 where an image lacks a term
    bits: int  # of an impact
    # [A] float32, of terms in the choice of those an image keeps, see
    # `indexer.encoding.impacts.Pruning`; None for one.
    weights: NDArray[np.float32] | None
    frequencies: NDArray[np.integer]  # [A] how often queries have each term
    about: dict[str, object]  # their origin, for the results

    @property
    def most_terms(self) -> int:
        """The most terms that an image has."""
        return int(np.count_nonzero(self.impacts, axis=1).max())


def open_features(index: Path, folders: Sequence[Path] = ()) -> list[FeatureStore]:
    """The feature stores that an index was built from, the plain one first.

    Args:
        index: the index folder, divided into shards or not.
        folders: of the stores; by default those beside the index, in `INDEX.features`.

    Returns:
        an empty list if one is missing or has changed.
    """
    beside = index.with_name(f"{index.name}.features")
    wanted = Manifest.read(index_folders(index)[0]).features
    headers = [one / HEADER for one in folders] or sorted(beside.glob(f"*/{HEADER}"))
    stores = [FeatureStore.open(one.parent) for one in headers if one.is_file()]
    found = {one.fingerprint: one for one in stores}
    return [found[one] for one in wanted] if found.keys() >= {*wanted} else []


def open_source(
    index: Path,
    features: Sequence[Path] = (),
    models: Sequence[str] = (),
    progress: Progress = no_progress,
) -> ImpactSource:
    """Impacts of all terms where an index's features and model are at hand, else those it has.

    Args:
        index: the index folder.
        features: its feature stores; by default those beside it.
        models: its models; by default that of the package, if it was built with one.
        progress: of the stage "encode", in images.

    Raises:
        InputError: if given features or models are not those of the index.
    """
    stores = open_features(index, features)
    if features and not stores:
        raise InputError(
            f"--features: {index} was built from other features: give its own, one for each "
            "augmentation, or leave the option out"
        )
    names = models or [name for name in [find_model(index)] if name]
    return encode_source(index, stores, names, progress) if stores and names else read_source(index)


def find_model(index: Path) -> str | None:
    """The model of the package that an index was built with, by name; None if it is another."""
    for name, folder in (("photos", PHOTOS), ("sample", SAMPLE)):
        (model,), _ = load_models([folder], torch.device("cpu"))
        if [model_fingerprint(model)] == Manifest.read(index_folders(index)[0]).models:
            return name
    return None


def encode_source(
    index: Path,
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    progress: Progress = no_progress,
) -> ImpactSource:
    """Impacts of all terms of an index's images, by its offsets and scale; at most 10,000 images.

    Args:
        index: that gives offsets, scale and the weights of terms.
        stores: that it was built from.
        models: that it was built with.
        progress: of the stage "encode", in images.

    Raises:
        InputError: if models or stores are not those of the index.
    """
    folder = index_folders(index)[0]
    manifest = Manifest.open(folder)
    if manifest.asked not in ASKED_KINDS:
        manifest = replace(manifest, asked="none")  # the file of queries is not at hand
    encoder = ImageEncoder.open(stores, models, term_set=manifest.terms)  # type: ignore[arg-type]
    pruning, quantiser = parameters_of(folder, manifest, encoder, len(stores))
    parameters = ImpactParameters(replace(pruning, top_n=None), quantiser)
    rows = _some(len(encoder.store), encoder.store.folder)
    impacts = np.zeros((len(rows), len(encoder.terms)), _width(manifest.bits))
    ids: list[str] = []
    for images in encoder.scored(rows.tolist()):
        kept = parameters.postings(images).postings
        row = len(ids) + np.repeat(np.arange(len(kept)), np.diff(kept.starts))
        impacts[row, np.searchsorted(encoder.terms, kept.terms)] = kept.impacts
        ids += images.ids
        progress("encode", len(ids), len(rows))
    order = np.argsort(ids)
    used = impacts.any(axis=0)
    terms, weights = encoder.terms[used].astype(np.int32), pruning.weights
    frequencies = encoder.frequencies[terms]
    impacts = np.ascontiguousarray(impacts[order][:, used])
    return ImpactSource(
        encoder.tokenizer.vocabulary,
        [ids[place] for place in order],
        terms,
        impacts,
        manifest.bits,
        None if weights is None else weights[used],
        frequencies if frequencies.any() else np.count_nonzero(impacts, axis=0),
        _about(manifest, len(ids), "all"),
    )


def read_source(index: Path) -> ImpactSource:
    """The impacts that an index has, of at most 10,000 of its images.

    Raises:
        InputError: if the folder is no index, or has fewer than two images.
    """
    folder = index_folders(index)[0]
    manifest = Manifest.open(folder)
    tokenizer = WordPieceTokenizer.from_folder(folder)
    manifest.check_vocabulary(folder, tokenizer.vocabulary_hash)
    snapshot = Snapshot.open(folder)
    live = snapshot.live_documents()
    chosen = live[_some(len(live), index)]
    ids = [snapshot.stored(document).image_id for document in chosen.tolist()]
    order = np.argsort(ids)
    terms, columns = [], []
    for number in np.flatnonzero(snapshot.document_frequencies).tolist():
        found = snapshot.term_impacts(number)
        if found.any():
            terms.append(number)
            columns.append(found[chosen[order]].astype(_width(manifest.bits)))
    impacts = np.ascontiguousarray(np.array(columns).T)
    return ImpactSource(
        tokenizer.vocabulary,
        [ids[place] for place in order],
        np.array(terms, np.int32),
        impacts,
        manifest.bits,
        None,
        np.count_nonzero(impacts, axis=0),
        _about(manifest, len(ids), manifest.top_n or "all"),
    )


def _some(images: int, where: Path) -> NDArray[np.int64]:
    """At most 10,000 of the images, at random, rising.

    Raises:
        InputError: if there are fewer than two.
    """
    if images < 2:
        raise InputError(f"{where} has {images} images: collections are made of two at least")
    chosen = np.random.default_rng(0).choice(images, min(images, LARGEST), replace=False)
    return np.sort(chosen)


def _width(bits: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if bits <= 8 else np.uint16


def _about(manifest: Manifest, images: int, top_n: int | str) -> dict[str, object]:
    same = ("models", "features", "offset", "terms", "asked", "asked_power", "bits")
    return {"images": images, "top_n": top_n, **{name: getattr(manifest, name) for name in same}}


# ---- queries, and what they find -----------------------------------------------------------------

# Word pieces of a caption: 7 and a Poisson variable, 11.8 on average over 25,014 captions of COCO.
LEAST_PIECES, MORE_PIECES = 7, 4.8


@dataclass(frozen=True)
class QuerySet:
    """What engines are asked."""

    queries: Sequence[TermQuery]  # at least two, to time
    # Captions and their photos' places in the source, to measure recall; empty where no captions
    # are given.
    judged: Sequence[tuple[TermQuery, int]]
    origin: str  # in words


def ask(
    index: Path, source: ImpactSource, file: Path | None, captions: Path | None, split: str
) -> QuerySet:
    """Queries of a file, captions of photos in the source, or drawn ones where neither is given.

    Args:
        index: the index folder, for its tokenizer.
        source: images of the index.
        file: text, one query a line.
        captions: as `sparta.captions.read.read_captions` takes them.
        split: of the captions.

    Raises:
        InputError: if both are given, fewer than two queries have a word of the index, or no
            captioned photo is in the source.
    """
    if file is not None and captions is not None:
        raise InputError("--queries and --captions: give one of them; captions are queries")
    tokenizer = WordPieceTokenizer.from_folder(index_folders(index)[0])
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


def draw_queries(source: ImpactSource, count: int, seed: int = 0) -> list[TermQuery]:
    """Queries as long as captions: independent terms, as frequent as the source says."""
    rng = np.random.default_rng(seed)
    share = source.frequencies / source.frequencies.sum()
    made = []
    for number in range(count):
        terms = rng.choice(source.terms, LEAST_PIECES + rng.poisson(MORE_PIECES), p=share).tolist()
        text = " ".join(source.vocabulary[term] for term in terms)
        made.append(TermQuery(number, text, text, dict(Counter(terms))))
    return made


def measure_recall(
    source: ImpactSource, top_n: int | None, judged: Sequence[tuple[TermQuery, int]]
) -> Recall:
    """Recall of captions among the source's own images, pruned, by a full scan.

    Args:
        source: N images.
        top_n: terms that an image keeps; None for all.
        judged: captions, and the places of their images in the source.
    """
    kept = csr_array(keep_top(source, source.impacts, top_n).astype(np.float32))
    columns = np.full(len(source.vocabulary), -1)
    columns[source.terms] = np.arange(len(source.terms))
    found = []
    for start in range(0, len(judged), QUERIES_AT_ONCE):
        part = judged[start : start + QUERIES_AT_ONCE]
        counts = np.zeros((len(source.terms), len(part)), np.float32)
        for number, (query, _) in enumerate(part):
            for term, count in query.terms.items():
                if columns[term] >= 0:
                    counts[columns[term], number] = count
        scores = torch.from_numpy((kept @ counts).T)
        own = [place for _, place in part]
        rank = ranks(scores, [[place] for place in own], ties="by_id")
        # A search does not return images without any of the words.
        rank[scores[torch.arange(len(own)), own] == 0] = len(source.ids) + 1
        found.append(rank)
    return recall(torch.cat(found))


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


def keep_top(source: ImpactSource, impacts: Impacts, top_n: int | None) -> Impacts:
    """Each row's n largest products of impact and weight, 0 elsewhere; of equals lower term ids.

    Args:
        source: that gives the weights.
        impacts: [images, A].
        top_n: n; None keeps all.
    """
    keys = impacts.astype(np.float32)
    if source.weights is not None:
        keys *= source.weights
    return impacts * largest(keys, top_n)


def _copies(source: ImpactSource, top_n: int | None) -> Maker:
    kept = _rows(keep_top(source, source.impacts, top_n), source)

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        return _perturbed(_picked(kept, rng.integers(len(kept), size=size)), source.bits, rng)

    return make


def _mixed(source: ImpactSource, top_n: int | None) -> Maker:
    impacts = source.impacts

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        first, second = (impacts[rng.integers(len(impacts), size=size)] for _ in range(2))
        mixed = np.where(_coins(rng, first.shape), first, second)
        return _perturbed(_rows(keep_top(source, mixed, top_n), source), source.bits, rng)

    return make


def _drawn(source: ImpactSource, top_n: int | None) -> Maker:
    distribution = Distribution.of(source.impacts)

    def make(size: int, rng: np.random.Generator) -> CorpusRows:
        return _rows(keep_top(source, distribution.draw(size, rng), top_n), source)

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
