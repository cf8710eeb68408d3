"""Start a VisualSparta from a BERT-like checkpoint, or from one of Oscar or Oscar+.

The folders of Oscar (arXiv 2004.06165) and Oscar+ (2101.00529) hold `pytorch_model.bin`,
`config.json` and `vocab.txt`. `training_args.bin`, a pickle of the training's options, is never
opened.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, PreTrainedConfig, PreTrainedModel

from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.networks.encoder import PATCH
from sparta.text_encoder import (
    check_weights,
    cut_embeddings,
    load_text_encoder,
    load_word_pieces,
    portable_config,
)
from sparta.tokenizer import TermTokenizer
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
LOCATION = 6  # numbers behind each visual vector
WORDS = "embeddings.word_embeddings.weight"
# A model's parts, without the `bert.` that goes before them in Oscar's files: ours → Oscar's.
PARTS = {"encoder.": "", "region_projection.": "img_embedding.", "region_norm.": "LayerNorm."}
# What was trained on top of the transformer, and a buffer that is no weight.
UNUSED = ("cls.", "classifier.", "pooler.", "embeddings.position_ids")
# Fields that the weights decide, and no option.
DECIDED = {"use_locations", "region_layer_norm", "region_norm_eps"}


def from_bert(
    name: str | Path, source: FeatureSource, layers: int | None = None, **options: Any
) -> VisualSparta:
    """A VisualSparta whose transformer and query embedding both start from a checkpoint.

    Args:
        name: hub name or folder of a BERT-like model with a `tokenizer.json`.
        source: what made the features the model will be trained on.
        layers: keep only the first layers of the checkpoint (None: all).
        options: further fields of `VisualSpartaConfig`.

    Raises:
        InputError: if there is no such checkpoint, it is no encoder with BERT's parts, lacks a
            `tokenizer.json` or has another model's, or an option is unknown.
    """
    encoder = load_text_encoder(name, layers)
    _check_parts(encoder, name)
    tokenizer = load_word_pieces(name)
    cut_embeddings(encoder, len(tokenizer.vocabulary), name)
    model = from_config(encoder.config, tokenizer, source, **options)
    wanted = model.encoder.state_dict().keys()
    model.encoder.load_state_dict({k: v for k, v in encoder.state_dict().items() if k in wanted})
    with torch.no_grad():
        words = model.encoder.embeddings.word_embeddings.weight
        model.query_embedding.weight.copy_(words)
    return model


def _check_parts(encoder: PreTrainedModel, name: str | Path) -> None:
    words = getattr(getattr(encoder, "embeddings", None), "word_embeddings", None)
    if words is None or not hasattr(encoder, "encoder"):
        raise InputError(
            f"{name} ({type(encoder).__name__}) is not BERT-like: it lacks word embeddings or an "
            "encoder of its own; try a BERT, RoBERTa or ELECTRA checkpoint"
        )
    width = encoder.config.hidden_size
    if words.embedding_dim != width:
        raise InputError(
            f"{name}: token embeddings have {words.embedding_dim} numbers, hidden states {width}; "
            "the query embedding must match the hidden states, so both must be equal"
        )


def from_config(
    encoder: PreTrainedConfig, tokenizer: TermTokenizer, source: FeatureSource, **options: Any
) -> VisualSparta:
    """A VisualSparta with random weights, the tokenizer attached.

    Raises:
        InputError: if the encoder's vocabulary is not the tokenizer's, an option is unknown, or a
            stem is to read anything but whole photos as raw pixel patches.
    """
    check_options(options)
    if encoder.vocab_size != len(tokenizer.vocabulary):
        raise InputError(
            f"the encoder has {encoder.vocab_size} token embeddings, the tokenizer "
            f"{len(tokenizer.vocabulary)} terms: they belong to different models"
        )
    if options.get("stem"):
        _check_stem(source, options.get("max_regions", VisualSpartaConfig().max_regions))
    segments = getattr(encoder, "type_vocab_size", 1)
    options = {"label_segment": min(1, segments - 1), **options}
    fields = {"feature_dim": source.dimension, "feature_source": asdict(source), **options}
    model = VisualSparta(VisualSpartaConfig(encoder=portable_config(encoder), **fields))
    model.tokenizer = tokenizer
    model.indexable.copy_(torch.from_numpy(tokenizer.indexable))
    return model


def check_options(options: Collection[str]) -> None:
    """Refuse names that are no options of a model."""
    given = {"encoder", "feature_dim", "feature_source", "kwargs"}
    known = signature(VisualSpartaConfig).parameters.keys() - given
    if unknown := sorted({*options} - known):
        raise InputError(f"unknown model options {unknown}; there are {sorted(known)}")


def _check_stem(source: FeatureSource, max_regions: int) -> None:
    if source.kind != "pixels":
        raise InputError(
            f"model.options.stem reads raw pixel patches, these are {source.kind} features: "
            "leave it out, or extract with --backbone pixels"
        )
    regions = (source.image_size // PATCH) ** 2 + 1
    if regions > max_regions:
        raise InputError(
            f"model.options.stem needs the whole photo: set model.options.max_regions to {regions}"
        )


# ---- Oscar and Oscar+ ----------------------------------------------------------------------------


class _Transformer(BaseModel):
    """Fields of `config.json` that are those of a BERT."""

    vocab_size: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    max_position_embeddings: int = Field(gt=0)
    type_vocab_size: int = Field(gt=0)
    hidden_act: Literal["gelu", "gelu_new", "relu", "swish"] = "gelu"
    hidden_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12


class _Config(_Transformer):
    """The fields of `config.json` about images, besides those of a BERT.

    `use_img_layernorm` is not read: in published files it may be absent, or not true.
    """

    model_config = ConfigDict(strict=True)
    img_feature_dim: int = Field(gt=LOCATION)
    img_feature_type: str = "faster_r-cnn"
    img_layer_norm_eps: float = 1e-12


def from_oscar(
    folder: str | Path,
    source: FeatureSource | None = None,
    layers: int | None = None,
    **options: Any,
) -> VisualSparta:
    """A VisualSparta whose transformer, region projection and query embedding are Oscar's.

    Labels come first in the positions, from 0 on, with segment 1: Oscar had "[CLS] caption [SEP]"
    before them, and there is no caption here. Whether projected regions are normalised is decided
    by the weights that are there.

    Args:
        folder: of the checkpoint, with `pytorch_model.bin` (or `model.safetensors`),
            `config.json` and the `vocab.txt` of an uncased BERT.
        source: what made the features the model will be trained on, their numbers as many as
            Oscar's without the location; None for any of that width.
        layers: keep only the first layers of the checkpoint (None: all).
        options: further fields of `VisualSpartaConfig`.

    Raises:
        InputError: if a file is missing or damaged, holds more than tensors, lacks a weight or has
            one left over (heads apart), or one is of another shape than `config.json` says;
            if the features are of another width; if an option is unknown or the weights' own.
    """
    folder = Path(folder)
    config = read_oscar_config(folder)
    width = config.img_feature_dim - LOCATION
    if source is not None and source.dimension != width:
        raise InputError(
            f"{folder} takes regions of {config.img_feature_dim} numbers, {width} and a location "
            f"of {LOCATION}; the features have {source.dimension}"
        )
    if decided := sorted(DECIDED & options.keys()):
        raise InputError(f"{folder}: its weights decide {', '.join(decided)}: leave the option out")
    total = config.num_hidden_layers
    if layers is not None and not 0 < layers <= total:
        raise InputError(f"{folder} has {total} layers, {layers} were requested")
    weights = _read_weights(folder)
    tokenizer = _read_vocabulary(folder)
    encoder = BertConfig(**config.model_dump(include={*_Transformer.model_fields}))
    encoder.num_hidden_layers = layers or total
    if len(weights.get(WORDS, ())) == config.vocab_size:  # some checkpoints pad their number
        weights[WORDS] = weights[WORDS][: len(tokenizer.vocabulary)]
        encoder.vocab_size = len(weights[WORDS])
    model = from_config(
        encoder,
        tokenizer,
        source or FeatureSource("region", "", "", width, 0),
        region_layer_norm="LayerNorm.weight" in weights,
        region_norm_eps=config.img_layer_norm_eps,
        **options,
    )
    if source is None:
        model.config.feature_source = None
    cut = tuple(f"encoder.layer.{layer}." for layer in range(layers or total, total))
    _fill(model, {k: v for k, v in weights.items() if not k.startswith(cut)}, folder)
    return model


def read_oscar_config(folder: Path) -> _Config:
    """The configuration of a checkpoint of Oscar."""
    path = folder / "config.json"
    try:
        config = _Config.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} is missing: give the folder of an Oscar checkpoint") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "JSON"
        raise InputError(f"{path}: {field}: {first['msg']}") from error
    if config.hidden_size % config.num_attention_heads:
        raise InputError(
            f"{path}: hidden_size {config.hidden_size} is no multiple of num_attention_heads "
            f"{config.num_attention_heads}"
        )
    if config.img_feature_type.startswith("dis_code"):
        raise InputError(
            f"{path}: img_feature_type: {config.img_feature_type} is of regions as codes; only "
            "checkpoints over a detector's vectors can be read"
        )
    return config


def _read_vocabulary(folder: Path) -> TermTokenizer:
    path = folder / "vocab.txt"
    try:
        return TermTokenizer.from_vocabulary(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: it comes with the checkpoint") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Tensors by name without `bert.`, with today's names of a normalisation's two."""
    path = next((folder / n for n in (SAFE, PICKLED) if (folder / n).is_file()), None)
    if path is None:
        raise InputError(f"{folder} holds neither {PICKLED} nor {SAFE}")
    content = _load(path)
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise InputError(f"{path}: expected names and tensors, found something else")
    weights: dict[str, Tensor] = {}
    for key, value in content.items():
        name = str(key).removeprefix("bert.")
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        if name in weights:
            raise InputError(f"{path}: contains bert.{name} twice, once as {key}")
        weights[name] = value
    return {name: value for name, value in weights.items() if not name.startswith(UNUSED)}


def _load(path: Path) -> Any:
    try:
        if path.name == SAFE:
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} is damaged, or holds more than tensors, which could run arbitrary "
            "code and is not read"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, ValueError, LookupError) as error:
        raise InputError(f"{path} is damaged, or no file of weights") from error


def _fill(model: VisualSparta, weights: dict[str, Tensor], folder: Path) -> None:
    """Copy all weights into the model."""
    state = {
        theirs + key.removeprefix(ours): value
        for key, value in model.state_dict().items()
        for ours, theirs in PARTS.items()
        if key.startswith(ours)
    }
    check_weights(
        {f"bert.{name}": value for name, value in weights.items()},
        {f"bert.{name}": value for name, value in state.items()},
        f"{folder} is not a whole checkpoint of Oscar's, or config.json is another's",
    )
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(weights[name])
        model.query_embedding.weight.copy_(weights[WORDS])
