"""Any number of encoded images in memory, to build an index without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers.models import WordPiece

from eval.pruning.term_scores import TermScoreMatrix
from indexer.encoding.scorer import TermScores
from indexer.encoding.term_scores import EncodedBatch, ImageEncoder
from indexer.grounding import Inputs
from sparta.features.record import ImageFeatures
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.tokenizer import Tokenizer, WordPieceTokenizer

BATCH = 32
DISTINCT = 1024  # distinct images: 190 MB of scores for BERT's vocabulary
# Measured on 7,091 photos of Flickr8k: a photo has 1,585 of the 6,740 trained terms above their
# mean.
VOCABULARY, TRAINED, SHARE, REGIONS = 30_522, 6_740, 0.235, 50


@dataclass(frozen=True)
class EncodedImages:
    """Images with their term scores, repeated under other ids beyond the last.

    Attributes:
        name: fingerprint of the model, or "synthetic".
        tokenizer: whose vocabulary the scores are of.
        allowed: [V] bool, terms allowed in the index.
        images: K images.
        scored: their scores [K, V] float32 and positions [K, V] int16.
        inputs: the inputs that the positions refer to, one per image.
    """

    name: str
    tokenizer: Tokenizer
    allowed: NDArray[np.bool_]
    images: list[ImageFeatures]
    scored: TermScores
    inputs: list[Inputs]

    def batches(self, rows: Iterable[int]) -> Iterator[EncodedBatch]:
        """Images of consecutive rows with their term scores, which are not copied."""
        waiting, distinct = list(rows), len(self.images)
        while waiting:
            first = waiting[0] % distinct
            here = slice(first, min(first + BATCH, distinct, first + len(waiting)))
            count = here.stop - here.start
            images = [
                replace(image, image_id=f"{row:09d}.jpg")
                for row, image in zip(waiting, self.images[here], strict=False)
            ]
            scored = TermScores(self.scored.scores[here], self.scored.positions[here])
            yield EncodedBatch(images, scored, self.inputs[here])
            waiting = waiting[count:]


def encode_store(features: Path, model: str, progress: Progress = no_progress) -> EncodedImages:
    """The first images of a feature store, encoded by a model; progress of the stage "encode".

    Raises:
        InputError: if the model cannot be used or was trained on other features.
    """
    store = FeatureStore.open(features)
    encoder = ImageEncoder.open([store], [model], BATCH, "cpu", "trained")
    rows = range(min(DISTINCT, len(store)))
    scored = TermScoreMatrix.of(encoder, rows, progress)
    return EncodedImages(
        name=encoder.scorers[0].fingerprint,
        tokenizer=encoder.tokenizer,
        allowed=encoder.allowed("trained"),
        images=[_without_features(store[row]) for row in rows],
        scored=scored.scored,
        inputs=scored.inputs,
    )


def synthetic_images(
    count: int = DISTINCT, vocabulary: int = VOCABULARY, seed: int = 0
) -> EncodedImages:
    """Synthetic images with independent terms, as many as a photo has."""
    random = np.random.default_rng(seed)
    trained = round(vocabulary * TRAINED / VOCABULARY)
    allowed = np.zeros(vocabulary, np.bool_)
    allowed[1 + random.choice(vocabulary - 1, trained, replace=False)] = True
    scores = np.zeros((count, vocabulary), np.float32)
    present = random.random((count, trained), np.float32) < SHARE
    scores[:, allowed] = present * random.standard_gamma(1.7, (count, trained), np.float32)
    positions = random.integers(0, REGIONS, (count, vocabulary), np.int16)
    words = {"[UNK]": 0} | {f"w{i:05d}": i for i in range(1, vocabulary)}
    corners = np.sort(random.random((count, REGIONS, 2, 2), np.float32), axis=2)
    corners = corners.reshape(count, REGIONS, 4)
    return EncodedImages(
        name="synthetic",
        tokenizer=WordPieceTokenizer(tokenizers.Tokenizer(WordPiece(words, unk_token="[UNK]"))),
        allowed=allowed,
        images=[_image(boxes) for boxes in corners],
        scored=TermScores(scores, positions),
        inputs=[Inputs(boxes, np.empty(0, np.int32), np.empty(0, np.int16)) for boxes in corners],
    )


def _image(boxes: np.ndarray) -> ImageFeatures:
    nothing = ("",) * len(boxes)
    features = np.zeros((len(boxes), 0), np.float16)
    return ImageFeatures("", features, boxes, nothing, nothing, 500, 375)


def _without_features(image: ImageFeatures) -> ImageFeatures:
    return replace(image, features=np.zeros((len(image.boxes), 0), np.float16))
