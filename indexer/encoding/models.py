"""Models: loaded, identified by a hash of their content, and compared with feature stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from sparta.errors import InputError
from sparta.features.extract.detector_settings import extract_command
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.model_id import find_file, read_model_config, resolve
from sparta.substitutes import SUBSTITUTES, SubstituteTable
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


def read_substitutes(name: str | Path) -> SubstituteTable:
    """The table of substitutes of a model's folder or hub name; empty if it has none.

    Raises:
        InputError: if it has another format or is damaged.
    """
    path = find_file(resolve(name), SUBSTITUTES)
    return SubstituteTable() if path is None else SubstituteTable.open(path.parent)


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


def check_features(name: str | Path, config: PreTrainedConfig, store: FeatureStore) -> None:
    """Refuse features a model was not trained on.

    Args:
        name: the model's folder or hub name, for messages.
        config: the model's, with `feature_source` and `feature_dim`.
        store: the features.

    Raises:
        InputError: naming what differs (the model's against the store's).
    """
    if config.feature_source is None:
        if store.source.dimension != config.feature_dim:
            raise InputError(
                f"{store.folder} has features of {store.source.dimension} numbers, --model {name} "
                f"takes {config.feature_dim}"
            )
        return
    wanted = FeatureSource(**config.feature_source)
    if differences := wanted.differences(store.source):
        raise InputError(
            f"{store.folder} holds other features than --model {name} was trained on (the model's "
            f"against the store's): {'; '.join(differences)}. Make them with "
            f"{extract_command(wanted)}"
        )
