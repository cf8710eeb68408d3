"""From an image id to the one file it may name."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from server.problems import ProblemError


def find_photo(folder: Path | None, image_id: str) -> Path:
    """The file of an image that is in the index.

    An index is a folder that may have come from elsewhere, so that even its ids are not trusted
    to stay inside the photos folder.

    Raises:
        ProblemError: if the file is not there, is no file, or lies outside of the folder.
    """
    missing = f"image {image_id!r} is in the index, but its file is gone from the photos folder"
    if folder is None:
        missing = "this server knows no photos folder; start it with --photos DIR"
        raise ProblemError("photo-missing", missing, "image_id")
    try:
        path = (folder / image_id).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        # RuntimeError is Python 3.11's word for a loop of links, ValueError for a NUL in a name.
        raise ProblemError("photo-missing", missing, "image_id") from error
    if not path.is_relative_to(folder.resolve()):
        detail = f"image {image_id!r} leads out of the photos folder and is not served"
        raise ProblemError("photo-forbidden", detail, "image_id")
    if not path.is_file():
        raise ProblemError("photo-missing", missing, "image_id")
    return path


def media_type(path: Path) -> str:
    """Media type by what the file holds, whatever its name says.

    Only images get a type that a browser shows: a page or a drawing with scripts put where
    a photo was is sent as plain bytes.

    Raises:
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            with Image.open(file) as image:
                found = str(image.format)
        except (Image.UnidentifiedImageError, Image.DecompressionBombError):
            return "application/octet-stream"
    # A camera's MPO is a JPEG with further pictures behind it, and a browser knows only JPEG.
    return "image/jpeg" if found == "MPO" else Image.MIME.get(found, "application/octet-stream")
