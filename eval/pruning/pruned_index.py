"""One pruning of the term scores as an index: in memory to rank, as a folder to weigh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eval.pruning.choices import PruningChoice
from eval.pruning.term_scores import TermScoreMatrix
from eval.recall.index import measure_index_recall
from indexer.columns.manifest import FOLDER as COLUMNS
from indexer.encoding.asked import AskedTerms
from indexer.impacts import ImpactParameters, encode_rows
from indexer.index_writer import write_index
from indexer.parts import LUCENE, part_sizes
from indexer.pruning import largest_kept, prune
from indexer.quantisation import Quantiser
from indexer.search.lucene import LuceneSearcher
from indexer.settings import IndexSettings
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.metrics import Recall
from sparta.progress import Progress

SHARD = 512  # images whose scores or postings are handled at once


class IndexBytes(NamedTuple):
    """Size of an index on disk, bytes an image."""

    lucene: float
    columns: float


@dataclass(frozen=True)
class PrunedIndex:
    """N scored images with their kept terms.

    Attributes:
        images: with all their scores.
        choice: the way to prune.
        offset: [V] float32, the choice's, estimated over these images.
        asked: the choice's frequencies of terms as weights.
    """

    images: TermScoreMatrix
    choice: PruningChoice
    offset: NDArray[np.float32]
    asked: AskedTerms

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """[V] bool, terms that may be kept."""
        return self.images.allowed(self.choice.terms)

    def weights(self, terms: Tensor) -> tuple[Tensor, float]:
        """Scores above the offset where they are kept, and 0 elsewhere.

        Args:
            terms: [U] int64.

        Returns:
            [U, N] float32, and the mean number of terms an image keeps, of the whole vocabulary.
        """
        columns, postings, every = [], 0, self.images.scored.scores
        for start in range(0, len(every), SHARD):
            scores = every[start : start + SHARD]
            kept = prune(scores, self.offset, self.allowed, self.choice.top_n, self.asked.weights)
            columns.append(kept[:, terms.numpy()])
            postings += int(np.count_nonzero(kept))
        weights = torch.from_numpy(np.concatenate(columns)).T.contiguous()
        return weights, postings / len(self.images.rows)

    @cached_property
    def _largest(self) -> float:
        scores, n = self.images.scored.scores, self.choice.top_n
        return largest_kept(scores, self.offset, self.allowed, n, self.asked.weights)

    def quantiser(self, bits: int) -> Quantiser:
        """The quantiser of an index of these images."""
        return Quantiser.fit(self._largest, bits)

    def quantised(self, weights: Tensor, bits: int) -> Tensor:
        """Weights as the impacts of an index, in float32; 0 where the weight is 0."""
        impacts = self.quantiser(bits).impacts(weights.numpy())
        return torch.from_numpy(impacts) * (weights > 0).float()

    def build(self, bits: int, folder: Path) -> IndexBytes:
        """Build an index as `sparta index` does, in a folder that does not exist."""
        self._write(bits, folder)
        images = len(self.images.rows)
        lucene, columns = (sum(part_sizes(folder / part).values()) for part in (LUCENE, COLUMNS))
        return IndexBytes(lucene / images, columns / images)

    def _write(self, bits: int, folder: Path) -> None:
        images, quantiser = self.images, self.quantiser(bits)
        settings = IndexSettings(
            models=[scorer.fingerprint for scorer in images.scorers],
            features=[view.fingerprint for view in images.stores],
            photos=None,
            bits=bits,
            offset_images=len(images.rows),
            **asdict(self.choice) | {"asked": self.asked.source},
        )
        parameters = ImpactParameters(
            self.offset, self.allowed, self.choice.top_n, quantiser, self.asked.weights
        )
        shards = (
            encode_rows(
                images,
                images.rows[start : start + SHARD],
                parameters,
            )
            for start in range(0, len(images.rows), SHARD)
        )
        write_index(
            folder,
            shards,
            images.tokenizer,
            settings,
            self.offset,
            quantiser.scale,
            images=len(images.rows),
        )


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
