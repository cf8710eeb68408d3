"""Start a dense model: over the words of training captions, or over a BERT-like checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedModel

from sparta.errors import InputError, first_line
from sparta.features.record import FeatureSource
from sparta.json_values import Json
from sparta.model_id import find_file, model_folder
from sparta.networks.pretrained import load_model, load_preprocessing
from sparta.text_encoder import cut_embeddings, load_text_encoder, portable_config
from sparta.vse.config import OPTIONS, VseConfig
from sparta.vse.encoders import vision_part
from sparta.vse.model import VseModel, evaluating
from sparta.vse.tokenizer import FILE, TextTokenizer

# A feature source's kind → how its vectors are projected.
_VISUAL = {"region": "region", "grid": "grid", "patch": "patch", "pixels": "patch"}


def from_captions(
    texts: Iterable[str],
    source: FeatureSource,
    *,
    min_count: int = 4,
    vision: str | Path | None = None,
    **options: Any,
) -> VseModel:
    """A model whose text side, a GRU, knows the words of the training captions alone.

    Args:
        texts: training captions, and no others.
        source: what made the features the model will be trained on.
        min_count: how often the captions must hold a word of the vocabulary.
        vision: hub name or folder of a vision network to take into the model, which then encodes
            photos of the source's size; None for a model that takes features.
        options: further fields of `VseConfig`. Without `visual`, the source's kind decides it;
            without `text`, the GRU reads both ways.

    Raises:
        InputError: if an option is unknown, or the vision network is none or does not give
            vectors of the source's dimension.
    """
    tokenizer = TextTokenizer.from_captions(texts, min_count)
    return _build({"vocabulary_size": len(tokenizer)}, tokenizer, source, vision, options)


def from_bert(
    checkpoint: str | Path,
    source: FeatureSource,
    /,
    *,
    layers: int | None = None,
    sentence: bool = False,
    vision: str | Path | None = None,
    **options: Any,
) -> VseModel:
    """A model whose text side starts from a BERT-like checkpoint.

    Args:
        checkpoint: hub name or folder of the checkpoint, with a `tokenizer.json` or a `vocab.txt`.
        source: as in `from_captions`.
        layers: keep only the first layers of the checkpoint (None: all).
        sentence: whether a head reads the checkpoint's pooled vector (`VseConfig.text`
            "sentence"), instead of projecting its tokens.
        vision: as in `from_captions`.
        options: as in `from_captions`.

    Raises:
        InputError: if there is no such checkpoint, it is no BERT-like encoder, has fewer layers or
            no tokenizer or another model's, or as in `from_captions`.
    """
    encoder = load_text_encoder(checkpoint, layers)
    tokenizer = load_tokenizer(checkpoint)
    cut_embeddings(encoder, len(tokenizer), checkpoint)
    limit_length(tokenizer, encoder)
    text = "sentence" if sentence else "bert"
    fields = {"text": text, "text_encoder": portable_config(encoder.config)}
    model = _build(fields, tokenizer, source, vision, options)
    _copy(encoder, model.text_encoder)
    return model


def load_tokenizer(name: str | Path) -> TextTokenizer:
    """The tokenizer of a BERT-like checkpoint, from its `tokenizer.json` or `vocab.txt`."""
    if path := find_file(name, FILE):
        return TextTokenizer.from_folder(path.parent)
    folder = model_folder(name, weights=False)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    except (OSError, ValueError) as error:
        raise InputError(f"{name} has no tokenizer: {first_line(error)}") from error
    return TextTokenizer(Tokenizer.from_str(tokenizer.to_str()), name)


def limit_length(tokenizer: TextTokenizer, encoder: Any) -> None:
    """Cut texts at the number of positions a BERT-like encoder has."""
    positions = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if positions is not None:
        # RoBERTa counts positions from behind that of padding.
        first = 0 if positions.padding_idx is None else positions.padding_idx + 1
        limits = (tokenizer.max_length, positions.num_embeddings - first)
        tokenizer.max_length = min(limit for limit in limits if limit is not None)


def _build(
    fields: Json,
    tokenizer: TextTokenizer,
    source: FeatureSource,
    vision: str | Path | None,
    options: Json,
) -> VseModel:
    check_options(options, "text" in fields)
    network = None if vision is None else _vision_network(str(vision))
    fields = {
        "feature_dim": source.dimension,
        "feature_source": asdict(source),
        "visual": _VISUAL[source.kind],
        "vision": None if network is None else portable_config(network.config),
        **fields,
        **options,
    }
    model = VseModel(VseConfig(**fields))
    model.attach(tokenizer, "the vocabulary")
    if network is not None:
        _start_vision(model, network, str(vision), source)
    return model


def check_options(options: Collection[str], is_bert: bool) -> None:
    """Refuse names that are no options of a model, `vision` apart, over words or over a BERT."""
    given = {"text_encoder", "vocabulary_size", "feature_dim", "feature_source", "vision"}
    known = {*OPTIONS} - given - ({"text"} if is_bert else set())
    if unknown := sorted({*options} - known):
        raise InputError(f"unknown model options {unknown}; there are {sorted(known)}")


def _vision_network(name: str) -> Any:
    network = vision_part(load_model(name))
    if network.main_input_name != "pixel_values":
        raise InputError(f"{name}: {type(network).__name__} is not a vision model")
    return network


def _start_vision(model: VseModel, network: Any, name: str, source: FeatureSource) -> None:
    assert model.vision is not None
    _copy(network, model.vision.network)
    preprocessing = load_preprocessing(name, source.image_size)
    model.vision.prepare_as(preprocessing)
    # With the size, all that is needed to resize photos for the network.
    model.config.feature_source["extra"]["resample"] = preprocessing.resample
    side = source.image_size
    with torch.no_grad(), evaluating(model):
        width = model.vision(torch.zeros(1, 3, side, side)).shape[-1]
    if width != source.dimension:
        raise InputError(
            f"{name} gives vectors of {width} numbers, the feature source has {source.dimension}"
        )


def _copy(pretrained: PreTrainedModel, into: Any) -> None:
    """Copy the weights that the model has; it has no pooler."""
    wanted = into.state_dict().keys()
    into.load_state_dict({k: v for k, v in pretrained.state_dict().items() if k in wanted})
