"""Image → text ranking by a model that was trained to rank images for a caption.

VisualSparta's score is a sum over a caption's terms, and each term has an offset that all images
share. The sum of the offsets does not change the ranking of images for a caption; but it dominates
the ranking of captions for an image, where long captions of common words come first.

The objective (equation 13, a softmax over images) turns the scores f into
P(v | q) = exp(f(q, v) / τ) / Σ_u exp(f(q, u) / τ). With a uniform prior over captions, Bayes' rule
gives P(q | v) ∝ P(v | q) for a fixed image v. So captions are compared by
f(q, v) - τ log mean_u exp(f(q, u) / τ), with the mean over reference images that do not belong to
the captions. For large τ this equals subtracting each term's mean over images, as indexes do
before pruning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import torch
from torch import Tensor

from eval.recall.score_matrix import Scores
from sparta.metrics import LARGEST_BLOCK

SAMPLE = 2000  # reference images at most; more change little


@dataclass(frozen=True)
class ReferenceImages:
    """The images u over which a caption's mean is taken.

    Attributes:
        image_ids: at least one, none of them a measured image.
        temperature: τ, of the model's training.
    """

    image_ids: Sequence[str]
    temperature: float

    @classmethod
    def sample(cls, image_ids: Sequence[str], temperature: float) -> ReferenceImages:
        """All images, or `SAMPLE` of them, drawn with a fixed seed."""
        if len(image_ids) > SAMPLE:
            chosen = np.random.default_rng(0).choice(len(image_ids), SAMPLE, replace=False)
            image_ids = [image_ids[place] for place in sorted(chosen.tolist())]
        return cls(image_ids, temperature)


@dataclass(frozen=True)
class CaptionPosterior:
    """τ log P(v | q), up to a constant: comparable between captions, and between images as f is.

    Attributes:
        scores: f, of T texts and N images.
        normalisers: [T] float32, on the scores' device.
    """

    scores: Scores
    normalisers: Tensor

    @classmethod
    def of(cls, scores: Scores, reference: Scores, temperature: float) -> CaptionPosterior:
        """Build from the scores of the same texts for reference images."""
        return cls(scores, log_mean_exp(reference, temperature))

    @property
    def shape(self) -> tuple[int, int]:
        """T and N."""
        return self.scores.shape

    def rows(self, texts: slice) -> Tensor:
        """Scores of some texts for all images, [t, N]."""
        return self.scores.rows(texts) - self.normalisers[texts, None]

    def columns(self, images: slice) -> Tensor:
        """Scores of some images for all texts, [n, T]."""
        return self.scores.columns(images) - self.normalisers

    def select(self, texts: slice, images: slice) -> CaptionPosterior:
        """The part of the matrix that some texts and images span."""
        return CaptionPosterior(self.scores.select(texts, images), self.normalisers[texts])


def log_mean_exp(scores: Scores, temperature: float) -> Tensor:
    """Each text's τ log mean_u exp(f(q, u) / τ) over all images: [T] float32."""
    texts, images = scores.shape
    size = max(1, LARGEST_BLOCK // images)
    parts = [
        (scores.rows(slice(start, min(start + size, texts))) / temperature).logsumexp(dim=1)
        for start in range(0, texts, size)
    ]
    return temperature * (torch.cat(parts) - log(images))
