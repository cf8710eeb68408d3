"""Scorers: VisualSparta models that give images term scores, run by OpenVINO or in torch.

Torch is imported only where a model runs in it, or is converted for OpenVINO the first time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.impacts import Terms
from indexer.encoding.models import ModelFiles, ReadConfig, load_models, model_fingerprint
from indexer.settings import TermSet
from sparta.errors import first_line
from sparta.features.record import FeatureKind
from sparta.inference import NETWORK, Network, add_entry, find_entry, on_cpu
from sparta.json_values import Json
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.batch import PaddedImages

if TYPE_CHECKING:
    from sparta.visualsparta.model import VisualSparta

IMAGES_AT_ONCE = 8  # for which each weight is read once; more of them gain nothing
LARGEST_ERROR = 1e-3  # of a converted model's term score, against torch's
WINDOWS = 1  # raised when the places that converted models choose from change
EXAMPLES, CHECKED = 2, 3  # images: a network for batches of one length alone is found out

log = logging.getLogger(__name__)


class TermScores(NamedTuple):
    """Scores of B images for T terms.

    Attributes:
        scores: [B, T] float32, log(1 + ReLU(y + b)) of equation 11, zero where a term is absent.
        positions: [B, T] int16, the position that won the maximum of equation 10: of r regions and
            k label tokens, a region is one of 0 to r - 1, a token one of r to r + k - 1. Of a model
            with `windows` it is the number of a box there.
        vectors: [B, d] float32 of length 1 of a model that `reranks`; None of others.
    """

    scores: NDArray[np.float32]
    positions: NDArray[np.int16]
    vectors: NDArray[np.float32] | None = None


def load_scorers(
    names: Sequence[str | Path],
    kind: FeatureKind,
    regions: int,
    device: str,
    term_set: TermSet,
    progress: Progress = no_progress,
) -> tuple[Sequence[Scorer], TermTokenizer]:
    """Load models, by folder or hub name, and check them against each other.

    On a CPU, OpenVINO runs models without labels whose images have equally many regions, as `kind`
    and `regions` say of the features; labels, and a detector's regions, differ in number from image
    to image. If one model needs torch, or cannot be converted, all run in torch. Progress has the
    stage "convert", in models. Raises InputError if there is none, one cannot be used, or their
    vocabularies differ.
    """
    files = _convertible(names) if on_cpu(device) and kind != "region" else []
    if not files:
        return _load_torch(names, device)
    tokenizer = files[0].tokenizer
    wanted = wanted_terms(files, tokenizer, term_set)
    regions = min(files[0].config.max_regions, regions)
    found = [ConvertedScorer.find(own, wanted, regions) for own in files]
    converted = [scorer for scorer in found if scorer]
    if len(converted) == len(files):
        return converted, tokenizer
    loaded, _ = _load_torch(names, "cpu")
    converted = []
    try:
        for done, (scorer, own) in enumerate(zip(loaded, files, strict=True)):
            progress("convert", done, len(files))
            converted.append(ConvertedScorer.convert(scorer, own, wanted, regions))
    except Exception as error:  # conversion runs the code of any encoder
        log.warning("the models run in torch, which is slower: %s", first_line(error))
        return loaded, tokenizer
    progress("convert", len(files), len(files))
    return converted, tokenizer


def wanted_terms(
    models: Sequence[ModelFiles | Scorer], tokenizer: TermTokenizer, term_set: TermSet
) -> Terms:
    """[T] rising ids of terms "trained" by at least one model, or "all" that may enter an index."""
    if term_set == "all":
        return np.flatnonzero(tokenizer.indexable)
    trained = np.any([model.trained_terms for model in models], axis=0)
    return np.flatnonzero(tokenizer.indexable & trained)


def _convertible(names: Sequence[str | Path]) -> list[ModelFiles]:
    """The files of models that can all be converted, for the same regions; none otherwise."""
    try:
        files = [ModelFiles.open(name) for name in names]
    except Exception:  # whatever is wrong, loading the model says so
        return []
    same = {(own.tokenizer.vocabulary_hash, own.config.max_regions) for own in files}
    able = len(same) == 1
    able &= all(own.config.use_visual and not own.config.use_labels for own in files)
    return files if able else []


def _load_torch(
    names: Sequence[str | Path], device: str
) -> tuple[list[TorchScorer], TermTokenizer]:
    from sparta.networks.backbone import pick_device

    loaded, tokenizer = load_models(names, pick_device(device))
    return [TorchScorer(model) for model in loaded], tokenizer


class TorchScorer:
    """A model in torch, on its device; the reference, and what runs on a GPU.

    Attributes:
        config: what the model reads.
        fingerprint: SHA-256 of its weights and configuration.
        trained_terms: [V] bool, those some training caption contained.
        term_frequencies: [V] int64, how many training captions contained each term; all 0 where
            that is unknown.
    """

    def __init__(self, model: VisualSparta) -> None:
        self.model = model
        self.config = ReadConfig.of(model.config.to_dict())
        self.fingerprint = model_fingerprint(model)
        self.trained_terms: NDArray[np.bool_] = model.trained_terms.cpu().numpy()
        self.term_frequencies: NDArray[np.int64] = model.term_frequencies.cpu().numpy()

    def term_scores(self, images: PaddedImages, terms: Terms) -> TermScores:
        """Scores of B images for terms [T], rising; a term that the model lacks scores 0."""
        import torch

        from sparta.visualsparta.batch import ImageBatch

        columns = torch.from_numpy(terms).to(self.model.device)
        wanted = torch.zeros(len(self.trained_terms), dtype=torch.bool, device=columns.device)
        wanted[columns] = True
        batch = ImageBatch.of(images)
        found = self.model.term_scores(batch, wanted)
        scores, positions = (part[:, columns].cpu().numpy() for part in found)
        vectors = self.model.photo_vectors(batch).cpu().numpy() if self.config.reranks else None
        return TermScores(scores, positions, vectors)


class ConvertedScorer:
    """A converted model, which OpenVINO runs on the CPU; attributes as of a `TorchScorer`.

    A batch is divided among the cores, each of which computes several images at once. The network
    scores `terms` [T]; the description has the model's "fingerprint".
    """

    def __init__(self, files: ModelFiles, terms: Terms, folder: Path, description: Json) -> None:
        self.config = files.config
        self.trained_terms = files.trained_terms
        self.term_frequencies = files.term_frequencies
        self.fingerprint: str = description["fingerprint"]
        self._terms = terms
        self._network = Network(folder / NETWORK, weights=description.get("weights"))

    @classmethod
    def find(cls, files: ModelFiles, wanted: Terms, regions: int) -> Self | None:
        """A model that was converted before for terms [T] and these regions, else None."""
        terms = wanted[files.indexable[wanted]]
        entry = find_entry(_key(files, terms, regions))
        return cls(files, terms, *entry) if entry else None

    @classmethod
    def convert(cls, scorer: TorchScorer, files: ModelFiles, wanted: Terms, regions: int) -> Self:
        """Convert a model on the CPU, for terms [T] and images of so many regions, and cache it.

        Raises whatever torch or OpenVINO do, or ValueError if the result computes something else.
        """
        terms = wanted[files.indexable[wanted]]
        make = partial(cls._write, scorer, files, terms, regions)
        return cls(files, terms, *add_entry(_key(files, terms, regions), make))

    @classmethod
    def _write(
        cls, scorer: TorchScorer, files: ModelFiles, terms: Terms, regions: int, folder: Path
    ) -> Json:
        import torch

        from sparta.inference import convert
        from sparta.visualsparta.model import ImageTerms

        images = _noise(EXAMPLES, regions, files.config.feature_dim)
        wanted = torch.from_numpy(terms)
        module = ImageTerms(scorer.model, wanted, files.config.reranks).eval()
        example = [torch.from_numpy(part) for part in (images.regions, images.locations)]
        convert(module, example, folder / NETWORK, free=1)
        description = {"fingerprint": scorer.fingerprint}
        images = _noise(CHECKED, regions, files.config.feature_dim)
        expected = scorer.term_scores(images, terms)
        found = cls(files, terms, folder, description).term_scores(images, terms)
        for own, right in ((found.scores, expected.scores), (found.vectors, expected.vectors)):
            different = own is not None and right is not None and np.abs(own - right)
            if np.max(different, initial=0) > LARGEST_ERROR:
                raise ValueError("the network that OpenVINO makes of it computes something else")
        return description

    def term_scores(self, images: PaddedImages, terms: Terms) -> TermScores:
        """Scores of B images for terms [T], which include the network's."""
        count = len(images.regions)
        size = min(IMAGES_AT_ONCE, -(-count // self._network.threads))
        parts = [slice(start, start + size) for start in range(0, count, size)]
        found = self._network([[images.regions[own], images.locations[own]] for own in parts])
        scores = np.zeros((count, len(terms)), np.float32)
        positions = np.zeros(scores.shape, np.int16)
        # Of compact models, the network may lack some terms.
        own_terms = np.searchsorted(terms, self._terms)
        columns = slice(None) if len(own_terms) == len(terms) else own_terms
        for own, (best, regions, *_) in zip(parts, found, strict=True):
            scores[own, columns], positions[own, columns] = best, regions
        vectors = np.concatenate([one[2] for one in found]) if self.config.reranks else None
        return TermScores(scores, positions, vectors)


Scorer: TypeAlias = TorchScorer | ConvertedScorer


def _key(files: ModelFiles, terms: Terms, regions: int) -> Json:
    """All that decides a converted model, for the cache."""
    key: Json = {"model": files.hashes, "terms": terms.tolist(), "regions": regions}
    if files.config.windows(regions):
        key["windows"] = WINDOWS
    return key | {"vectors": True} if files.config.reranks else key


def _noise(images: int, regions: int, dimension: int) -> PaddedImages:
    """Images without labels."""
    random = np.random.default_rng(0)
    none = np.zeros((images, 0), np.int64)
    return PaddedImages(
        random.random((images, regions, dimension)).astype(np.float16),
        random.random((images, regions, 6), np.float32),
        np.ones((images, regions), np.bool_),
        none,
        none.astype(np.bool_),
        none,
    )
