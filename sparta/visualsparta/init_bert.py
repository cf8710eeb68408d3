"""Start a VisualSparta from a BERT-like checkpoint."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from sparta.errors import InputError
from sparta.features.extract.networks.encoder import PATCH
from sparta.features.record import FeatureSource
from sparta.text_encoder import cut_embeddings, load_text_encoder, load_word_pieces
from sparta.tokenizer import WordPieceTokenizer
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta


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
    encoder: PreTrainedConfig, tokenizer: WordPieceTokenizer, source: FeatureSource, **options: Any
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
    fields = encoder.to_dict()
    fields.pop("_name_or_path", None)  # a path of the machine that trains
    model = VisualSparta(
        VisualSpartaConfig(
            encoder=fields,
            feature_dim=source.dimension,
            feature_source=asdict(source),
            **options,
        )
    )
    model.tokenizer = tokenizer
    model.indexable.copy_(torch.from_numpy(tokenizer.indexable))
    return model


def check_options(options: Collection[str]) -> None:
    """Refuse names that are no options of a model.

    Raises:
        InputError: if one is none.
    """
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
