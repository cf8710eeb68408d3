"""A training run as data: one YAML file, every key checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sparta.errors import InputError

PRESETS = Path(__file__).parent / "presets"


class _Section(BaseModel):
    """Unknown keys are errors: a misspelt setting must not train something else in silence."""

    model_config = ConfigDict(extra="forbid")


class DataConfig(_Section):
    """Which photos, which captions.

    Attributes:
        features: feature stores of the same photos; each further one is another view (a mirrored
            or cropped copy), and every epoch draws one view per photo.
        photos: instead of features, a folder of photos to extract them from, with `backbone`
            (hub name, folder or "pixels") in so many `views`; kept in the run's folder.
        captions: `captions.jsonl`.
        split: photos to train on.
        validation_split: photos to choose by, if the file has a split for it.
        validation_photos: otherwise, how many photos of `split` to hold out (0: none, and the
            last weights are kept).
        captions_per_photo: captions drawn per photo and step; they share its forward pass.
        word_dropout: chance that a caption's term is left out.
        region_dropout: chance that a region is left out.
    """

    features: list[Path] = Field(default=[], max_length=64)
    photos: Path | None = None
    backbone: str | None = None
    views: int = Field(default=1, ge=1)
    captions: Path | None = None
    split: str = "train"
    validation_split: str | None = None
    validation_photos: int = Field(default=0, ge=0)
    captions_per_photo: int = Field(default=1, ge=1)
    word_dropout: float = Field(default=0.0, ge=0, lt=1)
    region_dropout: float = Field(default=0.0, ge=0, lt=1)


class ModelConfig(_Section):
    """The network at the start.

    Attributes:
        init: hub name or folder of a BERT-like checkpoint; None for random weights.
        layers: keep only the checkpoint's first layers.
        encoder: without `init`, fields of a `BertConfig`; its vocabulary is then learnt from the
            training captions.
        vocabulary_size: without `init`, at most so many word pieces.
        options: fields of `VisualSpartaConfig`, such as use_labels or max_regions.
        query_embedding: "trained" with its own learning rate, or "frozen" at the checkpoint's
            directions with one trained importance per term.
    """

    init: str | None = None
    layers: int | None = Field(default=None, ge=1)
    encoder: dict[str, Any] = {}
    vocabulary_size: int = 1000
    options: dict[str, Any] = {}
    query_embedding: Literal["trained", "frozen"] = "trained"


class TrainConfig(_Section):
    """One run. Defaults are the paper's (section 4.3).

    Attributes:
        batch_size: photos per step, over all GPUs.
        learning_rate: of Adam; `query_learning_rate` and `projection_learning_rate` replace it
            for the query embedding and the region projection.
        warmup: share of the steps in which the rate rises; afterwards it falls as `schedule` says.
        precision: as Lightning names it; "auto" takes bfloat16 on a GPU and float32 elsewhere.
        include_positive: whether equation 13's denominator holds the positive.
        temperature: scores are divided by it in the objective (1 in the paper).
        flops: weight of the sparsity regulariser.
        average: decay of the exponential moving average of the weights, 0 for none.
        checkpoint_epochs: epochs between the checkpoints a killed run resumes from.
        patience: stop after so many epochs without a better validation recall, 0 for never.
    """

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    batch_size: int = Field(default=160, ge=2)
    epochs: int = Field(default=20, ge=1)
    learning_rate: float = Field(default=5e-5, gt=0)
    query_learning_rate: float | None = None
    projection_learning_rate: float | None = None
    warmup: float = Field(default=0.1, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    gradient_clip: float = Field(default=1.0, ge=0)
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    accelerator: str = "auto"
    devices: int | Literal["auto"] = "auto"
    workers: int = Field(default=2, ge=0)
    seed: int = 0
    include_positive: bool = True
    temperature: float = Field(default=1.0, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    flops: float = Field(default=0.0, ge=0)
    average: float = Field(default=0.0, ge=0, lt=1)
    checkpoint_epochs: int = Field(default=1, ge=1)
    patience: int = Field(default=0, ge=0)


def load_config(name: str, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a preset or a YAML file and apply `key=value` overrides such as `data.split=train`.

    Raises:
        InputError: if there is no such preset or file, or a key or value is wrong; names it.
    """
    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        path = PRESETS / f"{name}.yaml"
    if not path.is_file():
        known = sorted(p.stem for p in PRESETS.glob("*.yaml"))
        raise InputError(f"{name}: neither a YAML file nor a preset; presets are {known}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if not isinstance(values, dict):
            raise InputError(f"{path}: expected keys and values, found {type(values).__name__}")
        for override in overrides:
            _apply(values, override)
        return TrainConfig.model_validate(values)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {key}: {first['msg']}") from error


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one dotted key; the value is read as YAML, so 3 is a number and [a, b] a list."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set {override}: expected key=value")
    *parents, last = key.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise InputError(f"--set {override}: {parent} holds no keys")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"--set {override}: the value is not YAML: {error}") from error
    # YAML reads 1e-4 as a string; a user means the number.
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    values[last] = value
