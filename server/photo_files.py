"""Finding the file of an image id, without ever leaving the photos folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from indexer.metadata import UPLOAD
from server.problems import ProblemError
from server.writing.uploads import upload_path
from sparta.features.extract.image_files import FORMATS, open_photo


def find_photo(folder: Path | None, image_id: str) -> Path:
    """The photo file of an indexed image.

    An index may come from another machine, so even its image ids are not trusted to stay inside
    the photos folder.

    Raises:
        ProblemError: if the file is missing, is not a regular file, or is outside the folder.
    """
    missing = f"image {image_id!r} is in the index, but its file is missing from the photos folder"
    if folder is None:
        missing = "this server has no photos folder; start it with --photos DIR"
        raise ProblemError("photo-missing", missing, "image_id")
    try:
        path = (folder / image_id).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        # Python 3.11 raises RuntimeError for a loop of links, and ValueError for a NUL in a name.
        if os.path.islink(folder / image_id):  # noqa: PTH114, which fails for some names
            missing = f"image {image_id!r} is a link to a file that is not there"
        raise ProblemError("photo-missing", missing, "image_id") from error
    if not path.is_relative_to(folder.resolve()):
        detail = (
            f"image {image_id!r} leads out of the photos folder, as a link does whose file is "
            "elsewhere; only files inside are served: index the folder that holds them, or copy "
            "them"
        )
        raise ProblemError("photo-forbidden", detail, "image_id")
    if not path.is_file():
        raise ProblemError("photo-missing", missing, "image_id")
    return path


def find_upload(index: Path | None, metadata: Mapping[str, object]) -> Path | None:
    """The file of a photo that was sent to the server, None if it was not.

    Args:
        index: the index folder, None without one.
        metadata: of the image.
    """
    path = upload_path(index, metadata.get(UPLOAD)) if index else None
    return path if path and path.is_file() else None


def media_type(path: Path) -> str:
    """Media type of a file by its content, not its name.

    Only images get a type that a browser displays: an HTML page or a scripted SVG in place of a
    photo is sent as plain bytes.

    Raises:
        OSError: if the file cannot be read.
        PhotoError: if it is no regular file any more.
    """
    with open_photo(path) as file:
        try:
            with Image.open(file, formats=FORMATS) as image:
                found = str(image.format)
        except Exception:  # anything may come out of a damaged file
            return "application/octet-stream"
    # MPO, which cameras write, is a JPEG with further images appended; browsers know only JPEG.
    return "image/jpeg" if found == "MPO" else Image.MIME.get(found, "application/octet-stream")
