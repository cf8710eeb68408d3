"""A training run as data: one YAML file, every key checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from pydantic import Field, ValidationError

from sparta.errors import InputError
from training.dense.config import VseTrainConfig
from training.run_config import PhotosConfig, RunConfig, Section

PRESETS = Path(__file__).parent / "presets"


class DataConfig(PhotosConfig):
    """Which photos and captions, and how they are drawn.

    Attributes:
        captions_per_photo: captions drawn per photo and step; they share its forward pass.
        word_dropout: chance that a caption's term is left out.
        region_dropout: chance that a region is left out.
    """

    captions_per_photo: int = Field(default=1, ge=1)
    word_dropout: float = Field(default=0.0, ge=0, lt=1)
    region_dropout: float = Field(default=0.0, ge=0, lt=1)


class ModelConfig(Section):
    """The network at the start.

    Attributes:
        init: hub name or folder of a BERT-like checkpoint, or oscar:FOLDER of one of Oscar's; None
            for random weights.
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
    encoder: dict[str, Any] = Field(default={})
    vocabulary_size: int = 1000
    options: dict[str, Any] = Field(default={})
    query_embedding: Literal["trained", "frozen"] = "trained"


class TrainConfig(RunConfig):
    """One run of VisualSparta. Defaults are the paper's (section 4.3).

    Attributes:
        query_learning_rate: replaces the learning rate for the query embedding.
        projection_learning_rate: ... for the region projection.
        warmup: share of the steps in which the rate rises; afterwards it falls as `schedule` says.
        include_positive: whether equation 13's denominator holds the positive.
        temperature: scores are divided by it in the objective (1 in the paper).
        flops: weight of the sparsity regulariser.
    """

    family: Literal["visual-sparta"] = "visual-sparta"
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
    include_positive: bool = True
    temperature: float = Field(default=1.0, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    flops: float = Field(default=0.0, ge=0)


AnyTrainConfig: TypeAlias = TrainConfig | VseTrainConfig
FAMILIES: dict[str, type[AnyTrainConfig]] = {
    "visual-sparta": TrainConfig,
    "vse": VseTrainConfig,
}


def load_config(name: str, overrides: Sequence[str] = ()) -> AnyTrainConfig:
    """Read a preset or a YAML file and apply `key=value` overrides such as `data.split=train`.

    A file may name presets it builds on, `extends: [NAME, …]`: later ones go over earlier ones,
    and its own keys over all.

    Raises:
        InputError: if there is no such preset or file, or a key or value is wrong; names it.
    """
    values = _read(name)
    for override in overrides:
        _apply(values, override)
    family = values.get("family", "visual-sparta")
    if family not in FAMILIES:
        raise InputError(f"{name}: family: {family!r} is none of {', '.join(FAMILIES)}")
    try:
        return FAMILIES[family].model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(f"{_path(name)}: {key}: {first['msg']}") from error


def _path(name: str) -> Path:
    path = Path(name)
    return path if path.suffix in {".yaml", ".yml"} else PRESETS / f"{name}.yaml"


def _read(name: str) -> dict[str, Any]:
    path = _path(name)
    if not path.is_file():
        known = sorted(str(p.relative_to(PRESETS).with_suffix("")) for p in PRESETS.rglob("*.yaml"))
        raise InputError(f"{name}: neither a YAML file nor a preset; presets are {known}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not YAML: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, found {type(values).__name__}")
    merged: dict[str, Any] = {}
    for base in values.pop("extends", []):
        merged = _merged(merged, _read(base))
    return _merged(merged, values)


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(base[key], over[key])
        for key in base.keys() & over.keys()
        if isinstance(base[key], dict) and isinstance(over[key], dict)
    }
    return base | over | both


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
