"""Images whose term scores are computed once and pruned many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np
import torch

from indexer.encode import ImageEncoder
from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.model import TermScores

BYTES_PER_SCORE = 6  # float32 score, int16 region
LARGEST = 8 * 10**9


@dataclass(frozen=True, kw_only=True)
class ScoredImages(ImageEncoder):
    """An encoder of N images that answers from memory.

    Attributes:
        rows: [N] int64, the images' rows in the store, rising.
        scored: their scores [N, V] float32 and regions [N, V] int16, on the CPU.
    """

    rows: np.ndarray
    scored: TermScores

    @classmethod
    def of(
        cls,
        encoder: ImageEncoder,
        rows: Sequence[int],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> ScoredImages:
        """Run the models over some rows.

        Raises:
            InputError: if the scores would not fit in 8 GB.
        """
        shape = (len(rows), len(encoder.tokenizer.vocabulary))
        check_size(*shape)
        scored = TermScores(torch.empty(shape), torch.empty(shape, dtype=torch.int16))
        done = 0
        for images, (scores, regions) in encoder.batches(rows):
            own = slice(done, done + len(images))
            scored.scores[own], scored.regions[own] = scores, regions
            done += len(images)
            progress(done, len(rows))
        inherited = {field.name: getattr(encoder, field.name) for field in fields(encoder)}
        return cls(**inherited, rows=np.asarray(rows), scored=scored)

    def batches(
        self, rows: Iterable[int], keep: bool = False
    ) -> Iterator[tuple[list[ImageFeatures], TermScores]]:
        """As `ImageEncoder.batches`, but from memory, on the CPU."""
        waiting = iter(rows)
        while chunk := list(islice(waiting, self.batch_size)):
            places = np.searchsorted(self.rows, chunk)
            scores, regions = (part[places] for part in self.scored)
            yield [self.store[row] for row in chunk], TermScores(scores, regions)


def check_size(images: int, terms: int) -> None:
    """Refuse what would not fit.

    Raises:
        InputError: if the scores of so many images would take more than 8 GB.
    """
    needed = BYTES_PER_SCORE * images * terms
    if needed > LARGEST:
        raise InputError(
            f"the scores of {images:,} images for {terms:,} terms take {needed / 1e9:.1f} GB, "
            f"over {LARGEST / 1e9:g} GB: choose at most "
            f"{LARGEST // (BYTES_PER_SCORE * terms):,} images"
        )
