"""What an index has when a soak is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from tests.torture.soak.written import Impacts


def read_left(
    index: Path, ids: Iterable[str], vocabulary: Sequence[str]
) -> Iterator[tuple[str, Impacts | None]]:
    """Each image with its impacts, None if the index has no such image.

    Args:
        index: the index folder.
        ids: of the images.
        vocabulary: [V] terms in id order.
    """
    with closing(LuceneIndex(index / LUCENE)) as lucene:
        for image_id in ids:
            document = lucene.document(image_id)
            if document is None:
                yield image_id, None
                continue
            [image] = lucene.images([document], vocabulary)
            yield image_id, dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))
