"""Photos as input of a model that contains a vision network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparta.addresses import folder_at
from sparta.errors import InputError
from sparta.extract.photos import Augmentation, Crop, Decoder, decode_all, find_photos
from sparta.features.record import FeatureSource, Skipped
from sparta.networks.backbone import Backbone
from sparta.networks.encoder import is_lite
from sparta.networks.pretrained import timm_processor

BATCH = 32


def vision_source(network: str) -> FeatureSource:
    """The source of a vision network's features, and how it resizes photos.

    Returns:
        the source of its features; `extra["resample"]` is Pillow's filter to stretch photos with.

    Raises:
        InputError: if it is no vision network of transformers, or its output cannot be laid on a
            grid.
    """
    if is_lite(network) or timm_processor(network) is not None:
        raise InputError(
            f"model.options.vision: {network} cannot be trained inside a dense model, only "
            "networks of transformers can: train on its features instead, with "
            f"model.options.vision=null, data.photos and data.backbone={network}"
        )
    backbone = Backbone(network, device="cpu")
    return replace(backbone.source, extra={"resample": backbone.resample})


class PhotoFolder:
    """Photos of a folder by row, resized for a vision network; decoded when requested.

    Args:
        folder: searched at any depth.
        source: of the network: `vision_source`, or a model's `feature_source`.
        ids: paths of photos relative to the folder; all there are by default.

    Attributes:
        ids: of the photos, sorted.

    Raises:
        InputError: if there is no photo.
    """

    def __init__(
        self, folder: str | Path, source: FeatureSource, ids: Iterable[str] | None = None
    ) -> None:
        self.folder = folder = folder_at(folder)
        self.source = source
        self.ids: list[str] = find_photos(folder) if ids is None else sorted(ids)
        self._rows = {image_id: row for row, image_id in enumerate(self.ids)}
        resample = source.extra["resample"]
        self._decoder = Decoder(folder, source.image_size, resample, Augmentation("plain"))

    def __len__(self) -> int:
        return len(self.ids)

    def index(self, image_id: str) -> int:
        """Row of a photo.

        Raises:
            KeyError: if there is none of that id.
        """
        return self._rows[image_id]

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        """A photo whole, [side, side, 3] uint8 RGB.

        Raises:
            InputError: naming the file, if it cannot be read.
        """
        return self.show(row)

    def show(self, row: int, crop: Crop | None = None) -> NDArray[np.uint8]:
        """Part of a photo; see `__getitem__`."""
        found = self._decoder.decode(self.ids[row], crop)
        if isinstance(found, Skipped):
            raise InputError(f"{self.folder / found.image_id}: {found.reason}")
        return found.pixels

    def unreadable(self, workers: int) -> list[Skipped]:
        """Decode every photo once, in `workers` processes; return those that cannot be, and why."""
        batches = (self.ids[at : at + BATCH] for at in range(0, len(self), BATCH))
        return [
            found
            for batch in decode_all(self._decoder, batches, workers)
            for found in batch
            if isinstance(found, Skipped)
        ]
