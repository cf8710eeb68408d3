"""Deletes images from an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from sparta.errors import InputError

AT_ONCE = 4096  # images in a record of the log


def delete_images(index: Path, ids: Sequence[str]) -> int:
    """Delete images, or none if the index lacks one. An interruption leaves some deleted.

    Returns:
        how many images are left.

    Raises:
        InputError: if the folder is not an index, lacks one of the images, or another process is
            writing it.
    """
    with open_writer(index) as writer:
        absent = [image_id for image_id in ids if image_id not in writer]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise InputError(
                f"{index} has no image {absent[0]!r}{more}: give ids as sparta search shows them; "
                "nothing was deleted"
            )
        for start in range(0, len(ids), AT_ONCE):
            writer.write([Delete(image_id) for image_id in ids[start : start + AT_ONCE]])
        writer.commit()
        return len(writer)
