"""Term scores of images in memory, computed once and pruned many times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np

from eval.recall.scores import check_memory
from indexer.encoding.scorer import TermScores
from indexer.encoding.term_scores import EncodedBatch, ImageEncoder
from indexer.grounding import Inputs
from sparta.progress import Progress, no_progress


@dataclass(frozen=True, kw_only=True)
class TermScoreMatrix(ImageEncoder):
    """An encoder of N images that answers from memory.

    Attributes:
        rows: [N] int64, the images' rows in the store, rising.
        scored: their scores [N, V] float32 and positions [N, V] int16.
        inputs: the inputs that the positions refer to, one per image.
    """

    rows: np.ndarray
    scored: TermScores
    inputs: list[Inputs]

    @classmethod
    def of(
        cls,
        encoder: ImageEncoder,
        rows: Sequence[int],
        progress: Progress = no_progress,
    ) -> TermScoreMatrix:
        """Run the models over some rows; progress of the stage "encode", in images.

        Raises:
            InputError: if the scores would not fit in 8 GB.
        """
        shape = (len(rows), len(encoder.tokenizer.vocabulary))
        check_memory(*shape)
        scored = TermScores(np.empty(shape, np.float32), np.empty(shape, np.int16))
        inputs: list[Inputs] = []
        for images, (scores, positions), read in encoder.batches(rows):
            own = slice(len(inputs), len(inputs) + len(images))
            scored.scores[own], scored.positions[own] = scores, positions
            inputs += read
            progress("encode", len(inputs), len(rows))
        inherited = {field.name: getattr(encoder, field.name) for field in fields(encoder)}
        return cls(**inherited, rows=np.asarray(rows), scored=scored, inputs=inputs)

    def batches(self, rows: Iterable[int], keep: bool = False) -> Iterator[EncodedBatch]:
        """As `ImageEncoder.batches`, but from memory."""
        waiting = iter(rows)
        while chunk := list(islice(waiting, self.batch_size)):
            places = np.searchsorted(self.rows, chunk)
            yield EncodedBatch(
                [self.store[row] for row in chunk],
                TermScores(self.scored.scores[places], self.scored.positions[places]),
                [self.inputs[place] for place in places],
            )
