"""Images → postings: the mean term scores of models and augmentations, pruned and quantised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.features import check_stores
from indexer.encoding.impacts import (
    ImpactParameters,
    Pruning,
    Quantiser,
    ScoredImages,
    TermFrequencies,
    Terms,
    estimate_offsets,
)
from indexer.encoding.models import ReadConfig, read_offsets
from indexer.encoding.scorers import Scorer, TermScores, load_scorers, wanted_terms
from indexer.manifest import OFFSETS, Manifest
from indexer.postings import NO_VECTOR, Inputs, Postings, PostingShard, QuantisationReport
from indexer.settings import FREQUENCY_KINDS, IndexSettings, TermSet
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import ImagePadder, PaddedImages
from sparta.visualsparta.offsets import TermOffsets

WINDOW = 16  # batches whose images are sorted by length together
OFFSET_SAMPLE = 2000  # images at most
ENOUGH = 500  # images whose offsets need no help of the training photos

Unit = TypeVar("Unit")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ImageEncoder:
    """Computes an image's term scores as the mean over all pairs of a model and a feature store.

    Models trained from different seeds, and augmentations of one photo, agree on what the photo
    shows and err independently. Averaging them costs nothing when searching.

    Attributes:
        scorers: models with one vocabulary; the first determines which position won a term.
        tokenizer: the models'.
        stores: of the same photos, the plain one first, whose regions are shown.
        batch_size: images per pass of a model.
        term_set: terms to compute, "trained" (by at least one model) or "all".
        trained_offsets: over the models' training photos, None if one does not record them.
    """

    scorers: Sequence[Scorer]
    tokenizer: TermTokenizer
    stores: Sequence[FeatureStore]
    batch_size: int
    term_set: TermSet = "all"
    trained_offsets: TermOffsets | None = None
    _cache: dict[tuple[int, ...], ScoredImages] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        stores: Sequence[FeatureStore],
        models: Sequence[str | Path],
        batch_size: int = 32,
        device: str = "auto",
        term_set: TermSet = "all",
        progress: Progress = no_progress,
    ) -> ImageEncoder:
        """Load models, by folder or hub name, and check that they and the stores go together.

        `stores` are of the same photos, the plain one first. Progress has the stage "convert", in
        models. Raises InputError if a model cannot be used or was trained on other features, or
        models or stores do not go together.
        """
        check_stores(stores, [(name, ReadConfig.open(name)) for name in models])
        plain = stores[0]
        regions = len(plain[0].features)
        loaded = load_scorers(models, plain.source.kind, regions, device, term_set, progress)
        return cls(*loaded, stores, batch_size, term_set, read_offsets(models))

    @property
    def store(self) -> FeatureStore:
        """The first store."""
        return self.stores[0]

    @property
    def models(self) -> list[str]:
        """Fingerprint of each model."""
        return [scorer.fingerprint for scorer in self.scorers]

    @cached_property
    def terms(self) -> Terms:
        """[T] int64, rising ids of the terms to compute."""
        return wanted_terms(self.scorers, self.tokenizer, self.term_set)

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        """[V] int64: how many training captions contain each term, 0 where unknown.

        Of several models the largest counts: they are usually trained on the same captions.
        """
        found: NDArray[np.int64] = np.max([one.term_frequencies for one in self.scorers], axis=0)
        return found

    def score(self, copies: Sequence[Sequence[ImageFeatures]]) -> ScoredImages:
        """Score N images: the mean over all pairs of a model and an augmentation.

        `copies` are the same N images of each augmentation, the plain ones first. Returns scores of
        the encoder's T terms; positions and inputs are those of the first pair.
        """
        pairs = (
            self._score_by_length(scorer, padder, images)
            for scorer, padder in zip(self.scorers, self._padders, strict=True)
            for images in copies
        )
        (scores, positions, _), inputs = next(pairs)
        for other, _ in pairs:
            scores += other.scores
        scores /= len(self.scorers) * len(copies)
        ids = [image.image_id for image in copies[0]]
        sizes = [{"width": image.width, "height": image.height} for image in copies[0]]
        return ScoredImages(ids, sizes, scores, positions, inputs)

    def scored(self, rows: Iterable[int], cache: bool = False) -> Iterator[ScoredImages]:
        """Score some rows of the stores, 16 batches at a time.

        With `cache` scores are kept for the next call with the same rows, which uses each once.
        """
        waiting = iter(rows)
        while window := tuple(islice(waiting, WINDOW * self.batch_size)):
            found = self._cache.pop(window, None)
            if found is None:
                found = self.score([[store[row] for row in window] for store in self.stores])
            if cache:
                self._cache[window] = found
            yield found

    def _score_by_length(
        self, scorer: Scorer, padder: ImagePadder, images: Sequence[ImageFeatures]
    ) -> tuple[TermScores, list[Inputs]]:
        """Images of similar length share a pass, which then computes little padding."""
        order = np.argsort([padder.length(image) for image in images], kind="stable")
        scores = np.empty((len(images), len(self.terms)), np.float32)
        positions = np.empty(scores.shape, np.int16)
        read: dict[int, Inputs] = {}
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size].tolist()
            own = [images[place] for place in part]
            padded = padder.pad(own)
            scores[part], positions[part], vectors = scorer.term_scores(padded, self.terms)
            inputs = read_inputs(own, padded, scorer.config, vectors)
            read |= zip(part, inputs, strict=True)
        return TermScores(scores, positions), [read[place] for place in range(len(images))]

    @cached_property
    def _padders(self) -> list[ImagePadder]:
        configs = [scorer.config for scorer in self.scorers]
        limits = [(one.max_regions, one.max_label_tokens, one.use_attributes) for one in configs]
        return [ImagePadder(self.tokenizer, *own) for own in limits]


def read_inputs(
    images: Iterable[ImageFeatures],
    padded: PaddedImages,
    config: ReadConfig,
    vectors: NDArray[np.float32] | None = None,
) -> Iterator[Inputs]:
    """What a model reads of each image of a batch, label tokens if it reads them.

    `padded` are the same images, for the model; `vectors` [B, d] are theirs, if they have any.
    Boxes are those that the model's positions number.
    """
    regions = padded.region_mask.sum(axis=1).tolist()
    tokens = (padded.label_mask.sum(axis=1) * config.use_labels).tolist()
    for i, (image, r, k) in enumerate(zip(images, regions, tokens, strict=True)):
        terms, owners = padded.label_ids[i, :k], padded.label_regions[i, :k]
        vector = NO_VECTOR if vectors is None else vectors[i].astype(np.float16)
        windows = config.windows(r)
        boxes = image.boxes[:r] if windows is None else windows.boxes
        yield Inputs(boxes, terms.astype(np.int32), owners.astype(np.int16), vector)


def encode_rows(
    encoder: ImageEncoder, rows: Iterable[int], parameters: ImpactParameters
) -> PostingShard:
    """Encode some rows of an encoder's feature stores as postings of an index.

    Raises InputError if a model gives scores that are not finite.
    """
    done = [parameters.postings(images) for images in encoder.scored(rows)]
    report = sum((shard.report for shard in done), QuantisationReport())
    return PostingShard(Postings.joined([shard.postings for shard in done]), report)


# ---- the parameters of an index ------------------------------------------------------------------


def measured_parameters(
    encode: EncoderMap,
    encoder: ImageEncoder,
    settings: IndexSettings,
    frequencies: TermFrequencies,
    saved: TermOffsets | None,
    progress: Progress = no_progress,
) -> tuple[TermOffsets, ImpactParameters]:
    """What a sample determines, unless it is known, and how scores become impacts by it.

    Progress has the stage "offset", in images.
    """
    found = saved or _measure(encode, encoder, settings, frequencies, progress)
    pruning = Pruning.of(encoder.terms, found.offset, settings.top_n, frequencies.weights)
    quantiser = Quantiser.fit(found.largest, settings.bits)
    return found, ImpactParameters(pruning, quantiser, bool(settings.rerank))


def _measure(
    encode: EncoderMap,
    encoder: ImageEncoder,
    settings: IndexSettings,
    frequencies: TermFrequencies,
    progress: Progress,
) -> TermOffsets:
    """Encode the sample, estimate each term's offset, and prune the sample as the corpus will be.

    Impacts have few levels, which should not be spent on scores that no image keeps. Scores of the
    corpus above the sample's largest get the largest impact too; the manifest counts them. Few
    images say little: the models' training photos stand in for those that are missing.
    """
    terms, done, size = encoder.terms, 0, settings.offset_images
    sample = np.empty((size, len(terms)), np.float32)
    # A corpus no larger than the sample is encoded shard by shard, as the second pass will do, so
    # that its scores can be cached for it.
    whole = len(encoder.store) == size
    units = encoder.store.shards if whole else _sample(encoder, size)
    for scores in encode(partial(_scores, cache=whole), units):
        sample[done : done + len(scores)] = scores
        done += len(scores)
        progress("offset", done, size)
    offset = np.zeros(len(encoder.tokenizer.vocabulary), np.float32)
    offset[terms] = estimate_offsets(sample, settings.offset)
    largest, known = 0.0, encoder.trained_offsets
    if known is not None and {one.config.offset for one in encoder.scorers} == {settings.offset}:
        share = np.float32(min(1, size / ENOUGH))
        offset = share * offset + (1 - share) * known.offset
        largest = float(1 - share) * known.largest
    elif size == 1:
        offset[:] = 0  # or nothing of the one image would be left
    pruning = Pruning.of(terms, offset, settings.top_n, frequencies.weights)
    return TermOffsets(offset, max(pruning.largest_kept(sample), largest))


def _sample(encoder: ImageEncoder, size: int) -> list[list[int]]:
    """Rows drawn from all, as many at once as the encoder sorts by length together."""
    chosen = np.random.default_rng(0).choice(len(encoder.store), size, replace=False)
    rows, window = sorted(chosen.tolist()), WINDOW * encoder.batch_size
    return [rows[start : start + window] for start in range(0, size, window)]


def _scores(encoder: ImageEncoder, rows: Sequence[int], cache: bool) -> NDArray[np.float32]:
    """[n, T] the term scores of n rows."""
    return np.concatenate([images.scores for images in encoder.scored(rows, cache)])


def parameters_of(
    index: Path,
    manifest: Manifest,
    encoder: ImageEncoder,
    copies: int,
    frequencies: Path | None = None,
) -> ImpactParameters:
    """The offsets, scale, terms and weights that an index was built with.

    The encoder is of the images to add, each with so many augmentations; `frequencies` is the
    file of queries, if the index was built with one. Raises InputError if it is not, or the
    encoder is not the index's.
    """
    if encoder.models != manifest.models:
        raise InputError(
            f"{index} was built with {_named(manifest.models)}, --model gives "
            f"{_named(encoder.models)}: give the same models in the same order"
        )
    if copies != len(manifest.features):
        raise InputError(
            f"{index} was built with {len(manifest.features)} feature stores of each photo, "
            f"{copies} are given: give one for each augmentation, the plain one first"
        )
    source = manifest.frequencies
    if source not in FREQUENCY_KINDS:
        if frequencies is None:
            raise InputError(f"{index} was built with a file of queries: give it as --frequencies")
        source = str(frequencies)
    found = TermFrequencies.of(
        source, manifest.frequency_power, encoder.frequencies, encoder.tokenizer
    )
    if found.source != manifest.frequencies:
        raise InputError(
            f"--frequencies {frequencies} is not the file of queries that {index} was built with: "
            f"its content has hash {found.source[:12]} instead of {manifest.frequencies[:12]}"
        )
    offset: NDArray[np.float32] = np.load(index / OFFSETS, allow_pickle=False)
    pruning = Pruning.of(encoder.terms, offset, manifest.top_n, found.weights)
    quantiser = Quantiser(manifest.scale, manifest.bits)
    return ImpactParameters(pruning, quantiser, bool(manifest.rerank))


def _named(models: list[str]) -> str:
    return f"{len(models)} model{'s' * (len(models) > 1)} ({', '.join(m[:12] for m in models)})"


# ---- where images are encoded --------------------------------------------------------------------


class EncoderMap(Protocol):
    """Does some work on units of it, each with an encoder."""

    def __call__(
        self, work: Callable[[ImageEncoder, Unit], Result], units: Sequence[Unit]
    ) -> Iterator[Result]:
        """The results, in order of the units."""
        ...


def encoder_map(
    encoder: ImageEncoder, models: Sequence[str | Path], device: str, cluster: Cluster | None
) -> EncoderMap:
    """Work is done with an encoder by the workers of a cluster, or by this process when needed.

    Workers have copies of the encoder: a cluster's machines have the stores, and models that are
    folders, under the same paths.
    """
    if cluster is None:
        return lambda work, units: map(partial(work, encoder), units)
    folders = [store.folder for store in encoder.stores]
    options = encoder.batch_size, device, encoder.term_set
    found = _fingerprints(encoder)
    return partial(cluster.map, partial(_open_copy, found, folders, list(models), *options))


def _open_copy(
    fingerprints: Sequence[str],
    folders: Sequence[Path],
    models: Sequence[str | Path],
    batch_size: int,
    device: str,
    term_set: TermSet,
) -> ImageEncoder:
    """An encoder whose stores and models have these fingerprints here, too."""
    stores = [FeatureStore.open(folder) for folder in folders]
    encoder = ImageEncoder.open(stores, models, batch_size, device, term_set)
    names = [*folders, *models]
    for name, own, wanted in zip(names, _fingerprints(encoder), fingerprints, strict=True):
        if own != wanted:
            raise InputError(
                f"{name} is another than on the machine that asked: give a folder that all "
                "machines share"
            )
    return encoder


def _fingerprints(encoder: ImageEncoder) -> list[str]:
    return [*(store.fingerprint for store in encoder.stores), *encoder.models]
