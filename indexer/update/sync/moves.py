"""Images that get other ids, and images that go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from indexer.live.changes import Add, Change, Delete
from indexer.live.given import read_given
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from indexer.update.writer import open_writer
from sparta.tokenizer import WordPieceTokenizer

AT_ONCE = 256  # images in memory


def move_and_delete(index: Path, moved: Mapping[str, str], gone: Sequence[str]) -> tuple[int, int]:
    """Give images other ids, with their terms and metadata, and delete others.

    An image appears under its new id in the commit in which it disappears under the former one.
    Images that the index lacks, such as those that were deleted from it, are passed over.

    Args:
        index: the index folder.
        moved: former id by new id.
        gone: ids to delete.

    Returns:
        how many were moved, and how many were deleted.
    """
    with open_writer(index) as writer:
        writer.commit()
        record = read_given(index)
        writer.remember({new: record[one] for new, one in moved.items() if one in record})
        deletions: list[Change] = [Delete(one, vanished=True) for one in gone if one in writer]
        there = {new: former for new, former in moved.items() if former in writer}
        for changes in _renamed(index, there):
            writer.write(changes)
        if deletions:
            writer.write(deletions)
    return len(there), len(deletions)


def _renamed(index: Path, moved: Mapping[str, str]) -> Iterator[list[Change]]:
    """Changes of some images at a time."""
    vocabulary = WordPieceTokenizer.from_folder(index).vocabulary
    pairs = list(moved.items())
    with closing(LuceneIndex(index / LUCENE)) as lucene:
        for first in range(0, len(pairs), AT_ONCE):
            found = {lucene.document(former): new for new, former in pairs[first : first + AT_ONCE]}
            documents = [document for document in found if document is not None]
            changes: list[Change] = []
            for new, image in zip(
                found.values(), lucene.images(documents, vocabulary), strict=True
            ):
                if image.image_id not in moved:  # else another image takes its place
                    changes.append(Delete(image.image_id, vanished=True))
                changes.append(Add(replace(image, image_id=new)))
            yield changes
