"""What an image id may be, wherever it enters: in files, indexes, requests and clients.

An id is a path of names with slashes between them, and is put into the paths of addresses and
folders. Libraries fold `.` and `..` there, and some fold empty names: an id with such parts would
reach another image.
"""

from __future__ import annotations

from sparta.errors import InputError

LONGEST = 32_766  # bytes, of a term in Lucene


def id_problem(image_id: str) -> str | None:
    """Why a text cannot be an image id, None if it can. Letters and names are free."""
    try:
        size = len(image_id.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    if not 0 < size <= LONGEST:
        return f"has {size} bytes, not 1 to {LONGEST}"
    if "\0" in image_id:  # Java would read it as the end
        return "has a NUL"
    for name in image_id.split("/"):
        if name in ("", ".", ".."):
            part = f"the part {name!r}" if name else "an empty part"
            return f"has {part} between slashes: give a path without these"
    return None


def check_id(image_id: str) -> None:
    """Refuse a text that cannot be an image id.

    Raises:
        InputError: naming it and the reason.
    """
    if problem := id_problem(image_id):
        raise InputError(f"the image id {image_id[:50]!r} {problem}")
