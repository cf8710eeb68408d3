"""What gives images term scores: a VisualSparta in torch, or one that was converted."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.stores import FeatureConfig
from sparta.visualsparta.padding import InputLimits, PaddedImages


class TermScores(NamedTuple):
    """Scores of B images for the V terms of the vocabulary.

    Attributes:
        scores: [B, V] float32, log(1 + ReLU(y + b)) of equation 11, zero where a term is absent.
        positions: [B, V] int16, the position that won the maximum of equation 10: of r regions and
            k label tokens, a region is one of 0 to r - 1, a token one of r to r + k - 1.
    """

    scores: NDArray[np.float32]
    positions: NDArray[np.int16]


class ReaderConfig(InputLimits, FeatureConfig, Protocol):
    """What a model's configuration says of the images it reads, and of its scores."""

    @property
    def use_labels(self) -> bool: ...  # noqa: D102

    @property
    def offset(self) -> str: ...  # noqa: D102


class Scorer(Protocol):
    """Gives images term scores.

    Attributes:
        config: what it reads.
        fingerprint: SHA-256 of the model's weights and configuration.
        trained_terms: [V] bool, those some training caption contained.
        term_frequencies: [V] int64, how many training captions contained each term; all 0 where
            that is unknown.
    """

    fingerprint: str
    trained_terms: NDArray[np.bool_]
    term_frequencies: NDArray[np.int64]

    @property
    def config(self) -> ReaderConfig: ...  # noqa: D102

    def term_scores(self, images: PaddedImages, wanted: NDArray[np.bool_]) -> TermScores:
        """Scores of B images for the wanted terms, [V] bool; the others score 0."""
        ...
