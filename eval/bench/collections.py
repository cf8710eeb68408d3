"""Collections of impacts of any size, made of the images of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns.layout import impact_type, term_type
from indexer.encoding.encoder import ImageEncoder, parameters_of
from indexer.encoding.impacts import largest
from indexer.encoding.models import load_models, model_fingerprint
from indexer.manifest import Manifest, index_folders
from indexer.settings import FREQUENCY_KINDS
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.features.store import HEADER, FeatureStore
from sparta.json_values import Json
from sparta.model_id import PHOTOS, SAMPLE
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer

Kind = Literal["near-duplicates", "blends", "synthetic"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOISE = 0.15  # standard deviation of the factor on every impact
CHUNK = 2_000  # images made at once
READ = 10_000  # images of a collection in memory at once
LARGEST = 10_000  # images of a source; larger indexes are sampled
TERMS, IMPACTS = "terms.bin", "impacts.bin"

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
    about: Json  # their origin, for the results

    @property
    def most_terms(self) -> int:
        """The most terms that an image has."""
        return int(np.count_nonzero(self.impacts, axis=1).max())


def open_features(index: Path, folders: Sequence[Path] = ()) -> list[FeatureStore]:
    """The feature stores that an index was built from, the plain one first.

    Without `folders`, looks beside the index, in `INDEX.features`. The list is empty if one is
    missing or has changed.
    """
    beside = index.with_name(f"{index.name}.features")
    wanted = Manifest.of(index).features
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

    By default, features are those beside the index, and the model is the package's, if the index
    was built with one. Reports progress of the stage "encode", in images.
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
        if [model_fingerprint(model)] == Manifest.of(index).models:
            return name
    return None


def encode_source(
    index: Path,
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    progress: Progress = no_progress,
) -> ImpactSource:
    """Impacts of all terms of at most 10,000 images of an index, by its offsets and scale."""
    folder = index_folders(index)[0]
    manifest = Manifest.open(folder)
    if manifest.frequencies not in FREQUENCY_KINDS:
        manifest = replace(manifest, frequencies="none")  # the file of queries is not at hand
    encoder = ImageEncoder.open(stores, models, term_set=manifest.terms)
    own = parameters_of(folder, manifest, encoder, len(stores))
    parameters = own._replace(pruning=replace(own.pruning, top_n=None))
    rows = _some(len(encoder.store), encoder.store.folder)
    impacts = np.zeros((len(rows), len(encoder.terms)), impact_type(manifest.bits))
    ids: list[str] = []
    for images in encoder.scored(rows.tolist()):
        kept = parameters.postings(images).postings
        row = len(ids) + np.repeat(np.arange(len(kept)), np.diff(kept.starts))
        impacts[row, np.searchsorted(encoder.terms, kept.terms)] = kept.impacts
        ids += images.ids
        progress("encode", len(ids), len(rows))
    order = np.argsort(ids)
    used = impacts.any(axis=0)
    terms, weights = encoder.terms[used].astype(np.int32), own.pruning.weights
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
    """The impacts that an index has, of at most 10,000 of its images."""
    folder = index_folders(index)[0]
    manifest = Manifest.open(folder)
    tokenizer = TermTokenizer.from_folder(folder)
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
            columns.append(found[chosen[order]].astype(impact_type(manifest.bits)))
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
    """At most 10,000 of the images, which are at least two, at random, rising."""
    if images < 2:
        raise InputError(f"{where} has {images} images: collections are made of two at least")
    chosen = np.random.default_rng(0).choice(images, min(images, LARGEST), replace=False)
    return np.sort(chosen)


def _about(manifest: Manifest, images: int, top_n: int | str) -> Json:
    same = ("models", "features", "offset", "terms", "frequencies", "frequency_power", "bits")
    return {"images": images, "top_n": top_n, **{name: getattr(manifest, name) for name in same}}


# ---- larger collections ------------------------------------------------------------------------


def enlarge(
    source: ImpactSource, images: int, top_n: int | None, kind: Kind, seed: int = 0
) -> Iterator[csr_array]:
    """Make images of given ones, and keep each one's n largest impacts.

    "near-duplicates" draws one image with replacement for each new one, as the paper's million
    does, and perturbs its impacts by 15 %. An engine may profit from near-duplicates that lie
    together, so "blends" draws two, takes each term from either and perturbs likewise: no image is
    near another, the terms keep their document frequencies, but half of what ties terms to one
    another is lost. "synthetic" draws from a distribution fitted to the images, which keeps both.

    An image keeps `top_n` terms, None for all. The same seed gives the same collection.

    Yields:
        int32 impacts of some thousand images [n, V]; terms rise within an image.
    """
    kept = keep_top(source, source.impacts, top_n) if kind == "near-duplicates" else None
    fitted = Distribution.of(source.impacts) if kind == "synthetic" else None
    for start in range(0, images, CHUNK):
        size, rng = min(CHUNK, images - start), np.random.default_rng((seed, start))
        if fitted is not None:
            yield keep_top(source, fitted.draw(size, rng), top_n)
        elif kept is not None:
            yield _perturbed(kept[rng.integers(len(source.ids), size=size)], source.bits, rng)
        else:
            blended = _blended(source.impacts, size, rng)
            yield _perturbed(keep_top(source, blended, top_n), source.bits, rng)


def check_kind(name: str) -> Kind:
    """Accept the name of a kind of collection."""
    for kind in KINDS:
        if kind == name:
            return kind
    raise InputError(f"--corpus must be one of {', '.join(KINDS)}, got {name!r}")


def keep_top(source: ImpactSource, impacts: Impacts, top_n: int | None) -> csr_array:
    """Each row's n largest products of impact and weight; of equals lower term ids.

    `impacts` is [images, A], the result int32 [images, V]. A `top_n` of None keeps all.
    """
    keys = impacts.astype(np.float32)
    if source.weights is not None:
        keys *= source.weights
    kept = csr_array(impacts * largest(keys, top_n))
    numbers = kept.data.astype(np.int32), source.terms[kept.indices], kept.indptr
    return csr_array(numbers, (len(impacts), len(source.vocabulary)))


def _blended(impacts: Impacts, size: int, rng: np.random.Generator) -> Impacts:
    """Images [size, A] that have each term from one of two images."""
    first, second = (impacts[rng.integers(len(impacts), size=size)] for _ in range(2))
    bits = np.unpackbits(np.frombuffer(rng.bytes(first.size // 8 + 1), np.uint8))
    return np.where(bits[: first.size].reshape(first.shape).astype(bool), first, second)


def _perturbed(rows: csr_array, bits: int, rng: np.random.Generator) -> csr_array:
    factors = 1 + NOISE * rng.standard_normal(rows.nnz, dtype=np.float32)
    rows.data = np.clip(np.rint(rows.data * factors), 1, 2**bits - 1).astype(np.int32)
    return rows


# ---- images drawn from a distribution: as alike as photos are, none a copy ---------------------

FACTORS = 256
# The share of the variance of factors that comes from the image which an image is drawn around.
# With it a drawn image is as near to the nearest of as many others as photos of Flickr8k are.
KEPT = 0.72
PILOT = 10_000  # images that the distribution of each term's values is measured on
LEVELS, EDGE = 1024, 8.0  # values are told apart from -8 to 8 standard deviations


@dataclass(frozen=True)
class Distribution:
    """A smoothed bootstrap in the space of factors, with the given images' own marginals.

    An image is a point of factors drawn around a given image's (a kernel density estimate, shrunk
    so that variances and correlations stay those of the given images; Silverman 1986, section
    6.4), times the loadings, plus noise of each term's own. A term's value then becomes the impact
    of the same rank among the given images, so each term keeps its document frequency and its
    distribution of impacts.
    """

    factors: NDArray[np.float32]  # [N, F] float32 of the given images, of mean 0 and variance 1
    loadings: NDArray[np.float32]  # [F, A] float32
    noise: NDArray[np.float32]  # [A] float32, standard deviations
    impacts: Impacts  # [A, LEVELS] the impact of each value of each term

    @classmethod
    def of(cls, impacts: Impacts, seed: int = 0) -> Distribution:
        """Fit it to the impacts [N, A] of at least two images, 0 where one lacks a term."""
        scaled = impacts.astype(np.float32)
        scaled -= scaled.mean(axis=0)
        scaled /= np.maximum(scaled.std(axis=0), 1e-6)
        factors, loadings = _factors(scaled, min(FACTORS, len(scaled) - 1, scaled.shape[1]), seed)
        noise = np.sqrt(np.maximum(1 - (loadings**2).sum(axis=0), 0)).astype(np.float32)
        fitted = cls(factors, loadings, noise, impacts[:0])
        ranks = fitted._ranks(np.random.default_rng((seed, 1)))
        return cls(factors, loadings, noise, _by_rank(impacts, ranks))

    def draw(self, count: int, rng: np.random.Generator) -> Impacts:
        """The impacts [count, A] of new images."""
        levels = self._levels(count, rng)
        drawn: Impacts = self.impacts[np.arange(len(self.noise)), levels]
        return drawn

    def _levels(self, count: int, rng: np.random.Generator) -> NDArray[np.int16]:
        """Values of all terms [count, A], as levels."""
        around = self.factors[rng.integers(len(self.factors), size=count)]
        moved = rng.standard_normal(around.shape, np.float32)
        values = (np.sqrt(KEPT) * around + np.sqrt(1 - KEPT) * moved) @ self.loadings
        values += self.noise * rng.standard_normal(values.shape, np.float32)
        values += EDGE
        values *= LEVELS / (2 * EDGE)
        levels: NDArray[np.int16] = np.clip(values, 0, LEVELS - 1, out=values).astype(np.int16)
        return levels

    def _ranks(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """The share [A, LEVELS] of images whose value of a term is below the middle of a level."""
        terms = len(self.noise)
        counts = np.zeros(terms * LEVELS, np.int64)
        for _ in range(0, PILOT, CHUNK):
            places = self._levels(CHUNK, rng) + LEVELS * np.arange(terms)
            counts += np.bincount(places.ravel(), minlength=len(counts))
        shares = counts.reshape(terms, LEVELS) / counts.sum() * terms
        middles: NDArray[np.float64] = shares.cumsum(axis=1) - shares / 2
        return middles


def _factors(
    scaled: NDArray[np.float32], count: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Factors [N, count] of variance 1 and loadings of a principal component analysis.

    By a randomised range finder with two power iterations (Halko, Martinsson and Tropp 2011,
    algorithm 4.4).
    """
    found = scaled @ np.random.default_rng((seed, 0)).standard_normal(
        (scaled.shape[1], count), np.float32
    )
    for _ in range(2):
        basis, _ = np.linalg.qr(found)
        found = scaled @ (scaled.T @ basis)
    basis, _ = np.linalg.qr(found)
    left, sizes, right = np.linalg.svd(basis.T @ scaled, full_matrices=False)
    root = np.sqrt(np.float32(len(scaled)))
    return (basis @ left) * root, right * sizes[:, None] / root


