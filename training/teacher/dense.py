"""Dense VSE models as teachers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_images
from sparta.vse.model import VseModel
from training.teacher.stores import batches_of, matching_stores

TEXTS = 1024  # sentences at once


class DenseTeacher:
    """A dense VSE model that reads features.

    Args:
        name: folder or hub name.
        stores: to choose from; vectors are averaged over those the model can read.
        device: to compute on.

    Raises:
        InputError: if it is no whole model, has a vision network inside, or reads other features.
    """

    def __init__(self, name: str, stores: Sequence[FeatureStore], device: torch.device) -> None:
        self.model = VseModel.from_pretrained(name)
        if self.model.vision is not None or self.model.tokenizer is None:
            raise InputError(
                f"--teacher {name} has a vision network inside or no tokenizer: give a model "
                "that reads features"
            )
        self.model.to(device)  # type: ignore[arg-type]
        self.stores = matching_stores(name, self.model.config, stores)

    @property
    def shape(self) -> tuple[int, int]:
        """K and D: vectors of a photo, and their numbers."""
        return self.model.config.views, self.model.config.dimension

    @torch.inference_mode()
    def photos(self, ids: Sequence[str], start: int) -> Iterator[NDArray[np.float16]]:
        """Vectors [n, K, D] of photos from a given one on, some at a time."""
        limit = self.model.config.max_regions
        for copies in zip(*(batches_of(store, ids, start) for store in self.stores), strict=True):
            found = [
                self.model.encode_images(collate_images(images, limit).to(self.model.device))
                for images in copies
            ]
            yield torch.stack(found).mean(dim=0).cpu().numpy().astype(np.float16)

    def sentences(self, texts: Sequence[str]) -> Iterator[NDArray[np.float16]]:
        """Vectors [n, D] of sentences, some at a time."""
        for start in range(0, len(texts), TEXTS):
            yield self.model.embed_texts(texts[start : start + TEXTS]).numpy().astype(np.float16)
