"""Settings of a training of term vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from training.run_config import DataConfig, Section


class TermModelConfig(Section):
    """The model.

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
    """The dense dual encoders that teach, whose image heads are of the model's size.

    Attributes:
        count: how many, which differ in their seeds; their similarities are averaged.
        epochs: over the photos, two captions of each at a time.
        batch_size: photos per step.
        learning_rate: the largest.
        dropout: of the image head.
    """

    count: int = Field(default=4, ge=1)
    epochs: int = Field(default=30, ge=1)
    batch_size: int = Field(default=1024, ge=2)
    learning_rate: float = Field(default=2e-3, gt=0)
    dropout: float = Field(default=0.6, ge=0, lt=1)


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
    """Term vectors: VisualSparta with one vector a photo, taught by dual encoders.

    Attributes:
        sentences: text file of sentences that belong to no photo, one a line.
        most_sentences: so many of them at most, drawn by the seed.
        model: see `TermModelConfig`.
        teachers: see `DualEncoderConfig`.
        tune: train only the vision network, with the first teacher, and write it to
            `out/backbone.safetensors`, to be the `data.backbone` of another run; None for no such.
        batch_size: photos per step, with a caption of each.
        random_sentences: further captions and sentences per step.
        epochs: over the photos.
        learning_rate: of the image head.
        term_learning_rate: of the term vectors.
        gradient_clip: largest norm of a step's gradient, the teachers' too.
        average: decay of the moving average of the weights, the teachers' too.
        seed: of every random draw.
        captions: weight of the contrast of photos and their captions; the teachers' has 1.
        flops: weight of the sparsity regulariser.
    """

    family: Literal["term-vectors"]
    data: DataConfig = DataConfig()
    sentences: Path | None = None
    most_sentences: int = Field(default=120_000, ge=0)
    model: TermModelConfig = TermModelConfig()
    teachers: DualEncoderConfig = DualEncoderConfig()
    tune: TuneConfig | None = None
    batch_size: int = Field(default=768, ge=2)
    random_sentences: int = Field(default=768, ge=0)
    epochs: int = Field(default=25, ge=1)
    learning_rate: float = Field(default=2e-4, gt=0)
    term_learning_rate: float = Field(default=3e-3, gt=0)
    gradient_clip: float = Field(default=5.0, gt=0)
    average: float = Field(default=0.99, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    captions: float = Field(default=0.1, ge=0)
    flops: float = Field(default=0.02, ge=0)

    @property
    def planned_epochs(self) -> int:
        """How many epochs the run is to train its term vectors, or the vision network."""
        return self.tune.epochs if self.tune else self.epochs