def _by_rank(impacts: Impacts, ranks: NDArray[np.float64]) -> Impacts:
    """For each term and level the impact of the given images that has its rank."""
    ordered = np.sort(impacts, axis=0)
    places = np.minimum((ranks * len(impacts)).astype(np.int64), len(impacts) - 1)
    table: Impacts = np.take_along_axis(ordered.T, places, axis=1)
    return table


# ---- on disk -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Corpus:
    """A collection in two files, memory-mapped: 3 bytes a posting at 8 bits."""

    folder: Path  # of the files
    vocabulary: list[str]  # [V] terms in id order
    bits: int  # of an impact
    starts: NDArray[np.int64]  # [images + 1] where each image's postings begin

    @classmethod
    def write(
        cls, folder: Path, vocabulary: list[str], bits: int, chunks: Iterable[csr_array]
    ) -> Corpus:
        """Write impacts [n, V] as they come."""
        folder.mkdir(parents=True, exist_ok=True)
        term, impact = term_type(len(vocabulary)), impact_type(bits)
        lengths = [np.zeros(1, np.int64)]
        with (folder / TERMS).open("wb") as terms, (folder / IMPACTS).open("wb") as impacts:
            for rows in chunks:
                rows.indices.astype(term).tofile(terms)
                rows.data.astype(impact).tofile(impacts)
                lengths.append(np.diff(rows.indptr))
        return cls(folder, vocabulary, bits, np.cumsum(np.concatenate(lengths)))

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.starts) - 1

    @property
    def postings(self) -> int:
        """Number of postings."""
        return int(self.starts[-1])

    def rows(self) -> Iterator[csr_array]:
        """Int32 impacts [n, V] of all images, `READ` at a time."""
        types = term_type(len(self.vocabulary)), impact_type(self.bits)
        terms, impacts = (
            np.memmap(self.folder / name, dtype, "r", shape=(self.postings,))
            for name, dtype in zip((TERMS, IMPACTS), types, strict=True)
        )
        for first in range(0, self.images, READ):
            own = self.starts[first : first + READ + 1]
            numbers = (part[own[0] : own[-1]].astype(np.int32) for part in (impacts, terms))
            yield csr_array((*numbers, own - own[0]), (len(own) - 1, len(self.vocabulary)))
