"""Encodes images as those of an index, one at a time, with networks that stay loaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import TYPE_CHECKING

from indexer.postings import ImagePostings
from server.writing.uploads import check_photo
from sparta.features.record import ImageFeatures
from sparta.tokenizer import WordPieceTokenizer

if TYPE_CHECKING:
    from indexer.update.images import ResidentEncoder


class PhotoEncoder:
    """As `ResidentEncoder`, safe from any thread; the index itself is not opened.

    Args:
        folder: of the index.
        models: folders or hub names of the models that it was built with.
    """

    def __init__(self, folder: Path, models: Sequence[str]) -> None:
        self._folder, self._models = folder, models
        self._encoding = Lock()

    def photo(self, image_id: str, path: Path) -> ImagePostings:
        """The postings of a photo; see `ResidentEncoder.photo`."""
        with self._encoding:
            return self._encoder.photo(image_id, path)

    def features(self, image: ImageFeatures) -> ImagePostings:
        """The postings of an image with features; see `ResidentEncoder.features`."""
        with self._encoding:
            return self._encoder.features(image)

    def impacts(self, photo: bytes) -> dict[str, int]:
        """The terms of a photo with their impacts; it is not kept.

        Args:
            photo: the content of the file.

        Raises:
            InputError: if it cannot be used, or the index was built from something else.
        """
        check_photo(photo)
        with NamedTemporaryFile(prefix="visualsparta-photo-") as file:
            file.write(photo)
            file.flush()
            image = self.photo("photo", Path(file.name))
        terms = (self._vocabulary[number] for number in image.terms)
        return dict(zip(terms, image.impacts.tolist(), strict=True))

    @cached_property
    def _vocabulary(self) -> Sequence[str]:
        return WordPieceTokenizer.from_folder(self._folder).vocabulary

    @cached_property
    def _encoder(self) -> ResidentEncoder:
        # What it imports, a server that is sent term weights need not have installed.
        from indexer.update.images import ResidentEncoder

        return ResidentEncoder(self._folder, self._models)
