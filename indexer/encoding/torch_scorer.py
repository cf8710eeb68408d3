"""A VisualSparta in torch as a scorer: the reference, and what runs on a GPU."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from indexer.encoding.models import model_fingerprint
from indexer.encoding.scorer import TermScores
from sparta.visualsparta.collate import ImageBatch
from sparta.visualsparta.model import VisualSparta
from sparta.visualsparta.padding import PaddedImages


class TorchScorer:
    """A model on its device; see `Scorer` for the attributes."""

    def __init__(self, model: VisualSparta) -> None:
        self.model = model
        self.config = model.config
        self.fingerprint = model_fingerprint(model)
        self.trained_terms: NDArray[np.bool_] = model.trained_terms.cpu().numpy()
        self.term_frequencies: NDArray[np.int64] = model.term_frequencies.cpu().numpy()

    def term_scores(self, images: PaddedImages, wanted: NDArray[np.bool_]) -> TermScores:
        """Scores of B images for the wanted terms, [V] bool; the others score 0."""
        terms = torch.from_numpy(wanted).to(self.model.device)
        found = self.model.term_scores(ImageBatch.of(images), terms)
        return TermScores(*(part.cpu().numpy() for part in found))
