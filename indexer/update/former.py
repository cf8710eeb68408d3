"""What the user gave to images of an index, matched with what their photos show now."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexer.manifest import index_folders, owner
from indexer.postings import ImagePostings
from indexer.store.given import Given, read_given, size_of
from indexer.store.snapshot import Snapshot

# Cosine of two images' impacts from which they show the same. A photo without its metadata has 1,
# the middle of crops, brighter and smaller copies 0.8 to 0.9; 99.9 % of pairs of photos are below
# 0.5, and the most alike of 20,000 pairs has 0.68.
ALIKE = 0.75


class FormerImages:
    """The images of an index and what the user gave to them.

    Args:
        index: the index folder, divided or not.
        comparable: whether new images are encoded by the same models. If not, contents of
            different size are the same if the photos have the same width and height.

    Attributes:
        record: what the user gave.
        aside: images whose photos show something else than what fields were given to.

    Raises:
        InputError: if the index is damaged.
    """

    def __init__(self, index: Path, comparable: bool = True) -> None:
        self.record = read_given(index)
        self.aside: set[str] = set()
        self._folders, self._comparable = index_folders(index), comparable
        self._opened: dict[Path, Snapshot] = {}

    def given_to(self, image: ImagePostings) -> Given | None:
        """What the user gave to the content that an image has now, None for nothing.

        Args:
            image: with the metadata of its file.
        """
        given = self.record.get(image.image_id, [])
        for one in reversed(given):
            if one.fits(size_of(image.metadata)):
                return one
        former = self.image(image.image_id) if given else None
        if former is not None and self._same(former, image):
            for one in reversed(given):
                if one.fits(size_of(former.metadata)):
                    return one
        if any(one.fields for one in given):
            self.aside.add(image.image_id)
        return None

    def has(self, image_id: str) -> bool:
        """Whether the index has an image."""
        return self._index_of(image_id).document(image_id) is not None

    def image(self, image_id: str) -> ImagePostings | None:
        """An image of the index, None if there is none of that id."""
        index = self._index_of(image_id)
        document = index.document(image_id)
        return None if document is None else next(index.images([document]))

    def _index_of(self, image_id: str) -> Snapshot:
        folder = self._folders[owner(image_id, len(self._folders))]
        if folder not in self._opened:
            self._opened[folder] = Snapshot.open(folder)
        return self._opened[folder]

    def _same(self, one: ImagePostings, other: ImagePostings) -> bool:
        if not self._comparable:
            sides = ("width", "height")
            return all(one.metadata.get(name) == other.metadata.get(name) for name in sides)
        return similarity(one, other) >= ALIKE


def similarity(one: ImagePostings, other: ImagePostings) -> float:
    """Cosine of the impacts of two images, 0 if one has none."""
    shared = np.intersect1d(one.terms, other.terms, assume_unique=True, return_indices=True)
    product = one.impacts[shared[1]].astype(np.float64) @ other.impacts[shared[2]]
    norms = np.linalg.norm(one.impacts) * np.linalg.norm(other.impacts)
    return float(product / norms) if norms else 0.0
