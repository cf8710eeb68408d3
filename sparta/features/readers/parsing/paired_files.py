"""Images with features in one file and labels in another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from sparta.errors import InputError


class Keyed(Protocol):
    """A file with one entry for each image.

    Attributes:
        path: the file.
        keys: of the images, entry by entry; duplicates included.
        first: the first entry of each key.
    """

    path: Path
    keys: Sequence[str]
    first: dict[str, int]

    def where(self, entry: int) -> str:
        """Name an entry, for messages."""
        ...

    def check_key(self, entry: int) -> None:
        """Raise InputError if the entry's key cannot be used, or is a duplicate."""
        ...


_Row = tuple[str, int, int | None, int | None]  # id, part, entries of features and of labels


class FeatureLabelPair(NamedTuple):
    """The entries of an image.

    Attributes:
        image_id: its id.
        part: number of the pair of files.
        features: entry of the features.
        labels: entry of the labels; None where the part has no labels.
    """

    image_id: str
    part: int
    features: int
    labels: int | None


class Pairs:
    """Images of one or more pairs of files, by row in order of their ids.

    An image that is in only one of the files, and a duplicate, is a row too; reading it raises.

    Args:
        features: a file for each part.
        labels: a file for each part; None where a part has none.
        image_suffix: appended to each key to make the image id.

    Attributes:
        ids: of the images, in order.
    """

    def __init__(
        self, features: Sequence[Keyed], labels: Sequence[Keyed | None], image_suffix: str
    ) -> None:
        self._files = list(zip(features, labels, strict=True))
        rows: list[_Row] = [
            (key + image_suffix, part, entry, file.first.get(key) if file else None)
            for part, (own, file) in enumerate(self._files)
            for entry, key in enumerate(own.keys)
        ]
        alone: list[_Row] = [
            (key + image_suffix, part, None, entry)
            for part, (own, file) in enumerate(self._files)
            if file is not None
            for entry, key in enumerate(file.keys)
            if key not in own.first or file.first[key] != entry
        ]
        # Those without features come behind those of the same id that have them.
        self._rows = sorted(rows + alone, key=lambda row: (row[0], row[2] is None))
        self.ids: Sequence[str] = [row[0] for row in self._rows]

    def __getitem__(self, row: int) -> FeatureLabelPair:
        """The entries of a row.

        Raises:
            InputError: if the key cannot be used, is a duplicate, or is not in both files.
        """
        image_id, part, entry, label_entry = self._rows[row]
        features, labels = self._files[part]
        if entry is None:
            assert labels is not None and label_entry is not None
            labels.check_key(label_entry)
            raise _missing(labels, label_entry, features)
        features.check_key(entry)
        if row and self.ids[row - 1] == image_id:
            _, before, first, _ = self._rows[row - 1]
            assert first is not None  # those without features come behind
            raise InputError(
                f"{features.where(entry)}: image {features.keys[entry]!r} was already in "
                f"{self._files[before][0].where(first)}"
            )
        if labels is not None and label_entry is None:
            raise _missing(features, entry, labels)
        return FeatureLabelPair(image_id, part, entry, label_entry)


def _missing(file: Keyed, entry: int, other: Keyed) -> InputError:
    return InputError(f"{file.where(entry)}: image {file.keys[entry]!r} is not in {other.path}")
