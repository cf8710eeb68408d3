"""Gives images that are written to an index vectors in its dense parts, where their models can."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from indexer.dense.manifest import MODEL, DenseManifest, dense_folder, dense_names
from indexer.dense.vectors import AddedRows, read_origins
from indexer.encoding.features import check_features
from indexer.manifest import Manifest
from sparta.errors import InputError
from sparta.extras import require
from sparta.features.record import FeatureSource, ImageFeatures

if TYPE_CHECKING:
    from sparta.vse.model import VseModel

BATCH = 32  # images per pass of a model

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WrittenImages:
    """Images that are about to be written, to the index that has their origins.

    Attributes:
        features: of each.
        origins: of each.
        source: of the features.
        where: the features are, for messages.
        photos: the folder that `names` are relative to, None if there are no photos.
        names: of the photos.
    """

    features: Sequence[ImageFeatures]
    origins: Sequence[str]
    source: FeatureSource
    where: Path
    photos: Path | None
    names: Sequence[str]


class DenseFollower:
    """Embeds images with the models of an index's dense parts, which are loaded when needed.

    A part whose model cannot embed them does not get them, and a warning says why: once, however
    many images it lacks. The caller is the index's one writer, and has made it live.

    Args:
        index: the index folder.
        device: "auto" takes a GPU if there is one.
    """

    def __init__(self, index: Path, device: str = "auto") -> None:
        self._index, self._device = index, device
        self._parts: dict[str, _Part | None] = {}
        self._warned: set[str] = set()

    def add(self, images: WrittenImages) -> None:
        """Store vectors of some images, before these are written.

        Raises:
            OSError: if the disk fails.
        """
        for name in dense_names(self._index):
            try:
                if name not in self._parts:
                    self._parts[name] = None  # if it cannot be opened
                    self._parts[name] = _Part(self._index, name, self._device)
                part = self._parts[name]
                if part is not None:
                    part.add(images)
            except InputError as error:
                self._warn(f"{self._index}: images have no vectors of {name}: {error}")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)


class _Part:
    """A dense part, and its model on a device."""

    def __init__(self, index: Path, name: str, device: str) -> None:
        require("torch")
        from indexer.dense.text_encoder import load_part_model
        from sparta.networks.backbone import pick_device

        self._folder = dense_folder(index, name)
        made = DenseManifest.open(index, name, Manifest.open(index))
        self._rows = AddedRows(self._folder, made.views, made.dimension)
        self._known = {*read_origins(self._folder).to_pylist(), *self._rows.origins()}
        self._model: VseModel = load_part_model(self._folder / MODEL, made.model)
        self._model.to(pick_device(device))  # type: ignore[arg-type]

    def add(self, images: WrittenImages) -> None:
        """Append vectors of the images that it has none of."""
        from indexer.dense.build import embed, pixels

        wanted = {o: place for place, o in enumerate(images.origins) if o not in self._known}
        if not wanted:
            return
        model = self._model
        if model.vision is None:
            check_features(self._folder / MODEL, model.config, images.source, images.where)
        elif images.photos is None:
            raise InputError("its model takes photos")
        found = []
        for first in range(0, len(wanted), BATCH):
            places = list(wanted.values())[first : first + BATCH]
            features = [images.features[place] for place in places]
            inputs: Sequence[Any] = features
            if model.vision is not None and images.photos is not None:
                inputs = pixels(model, images.photos, [images.names[place] for place in places])
            found.append(embed(model, inputs, [image.image_id for image in features]))
        self._rows.append(list(wanted), np.concatenate(found))
        self._known |= wanted.keys()
