"""Finding the file of an image id, without ever leaving the photos folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from indexer.manifest import UPLOAD
from server.problems import ProblemError
from server.writing.uploads import upload_path
from sparta.features.extract.image_files import PhotoError, open_known, open_photo


def find_photo(
    folder: Path | None, index: Path | None, image_id: str, metadata: Mapping[str, object]
) -> tuple[Path, str]:
    """The file of an indexed image and its media type.

    Args:
        folder: with the photos, None without one.
        index: folder of the index, which has photos that were sent; None without one.
        image_id: of the image.
        metadata: of the image.

    Raises:
        ProblemError: if the file is missing, is not a regular file or no photo, or is outside the
            folder.
    """
    if UPLOAD not in metadata:
        path = _in_folder(folder, image_id)
    else:
        upload = upload_path(index, metadata[UPLOAD]) if index else None
        if upload is None or not upload.is_file():
            sent = "its photo is missing" if metadata[UPLOAD] else "without a photo"
            detail = f"image {image_id!r} was sent to a server, {sent}"
            raise ProblemError("photo-missing", detail, "image_id")
        path = upload
    try:
        kind = _media_type(path)
    except (OSError, PhotoError) as error:
        detail = f"the file of image {image_id!r} cannot be read"
        raise ProblemError("photo-missing", detail, "image_id") from error
    if kind is None:
        detail = f"the file of image {image_id!r} is not a photo"
        raise ProblemError("photo-unreadable", detail, "image_id")
    return path, kind


def _in_folder(folder: Path | None, image_id: str) -> Path:
    """The file in the photos folder that an id names.

    An index may come from another machine, so even its image ids are not trusted to stay inside
    the photos folder.
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


def _media_type(path: Path) -> str | None:
    """Media type of a photo by its content, not its name; None for anything else.

    Whoever may write can name any file of the photos folder as an image. Pages and scripted SVG
    are no photos either, whatever their names.

    Raises:
        OSError: if the file cannot be read.
        PhotoError: if it is no regular file any more.
    """
    with open_photo(path) as file:
        try:
            with open_known(file) as image:
                found = str(image.format)
        except Exception:  # anything may come out of a damaged file
            return None
    # MPO, which cameras write, is a JPEG with further images appended; browsers know only JPEG.
    return "image/jpeg" if found == "MPO" else Image.MIME.get(found)
