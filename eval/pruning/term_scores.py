"""Images whose term scores are computed once and pruned many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np
import torch

from indexer.encode import EncodedBatch, ImageEncoder
from indexer.grounding import Inputs
from sparta.errors import InputError
from sparta.visualsparta.model import TermScores

BYTES_PER_SCORE = 6  # float32 score, int16 position
LARGEST = 8 * 10**9


@dataclass(frozen=True, kw_only=True)
class TermScoreMatrix(ImageEncoder):
    """An encoder of N images that answers from memory.

    Attributes:
        rows: [N] int64, the images' rows in the store, rising.
        scored: their scores [N, V] float32 and positions [N, V] int16, on the CPU.
        inputs: what the positions stand for, one an image.
    """

    rows: np.ndarray
    scored: TermScores
    inputs: list[Inputs]

    @classmethod
    def of(
        cls,
        encoder: ImageEncoder,
        rows: Sequence[int],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> TermScoreMatrix:
        """Run the models over some rows.

        Raises:
            InputError: if the scores would not fit in 8 GB.
        """
        shape = (len(rows), len(encoder.tokenizer.vocabulary))
        check_size(*shape)
        scored = TermScores(torch.empty(shape), torch.empty(shape, dtype=torch.int16))
        inputs: list[Inputs] = []
        for images, (scores, positions), read in encoder.batches(rows):
            own = slice(len(inputs), len(inputs) + len(images))
            scored.scores[own], scored.positions[own] = scores, positions
            inputs += read
            progress(len(inputs), len(rows))
        inherited = {field.name: getattr(encoder, field.name) for field in fields(encoder)}
        return cls(**inherited, rows=np.asarray(rows), scored=scored, inputs=inputs)

    def batches(self, rows: Iterable[int], keep: bool = False) -> Iterator[EncodedBatch]:
        """As `ImageEncoder.batches`, but from memory, on the CPU."""
        waiting = iter(rows)
        while chunk := list(islice(waiting, self.batch_size)):
            places = np.searchsorted(self.rows, chunk)
            yield EncodedBatch(
                [self.store[row] for row in chunk],
                TermScores(*(part[places] for part in self.scored)),
                [self.inputs[place] for place in places],
            )


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
