"""Changes metadata of images that are in an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from indexer.metadata import Metadata
from indexer.store.changes import MetadataChange
from indexer.store.given import with_given
from indexer.update.writer import Writer, open_writer
from sparta.disk import full_disk_reported
from sparta.progress import Progress, no_progress

AT_ONCE = 512  # changes in a record of the log


@dataclass(frozen=True)
class UpdateReport:
    """What a change of metadata did.

    Attributes:
        changed: images with other metadata than before.
        unchanged: images that had these values already.
        unknown: ids that the index does not have.
    """

    changed: int
    unchanged: int
    unknown: list[str]


def update_metadata(
    index: Path, metadata: Metadata, progress: Progress = no_progress
) -> UpdateReport:
    """Change fields of images; their terms, and fields that are not given, stay.

    What was written before an interruption stays, and is unchanged the next time.

    Args:
        index: the index folder.
        metadata: fields by image id; None removes a field.
        progress: stage "update", in images.

    Raises:
        InputError: if the folder is not an index, a value cannot be written, another process is
            writing the index, or the disk is full.
    """
    with full_disk_reported(index), open_writer(index) as writer:
        unknown = [image_id for image_id in metadata if image_id not in writer]
        changes = _changes(writer, metadata, progress)
        changed = 0
        while part := list(islice(changes, AT_ONCE)):
            writer.write(part)
            changed += len(part)
    return UpdateReport(changed, len(metadata) - len(unknown) - changed, unknown)


def _changes(writer: Writer, metadata: Metadata, progress: Progress) -> Iterator[MetadataChange]:
    """What has to be written, image by image."""
    for done, (image_id, fields) in enumerate(metadata.items()):
        progress("update", done, len(metadata))
        if image_id in writer:
            before = writer.metadata(image_id)
            after = with_given(before, fields)
            if after != before:
                yield MetadataChange(image_id, after, dict(fields))
    progress("update", len(metadata), len(metadata))
