"""Several dense models as one: the mean of their scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparta.errors import InputError
from sparta.vse.batch import PixelBatch, RegionBatch
from sparta.vse.model import VseModel, score


class Ensemble:
    """The mean of several models' score matrices (GPO section 5.1.1, ADPOOL section 4.3).

    Each model keeps its own features of the same images, such as regions and grid cells, and its
    own space, so that embeddings come as one tensor per model.

    Args:
        models: at least one.

    Raises:
        InputError: if there is none.
    """

    def __init__(self, models: Sequence[VseModel]) -> None:
        if not models:
            raise InputError("an ensemble needs at least one model")
        self.models = list(models)

    def embed_texts(self, texts: Sequence[str], batch_size: int = 128) -> list[Tensor]:
        """Q texts as typed → [Q, D] of each model, on the CPU."""
        return [model.embed_texts(texts, batch_size) for model in self.models]

    def encode_images(self, images: Sequence[RegionBatch | PixelBatch]) -> list[Tensor]:
        """B images as each model's own features → [B, K, D] of each model.

        Raises:
            InputError: if there are not as many batches as models, or they hold different counts
                of images.
        """
        self._check("batches of features", images)
        return [
            model.encode_images(batch) for model, batch in zip(self.models, images, strict=True)
        ]

    def score(self, texts: Sequence[Tensor], images: Sequence[Tensor]) -> Tensor:
        """Embeddings of each model, Q texts [Q, D] and N images [N, K, D] → [Q, N].

        Raises:
            InputError: as `encode_images`.
        """
        self._check("text embeddings", texts)
        self._check("image embeddings", images)
        scores = [score(*pair) for pair in zip(texts, images, strict=True)]
        return torch.stack(scores).mean(dim=0)

    def _check(
        self, what: str, parts: Sequence[RegionBatch | PixelBatch] | Sequence[Tensor]
    ) -> None:
        if len(parts) != len(self.models):
            raise InputError(f"{len(parts)} {what} for an ensemble of {len(self.models)} models")
        sizes = [len(part if isinstance(part, Tensor) else part[0]) for part in parts]
        if len(set(sizes)) > 1:
            raise InputError(f"{what} are of different counts: {sizes}; every model needs them all")
