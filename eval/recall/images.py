"""Images of a feature store or photos of a folder, in the order of a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.vse.photo_folder import PhotoFolder


@dataclass(frozen=True)
class Images:
    """Some images of a store, in a given order.

    Attributes:
        store: their features, or the photos themselves.
        rows: of the store.
    """

    store: FeatureStore | PhotoFolder
    rows: Sequence[int]

    @classmethod
    def of(cls, store: FeatureStore | PhotoFolder, image_ids: Sequence[str]) -> Images:
        """Find images by id.

        Raises:
            InputError: if the store lacks some of them.
        """
        known = {image_id: row for row, image_id in enumerate(store.ids)}
        missing = [image_id for image_id in image_ids if image_id not in known]
        if missing:
            raise InputError(
                f"{store.folder} lacks {len(missing)} of the {len(image_ids)} captioned photos, "
                f"{missing[0]!r} for one: extract them, or choose the --split of the store"
            )
        return cls(store, [known[image_id] for image_id in image_ids])

    def __len__(self) -> int:
        return len(self.rows)

    def batches(
        self, size: int, progress: Progress = no_progress
    ) -> Iterator[tuple[slice, list[Any]]]:
        """The images, a batch at a time, and their places among all of them.

        Each is an `ImageFeatures`, or of photos [side, side, 3] uint8. Progress is reported of the
        stage "images".
        """
        for start in range(0, len(self), size):
            place = slice(start, min(start + size, len(self)))
            yield place, [self.store[row] for row in self.rows[place]]
            progress("images", place.stop, len(self))
