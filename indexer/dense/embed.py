"""Images → vectors of a dense model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.vse.batch import collate_images
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder


def embed(model: VseModel, images: Sequence[Any], ids: Sequence[str]) -> NDArray[np.float32]:
    """Vectors [B, K, D] of a batch of images.

    Args:
        model: on the device that is to compute.
        images: features, or pixels for a model with a vision network.
        ids: of the images, for messages.

    Raises:
        InputError: if a vector is not finite.
    """
    batch = collate_images(images, model.config.max_regions).to(model.device)
    with torch.inference_mode():
        vectors: NDArray[np.float32] = model.encode_images(batch).cpu().numpy()
    if not np.isfinite(vectors).all():
        raise InputError(
            f"the model's vectors of {ids[0]} to {ids[-1]} are not finite: its weights are "
            "damaged, or its training diverged"
        )
    return vectors


def pixels(model: VseModel, photos: Path, ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Photos as a model with a vision network takes them.

    Raises:
        InputError: if one cannot be read.
    """
    found = PhotoFolder(photos, FeatureSource(**model.config.feature_source), ids)
    return [found[found.index(image_id)] for image_id in ids]


def embed_store(
    model: VseModel,
    store: FeatureStore,
    rows: Sequence[int],
    batch_size: int,
    device: torch.device,
) -> Iterator[NDArray[np.float32]]:
    """Vectors [B, K, D] of some of a store's images, in order.

    Raises:
        InputError: if a photo cannot be read, or a vector is not finite.
    """
    model.to(device)  # type: ignore[arg-type]
    for start in range(0, len(rows), batch_size):
        own = rows[start : start + batch_size]
        ids = [store.ids[row] for row in own]
        if model.vision is not None and store.photos is not None:
            yield embed(model, pixels(model, store.photos, ids), ids)
        else:
            yield embed(model, [store[row] for row in own], ids)
    model.to("cpu")  # type: ignore[arg-type]
