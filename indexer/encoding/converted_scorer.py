"""A converted VisualSparta as a scorer: OpenVINO on the CPU, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.model_files import ModelFiles
from indexer.encoding.scorer import TermScores
from sparta.inference.cache import find_entry
from sparta.inference.runtime import Network
from sparta.visualsparta.padding import PaddedImages

NETWORK = "network.xml"
IMAGES_AT_ONCE = 8  # for which each weight is read once; more of them gain nothing


class ConvertedScorer:
    """A model of images without labels and with equally many regions each; see `Scorer`.

    A batch is divided among the cores, each of which computes several images at once.

    Args:
        files: of the model.
        terms: [T] int64, those that the network scores.
        folder: with the network.
        description: "fingerprint" of the model.
        precision: of `Network`.
    """

    def __init__(
        self,
        files: ModelFiles,
        terms: NDArray[np.int64],
        folder: Path,
        description: dict[str, Any],
        precision: str = "f32",
    ) -> None:
        self.config = files.config
        self.trained_terms = files.trained_terms
        self.term_frequencies = files.term_frequencies
        self.fingerprint: str = description["fingerprint"]
        self._terms = terms
        self._network = Network(folder / NETWORK, precision)

    def term_scores(self, images: PaddedImages, wanted: NDArray[np.bool_]) -> TermScores:
        """Scores of B images for the wanted terms, [V] bool; the others score 0."""
        count = len(images.regions)
        size = min(IMAGES_AT_ONCE, -(-count // self._network.threads))
        parts = [slice(start, start + size) for start in range(0, count, size)]
        found = self._network([[images.regions[own], images.locations[own]] for own in parts])
        scores = np.zeros((count, len(wanted)), np.float32)
        positions = np.zeros(scores.shape, np.int16)
        for own, (best, columns) in zip(parts, found, strict=True):
            scores[own, self._terms], positions[own, self._terms] = best, columns
        return TermScores(scores, positions)


def network_terms(files: ModelFiles, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[T] int64: the terms that a converted model scores, where some are wanted, [V] bool."""
    return np.flatnonzero(files.indexable & wanted)


def network_key(files: ModelFiles, terms: NDArray[np.int64], regions: int) -> dict[str, Any]:
    """All that decides a converted model, for the cache."""
    return {"model": files.hashes, "terms": terms.tolist(), "regions": regions}


def is_convertible(files: ModelFiles, kind: str) -> bool:
    """Whether a model can be converted, for features of this kind.

    Labels and a detector's regions differ in number from image to image.
    """
    return files.config.use_visual and not files.config.use_labels and kind != "region"


def find_converted(
    files: ModelFiles, wanted: NDArray[np.bool_], regions: int
) -> ConvertedScorer | None:
    """A model that was converted before, None if it was not."""
    terms = network_terms(files, wanted)
    entry = find_entry(network_key(files, terms, regions))
    return ConvertedScorer(files, terms, *entry) if entry else None
