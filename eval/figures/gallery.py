"""Galleries of any size, as an inverted index and as vectors, by repeating a store's images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval.pruning.term_scores import TermScoreMatrix
from eval.recall.images import Images
from eval.recall.models import DenseModel
from indexer.dense.vectors import ImageVectors
from indexer.encoding.term_scores import ImageEncoder
from indexer.impacts import ImpactParameters, encode_rows
from indexer.index_writer import write_index
from indexer.postings import ImagePostings, Postings, PostingShard
from indexer.pruning import estimate_offsets
from indexer.quantisation import Quantiser
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress

BITS = 8
SHARD = 10_000  # images written or added at once


@dataclass(frozen=True)
class Gallery:
    """Some images in both forms; larger galleries repeat them under other ids.

    Attributes:
        encoder: whose postings they are.
        settings: of the index.
        scale: the term score of one impact.
        offset: [V] float32.
        postings: of N images.
        dense: the dense model.
        vectors: [N, K, D] float32 of the same images.
    """

    encoder: ImageEncoder
    settings: IndexSettings
    scale: float
    offset: NDArray[np.float32]
    postings: Postings
    dense: DenseModel
    vectors: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        encoder: ImageEncoder,
        dense: DenseModel,
        images: int,
        top_n: int,
        progress: Progress = no_progress,
    ) -> Gallery:
        """Encode the first images of the encoder's store with both models.

        Raises:
            InputError: if their term scores would not fit in memory.
        """
        rows = range(min(images, len(encoder.store)))
        scored = TermScoreMatrix.of(encoder, rows, progress)
        offset = estimate_offsets(scored.scored.scores, "mean")
        allowed = encoder.allowed(encoder.terms)
        largest = ((scored.scored.scores.max(axis=0) - offset) * allowed).max()
        quantiser = Quantiser.fit(float(largest), BITS)
        parameters = ImpactParameters(offset, allowed, top_n, quantiser)
        postings, _ = encode_rows(scored, rows, parameters)
        vectors = dense.embed_images(Images(encoder.store, rows), encoder.batch_size, progress)
        settings = IndexSettings(
            models=[scorer.fingerprint for scorer in encoder.scorers],
            features=[encoder.store.fingerprint],
            photos=None,
            top_n=top_n,
            bits=BITS,
            offset="mean",
            offset_images=len(rows),
            terms=encoder.terms,
        )
        return cls(
            encoder,
            settings,
            quantiser.scale,
            offset,
            postings,
            dense,
            vectors.cpu().numpy(),
        )

    def rows(self, size: int) -> Iterator[NDArray[np.int64]]:
        """The image at each position of a gallery, a shard at a time."""
        for start in range(0, size, SHARD):
            yield np.arange(start, min(start + SHARD, size)) % len(self.postings)

    def write(self, folder: Path, size: int) -> None:
        """Write an index folder of `size` images, named by number."""
        images = list(self.postings)
        starts = range(0, size, SHARD)
        shards = (
            PostingShard(
                Postings.of(
                    [_renamed(images[row], start + i) for i, row in enumerate(rows.tolist())]
                )
            )
            for start, rows in zip(starts, self.rows(size), strict=True)
        )
        write_index(
            folder,
            shards,
            self.encoder.tokenizer,
            self.settings,
            self.offset,
            self.scale,
            images=size,
        )

    def collect(self, size: int) -> ImageVectors:
        """A flat index of the vectors of `size` images."""
        _, views, dimension = self.vectors.shape
        collected = ImageVectors.create(dimension, views)
        for rows in self.rows(size):
            collected.add(self.vectors[rows])
        return collected


def _renamed(image: ImagePostings, number: int) -> ImagePostings:
    return replace(image, image_id=f"{number:09d}")
