"""Settings of a training of term vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from training.run_config import DataConfig, Section


class TermModelConfig(Section):
    """The model of term vectors, or the dense one.

    Attributes:
        init: BERT-like sentence encoder, hub name or folder, whose word pieces the terms are. Its
            vectors are used as they are.
        width: of the image head's hidden layer.
        size: numbers of a photo's vector.
        dropout: share of either layer's inputs of the image head that training drops.
        grid: cells on a side of the features that the model reads, of which the best explains a
            term; the score is the whole photo's. None for the grid of the training's features.
        least_sentences: terms in fewer captions and sentences are left out.
    """

    init: str | None = None
    width: int = Field(default=1024, ge=1)
    size: int = Field(default=256, ge=1)
    dropout: float = Field(default=0.6, ge=0, lt=1)
    grid: int | None = Field(default=None, ge=1)
    least_sentences: int = Field(default=3, ge=1)


class DualEncoderConfig(Section):
    """The dense dual encoders that teach, whose image heads are of the model's size."""

    # How many, which differ in their seeds; their similarities are averaged.
    count: int = Field(default=4, ge=1)
    epochs: int = Field(default=30, ge=1)  # over the photos, two captions of each at a time
    batch_size: int = Field(default=1024, ge=2)  # photos per step
    learning_rate: float = Field(default=2e-3, gt=0)  # the largest
    dropout: float = Field(default=0.6, ge=0, lt=1)  # of the image head
    # Whether a caption's vector has a part that is the sum of vectors of its word pieces.
    word_pieces: bool = True


class TuneConfig(Section):
    """Tuning EfficientNet-Lite2 itself, which takes hours on a CPU and a minute on a large GPU.

    Attributes:
        frozen_stages: of the network's seven, the first, whose weights stay as they are.
        epochs: over the photos.
        batch_size: photos per step.
        learning_rate: of the network; the heads have five times as much.
    """

    frozen_stages: int = Field(default=3, ge=0, le=7)
    epochs: int = Field(default=14, ge=1)
    batch_size: int = Field(default=512, ge=2)
    learning_rate: float = Field(default=1e-4, gt=0)


class TermVectorsConfig(Section):
    """Term vectors: VisualSparta with one vector a photo, taught by dual encoders."""

    family: Literal["term-vectors"]
    data: DataConfig = DataConfig()
    sentences: Path | None = None  # text file of sentences that belong to no photo, one a line
    most_sentences: int = Field(default=120_000, ge=0)  # so many of them at most, drawn by the seed
    model: TermModelConfig = TermModelConfig()  # see `TermModelConfig`
    teachers: DualEncoderConfig = DualEncoderConfig()  # see `DualEncoderConfig`
    dense: bool = False  # train the first teacher alone, and save it as a dense model
    # Train only the vision network, with the first teacher, and write it to
    # `out/backbone.safetensors`, to be the `data.backbone` of another run; None for no such.
    tune: TuneConfig | None = None
    batch_size: int = Field(default=768, ge=2)  # photos per step, with a caption of each
    random_sentences: int = Field(default=768, ge=0)  # further captions and sentences per step
    epochs: int = Field(default=25, ge=1)  # over the photos
    learning_rate: float = Field(default=2e-4, gt=0)  # of the image head
    term_learning_rate: float = Field(default=3e-3, gt=0)  # of the term vectors
    # Largest norm of a step's gradient, the teachers' too.
    gradient_clip: float = Field(default=5.0, gt=0)
    # Decay of the moving average of the weights, the teachers' too.
    average: float = Field(default=0.99, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**32)  # of every random draw
    # Weight of the contrast of photos and their captions; the teachers' has 1.
    captions: float = Field(default=0.1, ge=0)
    flops: float = Field(default=0.02, ge=0)  # weight of the sparsity regulariser

    @property
    def planned_epochs(self) -> int:
        """How many epochs the run is to train what it writes."""
        if self.dense:
            return self.teachers.epochs
        return self.tune.epochs if self.tune else self.epochs
