"""Images in the batches that a dense model encodes, whichever kind it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.batch import PixelBatch, RegionBatch, collate_images
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder


def image_batches(
    model: VseModel,
    images: FeatureStore | PhotoFolder,
    rows: Sequence[int],
    batch_size: int = 32,
) -> Iterator[RegionBatch | PixelBatch]:
    """What `model.encode_images` takes, a batch at a time, on the model's device.

    Args:
        model: with a vision network for photos, without for features.
        images: where they are.
        rows: which of them, in the order wanted.
        batch_size: images per batch.

    Raises:
        InputError: if the model takes the other kind of images, or a photo cannot be read.
    """
    if isinstance(images, PhotoFolder) != (model.vision is not None):
        wants, given = ("photos", "features") if model.vision else ("features", "photos")
        raise InputError(f"{images.folder} holds {given}, the model takes {wants}")
    for start in range(0, len(rows), batch_size):
        chosen = [images[row] for row in rows[start : start + batch_size]]
        yield collate_images(chosen, model.config.max_regions).to(model.device)  # type: ignore[arg-type]
