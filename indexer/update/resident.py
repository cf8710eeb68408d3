"""Encodes single images for an index, with networks that stay loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from indexer.encoding.load import load_scorers
from indexer.encoding.stores import feature_source
from indexer.encoding.term_scores import ImageEncoder
from indexer.impacts import ImpactParameters, encode_batch
from indexer.manifest import Manifest
from indexer.postings import ImagePostings
from indexer.settings import TermSet
from indexer.store.origin import origin_of
from indexer.update.dense import DenseFollower, WrittenImages
from indexer.update.parameters import parameters_of
from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.augmented_stores import augmentation_names
from sparta.features.extract.extractor import Extractor, load_extractor_of
from sparta.features.extract.photo_metadata import photo_metadata
from sparta.features.extract.photos import Photo
from sparta.features.record import FeatureSource, ImageFeatures


@dataclass(frozen=True)
class _Sample:
    """The first image, against whose features the models are checked."""

    folder: Path
    source: FeatureSource
    image: ImageFeatures

    def __getitem__(self, _: int, /) -> ImageFeatures:
        return self.image


class ResidentEncoder:
    """Photos or features → postings of an index; networks are loaded when needed.

    Vectors that dense models of the index have of them are stored at once, so that they are there
    when the image is. Not safe for several threads at once; the caller is the index's one writer.

    Args:
        index: folder of the index.
        models: folders or hub names of the models that it was built with.
        device: "auto" takes a GPU if there is one.

    Raises:
        InputError: if the folder is not an index.
    """

    def __init__(self, index: Path, models: Sequence[str | Path], device: str = "auto") -> None:
        self._index, self._models, self._device = index, models, device
        self._manifest = Manifest.open(index)
        self._follower = DenseFollower(index, device)
        self._encoding: tuple[ImageEncoder, ImpactParameters] | None = None

    def photo(self, image_id: str, path: Path) -> ImagePostings:
        """The postings of a photo as `sparta add` would write them, with what its file says.

        Raises:
            InputError: if the photo cannot be used, or the index was built from something else.
        """
        copies = [
            self._regions(image_id, path, Augmentation(name))
            for name in augmentation_names(len(self._manifest.features))
        ]
        image = self._encode(copies, path)
        return replace(image, metadata={**image.metadata, **photo_metadata(path)})

    def features(self, image: ImageFeatures) -> ImagePostings:
        """The postings of an image whose features were extracted elsewhere.

        Raises:
            InputError: if the models take other features.
        """
        source = self._source
        grid = source.extra.get("grid")
        regions = grid * grid + 1 if grid else None
        if image.features.shape[1] != source.dimension or len(image.features) != (
            regions or len(image.features)
        ):
            wanted = f"[{regions or 'regions'}, {source.dimension}]"
            raise InputError(f"the features are {list(image.features.shape)}, not {wanted}")
        return self._encode([image])

    def _regions(self, image_id: str, path: Path, augmentation: Augmentation) -> ImageFeatures:
        decoder = self._extractor.decoder(path.parent, augmentation)
        photo = decoder.decode(path.name, augmentation.of(image_id))
        if not isinstance(photo, Photo):
            raise InputError(f"the photo cannot be used: {photo.reason}")
        [found] = self._extractor([replace(photo, image_id=image_id)])
        if not np.isfinite(found.features).all():
            raise InputError("the photo cannot be used: the network's output exceeds float16")
        return found

    def _encode(self, copies: Sequence[ImageFeatures], path: Path | None = None) -> ImagePostings:
        encoder, parameters = self._opened(copies[0], len(copies))
        [image], _ = encode_batch(encoder.encode([[one] for one in copies]), parameters)
        plain, origin = copies[0], origin_of(copies[0])
        sample = _Sample(Path(plain.image_id), self._source, plain)
        photos, names = (path.parent, [path.name]) if path else (None, [])
        self._follower.add(WrittenImages([plain], [origin], sample, photos, names))
        return replace(image, origin=origin)

    def _opened(self, image: ImageFeatures, copies: int) -> tuple[ImageEncoder, ImpactParameters]:
        """The models, loaded with the first image."""
        if self._encoding is None:
            terms: TermSet = "trained" if self._manifest.terms == "trained" else "all"
            sample = _Sample(Path(image.image_id), self._source, image)
            scorers, tokenizer = load_scorers(self._models, sample, self._device, terms)
            encoder = ImageEncoder(scorers, tokenizer, [], 1, terms)
            found = parameters_of(self._index, self._manifest, encoder, copies)
            self._encoding = encoder, found
        return self._encoding

    @cached_property
    def _source(self) -> FeatureSource:
        return feature_source(self._models, "visual_sparta")

    @cached_property
    def _extractor(self) -> Extractor:
        return load_extractor_of(self._source, self._device)
