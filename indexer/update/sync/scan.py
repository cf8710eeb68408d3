"""The photos of a folder as they are now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparta.features.extract.image_files import PhotoError, reason_of
from sparta.features.extract.photos import Stamp, not_utf8, read_stamp, walk_photos


@dataclass(frozen=True)
class Scan:
    """Photos below a folder.

    Attributes:
        photos: stamp of each that can be read, by id.
        closed: folders that cannot be read, as beginnings of ids; what is in them is unknown.
        problems: why paths cannot be read, those of closed folders too.
    """

    photos: dict[str, Stamp]
    closed: list[str]
    problems: dict[str, str]

    @property
    def found(self) -> int:
        """Photos that are there, whether they can be read or not."""
        return len(self.photos) + len(self.problems) - len(self.closed)

    def hides(self, image_id: str) -> bool:
        """Whether a photo that is not among `photos` may still be there."""
        return image_id in self.problems or any(image_id.startswith(one) for one in self.closed)


def scan_photos(root: Path, below: str = "") -> Scan:
    """Find everything that is named like a photo, as `walk_photos` does.

    Args:
        root: the folder that ids are relative to.
        below: the beginning of the ids wanted: "" or a folder in it with a slash at the end.
    """
    photos: dict[str, Stamp] = {}
    closed: list[str] = []
    problems: dict[str, str] = {}
    for path, error in walk_photos(root / below):
        image_id = below + path
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            continue  # a folder that has gone meanwhile
        if error:
            folder = image_id.rstrip("/")
            closed.append(f"{folder}/" if folder else "")
            unnamed = not_utf8(folder)
            problems[unnamed.image_id if unnamed else folder or "."] = reason_of(error)
        elif unnamed := not_utf8(image_id):
            problems[unnamed.image_id] = unnamed.reason
        else:
            try:
                photos[image_id] = read_stamp(root / image_id)
            except (OSError, PhotoError) as reason:
                problems[image_id] = reason_of(reason)
    return Scan(dict(sorted(photos.items())), closed, dict(sorted(problems.items())))
