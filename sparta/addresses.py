"""Folders by address, such as s3://bucket/photos and what else fsspec reads; servers; image ids."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from sparta.errors import InputError, first_line
from sparta.extras import require


class UnreachableError(InputError):
    """A file on another machine could not be read; the file itself may be whole."""


def folder_at(place: str | Path) -> Path:
    """A folder by its path, or by an address such as s3://bucket/photos.

    What an address leads to has a path's methods for listing and reading, but is no `Path`: it can
    neither be mapped into memory nor given to other libraries; see `is_remote` and `download`. It
    pickles as its address. A path is returned as it is.

    Raises:
        InputError: if the address cannot be reached, or a package that reads it is not installed.
    """
    if not isinstance(place, str):
        return place
    if "://" not in place:
        return Path(place)
    paths = require("upath")
    try:
        found = paths.UPath(place)
        found.exists()
    except Exception as error:  # each file system has errors of its own
        raise InputError(f"{place} cannot be read: {first_line(error)}") from error
    path: Path = Path(found.path) if found.protocol in ("file", "local") else found
    return path


def is_remote(path: Path) -> bool:
    """Whether this is what `folder_at` made of an address, or below it."""
    return not isinstance(path, Path)


def download(path: Path) -> bytes:
    """The content of a file on another machine.

    Raises:
        FileNotFoundError: if there is none.
        UnreachableError: if the machine does not answer.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except Exception as error:  # each file system has errors of its own
        raise UnreachableError(f"{path} cannot be read: {first_line(error)}") from error


def server_address(text: str, example: str) -> str:
    """The address of a server without a slash at the end."""
    try:
        parts = urlsplit(text)
        right = parts.scheme in ("http", "https") and parts.hostname and not parts.query
    except ValueError:  # half an IPv6 address
        right = False
    if not right:
        raise InputError(f"{text!r} is not the address of a server; give one like {example}")
    return text.rstrip("/")


# ---- image ids -----------------------------------------------------------------------------------

# An id is a path of names with slashes between them, and is put into the paths of addresses and
# folders. Libraries fold `.` and `..` there, and some fold empty names: an id with such parts would
# reach another image.
LONGEST_ID = 32_766  # bytes, of a term in Lucene
VIEWS = ("/file", "/thumbnail", "/similar", "/explain")  # behind an id in an address of the server


def id_problem(image_id: str) -> str | None:
    """Why a text cannot be an image id, None if it can. Letters and names are free."""
    try:
        size = len(image_id.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    if not 0 < size <= LONGEST_ID:
        return f"has {size} bytes, not 1 to {LONGEST_ID}"
    if "\0" in image_id:  # Java would read it as the end
        return "has a NUL"
    if image_id.endswith(VIEWS):
        return f"ends in /{image_id.rpartition('/')[2]}, as addresses do: give another name"
    for name in image_id.split("/"):
        if name in ("", ".", ".."):
            part = f"the part {name!r}" if name else "an empty part"
            return f"has {part} between slashes: give a path without these"
    return None


def check_id(image_id: str) -> None:
    """Refuse a text that cannot be an image id: InputError."""
    if problem := id_problem(image_id):
        raise InputError(f"the image id {image_id[:50]!r} {problem}")
