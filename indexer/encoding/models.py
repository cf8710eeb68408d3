"""Models: loaded, identified by a hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from sparta.errors import InputError
from sparta.model_id import read_model_config
from sparta.tokenizer import Tokenizer
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.visualsparta.model import VisualSparta

Config = TypeVar("Config", bound=PreTrainedConfig)


def load_models(
    names: Sequence[str | Path], device: torch.device
) -> tuple[list[VisualSparta], Tokenizer]:
    """Load VisualSparta models and the tokenizer they share.

    Raises:
        InputError: if there is none, one cannot be used, or their vocabularies differ.
    """
    if not names:
        raise InputError("no --model: give at least one")
    loaded = [_load_model(name, device) for name in names]
    models, tokenizers = [model for model, _ in loaded], [tokenizer for _, tokenizer in loaded]
    for name, tokenizer in zip(names, tokenizers, strict=True):
        if tokenizer.vocabulary_hash != tokenizers[0].vocabulary_hash:
            raise InputError(
                f"--model {name} has another vocabulary than {names[0]} "
                f"({_first_difference(tokenizers[0].vocabulary, tokenizer.vocabulary)}): only "
                "models of one vocabulary can share an index"
            )
    return models, tokenizers[0]


def _load_model(name: str | Path, device: torch.device) -> tuple[VisualSparta, Tokenizer]:
    read_config(name, VisualSpartaConfig)
    try:
        model = VisualSparta.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"--model {name} is not a VisualSparta model: {error}") from error
    if model.tokenizer is None:
        raise InputError(f"--model {name} has no tokenizer.json: a model folder needs one")
    if len(model.tokenizer.vocabulary) != len(model.indexable):
        raise InputError(
            f"--model {name}: tokenizer.json has {len(model.tokenizer.vocabulary)} terms, the "
            f"model {len(model.indexable)}: they are not of the same model"
        )
    model.to(device)  # type: ignore[arg-type]
    return model.eval(), model.tokenizer


def _first_difference(first: list[str], second: list[str]) -> str:
    for number, (term, other) in enumerate(zip(first, second, strict=False)):
        if term != other:
            return f"term {number} is {other!r} instead of {term!r}"
    return f"{len(second)} terms instead of {len(first)}"


def read_config(name: str | Path, kind: type[Config]) -> Config:
    """A model's configuration, without its weights.

    Args:
        name: folder or hub name.
        kind: of configuration, `VisualSpartaConfig` or `VseConfig`.

    Raises:
        InputError: if there is no such model, or it is of another kind.
    """
    title = "VisualSparta model" if kind is VisualSpartaConfig else "dense model"
    values = read_model_config(name, (kind.model_type,), title, "--model")
    return kind.from_dict(values)


def model_fingerprint(model: PreTrainedModel) -> str:
    """SHA-256 over a model's weights and configuration, independent of its folder."""
    digest = hashlib.sha256()
    config = model.config.to_diff_dict()
    for changing in ("transformers_version", "_name_or_path"):
        config.pop(changing, None)
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
