"""Indexes of pruned images: built, searched and measured; kept in a folder or removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from eval.pruning.pruned_index import IndexBytes, PrunedIndex
from eval.recall.index_recall import measure_index_recall
from indexer.search.lucene import LuceneSearcher
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.metrics import Recall
from sparta.progress import Progress


@dataclass(frozen=True)
class Indexes:
    """What to do with the index of a choice.

    Attributes:
        folder: to keep it in, under the name of the choice; None removes it.
        photos: whose captions to search it for, None for no search.
    """

    folder: Path | None
    photos: Sequence[CaptionedPhoto] | None

    def measure(
        self, pruned: PrunedIndex, bits: int, progress: Progress
    ) -> tuple[Recall | None, IndexBytes | None]:
        """Build the index, unless it is neither kept nor searched; its recall and its size.

        Raises:
            InputError: if its folder exists.
        """
        if self.folder is None and self.photos is None:
            return None, None
        with self._place(pruned.choice.name(bits)) as place:
            size = pruned.build(bits, place)
            if self.photos is None:
                return None, size
            searcher = LuceneSearcher(place)
            found = measure_index_recall(searcher, self.photos, progress=progress).recall
            searcher.close()
        return found, size

    @contextmanager
    def _place(self, name: str) -> Iterator[Path]:
        if self.folder is None:
            with TemporaryDirectory() as work:
                yield Path(work) / name
            return
        place = self.folder / name
        if place.exists():
            raise InputError(f"--indexes: {place} exists: remove it or choose another folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        yield place
