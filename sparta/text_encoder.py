"""BERT-like checkpoints: text encoders that models start from, or compare words by.

A checkpoint that does not fit raises InputError.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from sparta.errors import InputError, first_line
from sparta.json_values import Json
from sparta.model_id import DAMAGED_WEIGHTS, find_file, model_folder, read_model_config
from sparta.tokenizer import TermTokenizer


def encoder_config(name: str | Path, layers: int | None = None) -> Any:
    """The configuration of a checkpoint; its weights are not read.

    Args:
        name: as `model_folder` takes it.
        layers: keep only the first layers of the checkpoint (None: all).

    Raises:
        InputError: if there is no such model, it is no BERT-like text encoder, or has fewer layers.
    """
    kind = read_model_config(name, (), "text encoder").get("model_type")
    try:
        config: Any = AutoConfig.from_pretrained(model_folder(name, weights=False))
        network: Any = MODEL_MAPPING.get(type(config), None)
    except (OSError, ValueError, LookupError) as error:
        raise InputError(f"{name} is not a BERT-like text encoder: {first_line(error)}") from error
    reads_text = getattr(network, "main_input_name", "") == "input_ids"
    found = getattr(config, "num_hidden_layers", None)
    if not reads_text or config.is_encoder_decoder or found is None:
        raise InputError(f"{name} is of a {kind}, which is no BERT-like text encoder")
    if layers is not None and layers > found:
        raise InputError(f"{name} has {found} layers, {layers} were requested")
    config.num_hidden_layers = layers or found
    return config


def load_text_encoder(name: str | Path, layers: int | None = None) -> Any:
    """The network of a checkpoint, in float32."""
    config = encoder_config(name, layers)
    folder = model_folder(name)
    try:
        return AutoModel.from_pretrained(folder, config=config, dtype=torch.float32)
    except (OSError, ValueError, *DAMAGED_WEIGHTS) as error:
        raise InputError(f"{name}: its weights cannot be read: {first_line(error)}") from error


def load_word_pieces(name: str | Path) -> TermTokenizer:
    """The word pieces of a checkpoint."""
    if (path := find_file(name, "tokenizer.json")) is None:
        raise InputError(f"{name} has no tokenizer.json: choose a checkpoint that has")
    return TermTokenizer.from_folder(path.parent)


def cut_embeddings(encoder: Any, entries: int, name: str | Path) -> None:
    """Drop the token embeddings that an encoder has beyond its tokenizer's entries.

    Some checkpoints pad their number to a multiple of 64.
    """
    known = encoder.get_input_embeddings().num_embeddings
    if known < entries:
        raise InputError(
            f"{name} has {known} token embeddings, its tokenizer {entries} entries: they belong to "
            "different models"
        )
    if known > entries:
        encoder.resize_token_embeddings(entries)


def portable_config(config: PreTrainedConfig) -> Json:
    """A network's configuration as a dict, without paths of this machine."""
    fields: Json = config.to_dict()
    fields.pop("_name_or_path", None)
    return fields


def check_weights(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], problem: str) -> None:
    """Compare the weights of a checkpoint with those of a network, by name and shape.

    Raises:
        InputError: beginning with the problem, and listing the weights that are missing, unexpected
            or of another shape.
    """
    lists = {
        "missing": sorted(wanted.keys() - found.keys()),
        "unexpected": sorted(found.keys() - wanted.keys()),
        "of another shape": [
            f"{name} {list(found[name].shape)} instead of {list(wanted[name].shape)}"
            for name in sorted(wanted.keys() & found.keys())
            if found[name].shape != wanted[name].shape
        ],
    }
    if any(lists.values()):
        listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in lists.items() if names)
        raise InputError(f"{problem}: {listed}")


def move(network: nn.Module, device: torch.device | str) -> None:
    """Move a network in place; the types of `PreTrainedModel.to` refuse a device."""
    network.to(device)
